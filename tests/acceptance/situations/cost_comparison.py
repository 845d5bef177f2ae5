"""Compares the reported cost of each change of a group with its true cost, for the group and per partition."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from statistics import median
from typing import Final, NamedTuple

from streaming.episodes import cost
from streaming.episodes.downtime import Outage
from streaming.episodes.fold import cost_of_episode
from streaming.episodes.state import EpisodeState
from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.records import codec
from streaming.records.codec import Record
from streaming.records.downtime import add_bounds, max_bounds
from streaming.records.episodes import Bounds, Cost
from streaming.records.events import Event
from tests.acceptance.situations.best_costs import best_cost, read_commits
from tests.acceptance.situations.cost_groups import QUIET_TIME_MS, has_steady_traffic
from tests.acceptance.situations.groups import AppliedChanges, Place
from tests.acceptance.situations.true_costs import RecordTimesByPartition, TrueCost, measured_costs, total
from tests.support.pure_stream import SINKS

_NO_COST: Final[Bounds] = (0, 0)
#: Longer than a change takes.
_MAX_CATCH_UP_MS: Final = 600_000


class MeasuredFigure(NamedTuple):
    """One figure of a cost: the measured value, and the reported bounds."""

    true_value: int
    bounds: Bounds

    @property
    def inside(self) -> bool:
        lower, upper = self.bounds
        return lower <= self.true_value and (upper is None or self.true_value <= upper)

    @property
    def width(self) -> int | None:
        lower, upper = self.bounds
        return None if upper is None else upper - lower


@dataclass
class ComparedCost:
    """The cost of one change of a group.

    Attributes:
        delayed, worst_delay, catch_up_figure: the figures of the whole group.
        consumption_delay_ms: time from the consumption of the last delayed record to the reported end of catching up;
            None: unknown.
        partitions: delayed records and worst delay of each partition.
        min_delayed, best_worst_delay: the closest bounds that the commits allow, whatever is sampled.
    """

    group: str
    protocol: str
    kind: str
    delayed: MeasuredFigure
    worst_delay: MeasuredFigure
    catch_up_figure: MeasuredFigure
    consumption_delay_ms: int | None
    partitions: dict[Place, tuple[MeasuredFigure, MeasuredFigure]]
    min_delayed: Bounds
    best_worst_delay: Bounds

    @property
    def figures(self) -> dict[str, MeasuredFigure]:
        return {"delayedMessages": self.delayed, "worstDelayMs": self.worst_delay, "catchUpMs": self.catch_up_figure}

    @property
    def is_early(self) -> bool:
        """Return true if the group's reported catch-up time lies before the true one."""
        return self.consumption_delay_ms is not None and self.consumption_delay_ms < 0

    @property
    def inside(self) -> bool:
        """Return true if all measured figures of the group lie within their reported bounds."""
        return all(figure.inside for figure in self.figures.values()) and not self.is_early

    @property
    def is_each_inside(self) -> bool:
        return all(figure.inside for figures in self.partitions.values() for figure in figures)


@dataclass
class _ReportedCost:
    """The reported cost of the episodes that began after one change, by episode number.

    ``outages``: the last known state and reported cost of each outage, by episode number, partition and first round.
    """

    costs: dict[int, Cost] = field(default_factory=dict)
    outages: dict[tuple[int, Place, int], tuple[Outage, cost.PartitionCost]] = field(default_factory=dict)
    partitions: dict[int, dict[Place, tuple[Bounds, Bounds]]] = field(default_factory=dict)

    def combined_bounds(self, combine: Callable[[Bounds, Bounds], Bounds], figure: str) -> Bounds:
        """Return the bounds of one figure, combined over all these episodes."""
        return reduce(combine, (getattr(episode_cost, figure) for episode_cost in self.costs.values()), _NO_COST)

    @property
    def caught_up_at(self) -> int | None:
        times = [episode_cost.caught_up_at for episode_cost in self.costs.values()]
        return None if None in times else max((at for at in times if at is not None), default=None)

    def place(self, place: Place) -> tuple[Bounds, Bounds]:
        """Return bounds of the number of delayed records of a partition, and of its worst delay."""
        delayed, worst_delay = _NO_COST, _NO_COST
        for by_place in self.partitions.values():
            place_costs = by_place.get(place, (_NO_COST, _NO_COST))
            delayed, worst_delay = add_bounds(delayed, place_costs[0]), max_bounds(worst_delay, place_costs[1])
        return delayed, worst_delay


def compared(
    name: str, protocol: str, played: AppliedChanges, events: Iterable[Event], sent: RecordTimesByPartition
) -> list[ComparedCost]:
    """Compare reported and true cost of each change that interrupted a partition or has a reported cost."""
    events = [*events]
    true_costs_by_round = measured_costs(played.consumption_marks(), sent, played.changes)
    reported = _reported_costs(played, events)
    commits = read_commits(events)
    comparisons = []
    for number, change in enumerate(played.changes[:-1]):  # without the end of the group
        by_place, report = true_costs_by_round.get(number, {}), reported.get(number, _ReportedCost())
        sum_of_partitions = total(by_place.values())
        if sum_of_partitions.unconsumed_records or not (by_place or report.costs):
            continue
        at = report.caught_up_at
        min_delayed = best_worst_delay = _NO_COST
        for (_, place, _), (outage, outage_cost) in report.outages.items():
            best = best_cost(outage, outage_cost, sent.get(place, ()), commits.get(place, ()))
            min_delayed, best_worst_delay = add_bounds(min_delayed, best[0]), max_bounds(best_worst_delay, best[1])
        places = {*by_place, *(place for episode_costs in report.partitions.values() for place in episode_costs)}
        comparisons.append(
            ComparedCost(
                *(name, protocol, change.kind),
                delayed=MeasuredFigure(
                    sum_of_partitions.delayed, report.combined_bounds(add_bounds, "delayed_messages")
                ),
                worst_delay=MeasuredFigure(
                    sum_of_partitions.worst_ms, report.combined_bounds(max_bounds, "worst_delay_ms")
                ),
                catch_up_figure=MeasuredFigure(
                    sum_of_partitions.catch_up_ms, report.combined_bounds(max_bounds, "catch_up_ms")
                ),
                consumption_delay_ms=None
                if at is None or not sum_of_partitions.consumed_at
                else at - sum_of_partitions.consumed_at,
                partitions={place: _figures(by_place.get(place, TrueCost()), report.place(place)) for place in places},
                min_delayed=min_delayed,
                best_worst_delay=best_worst_delay,
            )
        )
    return comparisons


def _figures(true_value: TrueCost, bounds: tuple[Bounds, Bounds]) -> tuple[MeasuredFigure, MeasuredFigure]:
    return MeasuredFigure(true_value.delayed, bounds[0]), MeasuredFigure(true_value.worst_ms, bounds[1])


def _reported_costs(played: AppliedChanges, events: Iterable[Event]) -> dict[int, _ReportedCost]:
    """Return the last reported costs of the episodes, by the number of the change that preceded the episode.

    The test's changes are closer together than the stream's quiet time (two minutes), so the next change ends an
    episode here.
    """
    bucket, state = Bucket(), None
    reported: dict[int, _ReportedCost] = defaultdict(_ReportedCost)
    for offset, event in enumerate(events):
        at = event.data.timestamp
        is_next_episode = state is not None and _last_change(played, state.opened_at) != _last_change(played, at)
        sinks = SINKS._replace(quiet_ms=QUIET_TIME_MS if is_next_episode else _MAX_CATCH_UP_MS)
        process(bucket, [Record.of(0, offset, *codec.encode_event(event))], at, sinks)
        state = bucket.get(played.group).episode
        if state is None or not state.open:
            continue
        number = _last_change(played, state.opened_at)
        if number >= 0 and (episode_cost := cost_of_episode(state)[0]) is not None:
            reported[number].costs[state.number] = episode_cost
            reported[number].partitions[state.number] = _partition_costs(state)
            reported[number].outages |= _outages(state)
    return reported


def _last_change(played: AppliedChanges, at: int) -> int:
    """Return the index of the last change that began at or before ``at`` (ms); −1 if there is none."""
    return sum(change.at <= at for change in played.changes) - 1


def _partition_costs(state: EpisodeState) -> dict[Place, tuple[Bounds, Bounds]]:
    """Return the bounds of delayed records and worst delay of each partition in an episode."""
    costs: dict[Place, tuple[Bounds, Bounds]] = {}
    if state.progress is None or state.outages is None:
        return costs
    past = state.progress.past
    costs |= {(topic, number): bounds for topic, numbers in past.items() for number, bounds in numbers.items()}
    for topic, number, outage in (*state.progress.unsettled, *state.outages.tracked()):
        if outage.rounds and outage.started_at is None:
            samples = state.progress.samples.get(topic, {}).get(number, ())
            last = cost.outage_cost_bounds(samples, outage, state.opened_at)
            delayed, worst_delay = costs.get((topic, number), (_NO_COST, _NO_COST))
            costs[topic, number] = add_bounds(delayed, last.delayed), max_bounds(worst_delay, last.worst)
    return costs


def _outages(state: EpisodeState) -> dict[tuple[int, Place, int], tuple[Outage, cost.PartitionCost]]:
    """Return the outages of an episode's partitions, each with its reported cost."""
    if state.progress is None or state.outages is None:
        return {}
    samples = state.progress.samples
    return {
        (state.number, (topic, number), outage.first): (
            outage,
            cost.outage_cost_bounds(samples.get(topic, {}).get(number, ()), outage, state.opened_at),
        )
        for topic, number, outage in state.outages.tracked()
        if outage.rounds and outage.started_at is None
    }


class Summary(NamedTuple):
    """Summary of the measured and reported costs of several changes; medians are None without a value.

    Attributes:
        changes: number of changes; inside: those of which every figure lies inside its bounds.
        counts_by_figure: for each figure of a group, how many changes lie inside its bounds.
        inside_per_partition: changes of which every partition lies inside its bounds.
        bounded_count: changes whose delayed records and worst delay have upper bounds.
        messages, delay: medians of the true figures, of changes that delayed records.
        ratio: median of upper bound / true number of delayed records.
        width: median width of the worst delay's bounds, ms.
        steady_delay_ratio: ``ratio`` over the single partitions with steady traffic.
        steady_excess_delay_ms: median of upper bound − true worst delay over these partitions, ms.
        late: median time from the consumption of the last delayed record to the reported end of catching up, ms.
        best_ratio, best_width: ``ratio`` and ``width`` of the closest bounds that the commits allow.
    """

    changes: int
    inside: int
    counts_by_figure: Mapping[str, int]
    inside_per_partition: int
    bounded_count: int
    messages: float | None
    ratio: float | None
    delay: float | None
    width: float | None
    steady_delay_ratio: float | None
    steady_excess_delay_ms: float | None
    late: float | None
    best_ratio: float | None
    best_width: float | None


def summary(compared_costs: Iterable[ComparedCost]) -> Summary:
    costs = [*compared_costs]
    costs_with_delay = [item for item in costs if item.delayed.true_value]
    names = costs[0].figures if costs else ()
    figures_of_steady_partitions = [
        figures for item in costs for place, figures in item.partitions.items() if has_steady_traffic(place[1])
    ]
    stopped = [(messages, delay) for messages, delay in figures_of_steady_partitions if messages.true_value]
    return Summary(
        changes=len(costs),
        inside=sum(item.inside for item in costs),
        counts_by_figure={name: sum(item.figures[name].inside for item in costs) for name in names},
        inside_per_partition=sum(item.is_each_inside for item in costs),
        bounded_count=sum(item.delayed.width is not None and item.worst_delay.width is not None for item in costs),
        messages=_median(item.delayed.true_value for item in costs_with_delay),
        ratio=_median(
            upper / item.delayed.true_value
            for item in costs_with_delay
            if (upper := item.delayed.bounds[1]) is not None
        ),
        delay=_median(item.worst_delay.true_value for item in costs_with_delay),
        width=_median(width for item in costs_with_delay if (width := item.worst_delay.width) is not None),
        steady_delay_ratio=_median(m.bounds[1] / m.true_value for m, _ in stopped if m.bounds[1] is not None),
        steady_excess_delay_ms=_median(d.bounds[1] - d.true_value for _, d in stopped if d.bounds[1] is not None),
        late=_median(item.consumption_delay_ms for item in costs_with_delay if item.consumption_delay_ms is not None),
        best_ratio=_median(
            upper / item.delayed.true_value
            for item in costs_with_delay
            if (upper := item.min_delayed[1]) is not None and item.delayed.width is not None
        ),
        best_width=_median(
            upper - item.best_worst_delay[0]
            for item in costs_with_delay
            if (upper := item.best_worst_delay[1]) is not None and item.worst_delay.width is not None
        ),
    )


def _median(values: Iterable[float]) -> float | None:
    values = [*values]
    return median(values) if values else None
