"""Savings by a change, from past episodes: simulated without and with it, or measured before and after it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice, pairwise, takewhile
from typing import Final

from assignors.errors import BadInput
from streaming.advice.clients import COOPERATIVE
from streaming.advice.history import DEPLOY_KINDS, GroupHistory
from streaming.advice.model import CostSaving, Document, Finding, Replay, list_text, make_evidence
from streaming.episodes.story import bounds, count, duration, moment
from streaming.protocols.vocabulary import TimingModel
from streaming.records.downtime import add_bounds
from streaming.records.episodes import Bounds, Episode
from streaming.simulation.changes import rolling_restart
from streaming.simulation.forecast import ChangeCost, find_way, format_seconds, simulate_cost
from streaming.simulation.parse import parse_scenario
from streaming.simulation.past_episode import past_change

#: A saving of less than this share of the downtime is within the error of a forecast.
MIN_SAVED_SHARE: Final = 0.1
#: The largest number of a group's episodes that are replayed for one piece of advice.
MAX_REPLAYED_EPISODES: Final = 5
#: The most work for one episode, which is events × members + :data:`_BASE_WORK`; a unit is about 50 µs of simulation.
MAX_SIMULATION_WORK: Final = 40_000
_BASE_WORK: Final = 40
#: The most work for one episode of which the shortest and the longest forecast are simulated too.
_MAX_EXTREME_SCENARIO_WORK: Final = 4000
#: A replayed episode, and its simulated cost without and with the change.
_Comparison = tuple[Episode, ChangeCost, ChangeCost]


@dataclass
class Budget:
    """Simulation work left for replays of past episodes, mainly events × members; see :data:`MAX_SIMULATION_WORK`."""

    work: int = 4 * MAX_SIMULATION_WORK


@dataclass
class Replayer:
    """Simulator of past episodes of one group, within a budget that several groups may share."""

    history: GroupHistory
    budget: Budget = field(default_factory=Budget)
    _costs: dict[tuple[int, str | None, str | None, int], ChangeCost | None] = field(default_factory=dict)

    def saving(self, replay: Replay) -> CostSaving | None:
        """Return the saving that a change would have brought in past episodes; None if no episode can be replayed."""
        costs = ((each, self._cost(each, Replay(())), self._cost(each, replay)) for each in replay.episodes)
        complete = ((each, before, after) for each, before, after in costs if before is not None and after is not None)
        comparisons = list(islice(complete, MAX_REPLAYED_EPISODES))
        return _total_saving(comparisons) if comparisons else None

    def _cost(self, episode: Episode, replay: Replay) -> ChangeCost | None:
        key = (episode.episode, *replay[1:])
        if key not in self._costs:
            self._costs[key] = None
            with suppress(BadInput):
                self._costs[key] = self._simulate_episode(episode, replay)
        return self._costs[key]

    def _simulate_episode(self, episode: Episode, replay: Replay) -> ChangeCost | None:
        diffs = self.history.rounds.get(episode.episode, ())
        if len(diffs) < episode.round_count:
            return None
        start, _, document, _ = past_change(episode, diffs, self.history.live, {})
        work = len(document["events"]) * len(document["members"]) + _BASE_WORK
        extreme_scenarios = [*_extreme_scenarios(document)] if work <= _MAX_EXTREME_SCENARIO_WORK else []
        if work > MAX_SIMULATION_WORK or work * (1 + len(extreme_scenarios)) > self.budget.work:
            return None
        self.budget.work -= work * (1 + len(extreme_scenarios))
        way = find_way(replay.way or start.way, start.protocol, start.assignor)
        edit = _SCENARIO_EDITS[replay.edit] if replay.edit else lambda document, _: document
        usual = simulate_cost(parse_scenario(edit(document, replay.value)), way, rounds=False)
        downtimes = [usual.total_ms]
        for extreme_scenario in extreme_scenarios:
            with suppress(BadInput):  # Longer absences of one member may overlap.
                scenario = parse_scenario(edit(extreme_scenario, replay.value))
                downtimes.append(simulate_cost(scenario, way, rounds=False).total_ms)
        return usual._replace(range_ms=(min(downtimes), max(downtimes))) if extreme_scenarios else usual


def _total_saving(pairs: Sequence[_Comparison]) -> CostSaving:
    rounds = _sum_bounds(pairs, lambda cost: cost.simulation.result.round_count)
    moved = _sum_bounds(pairs, lambda cost: cost.simulation.result.moved)
    downtime = _sum_bounds(pairs, lambda cost: cost.total_ms)
    least, most = _sum_bounds(pairs, lambda cost: cost.range_ms[0]), _sum_bounds(pairs, lambda cost: cost.range_ms[1])
    ranges = ((least[0], most[0]), (least[1], most[1])) if all(cost.range_ms[1] for _, cost, _ in pairs) else None
    episodes = [episode for episode, _, _ in pairs]
    measured = _total_bounds([episode.downtime.total_ms for episode in episodes if episode.downtime is not None])
    delayed = _total_bounds([episode.cost.delayed_messages for episode in episodes if episode.cost is not None])
    text = f"{format_seconds(downtime[1])} instead of {format_seconds(downtime[0])} of downtime in "
    text += f"{count(len(pairs), 'replayed episode')}, all partitions together; {rounds[1]} instead of "
    text += f"{count(rounds[0], 'round')}, {moved[1]} instead of {count(moved[0], 'move')}"
    text += f"; by how fast members react, {bounds(ranges[1])} instead of {bounds(ranges[0])}" if ranges else ""
    return CostSaving(
        text=text if measured is None else f"{text} (measured then: {bounds(measured)})",
        episodes=[episode.episode for episode in episodes],
        rounds=rounds,
        moved=moved,
        downtime_ms=downtime,
        downtime_range_ms=ranges,
        measured_ms=measured,
        delayed_messages=delayed,
    )


def _total_bounds(all_bounds: Sequence[Bounds]) -> Bounds | None:
    return reduce(add_bounds, all_bounds) if all_bounds else None


def is_worthwhile(saving: CostSaving) -> bool:
    """Return True if advice lowers the downtime by more than the error of a forecast."""
    before, after = saving.downtime_ms or (1, 0)
    return before > 0 and before - after >= MIN_SAVED_SHARE * before


def _sum_bounds(pairs: Sequence[_Comparison], figure: Callable[[ChangeCost], int]) -> tuple[int, int]:
    return sum(figure(before) for _, before, _ in pairs), sum(figure(after) for _, _, after in pairs)


def _extreme_scenarios(document: Document) -> Iterator[Document]:
    """Yield the scenario with members that react fast and slowly, and the shortest and longest absences of members.

    Members depart and return up to a heartbeat interval before their rounds. A crashed member's successor that is in
    the round that removed the member joined at some time before, and the group then waited for the old session. A
    deploy that waits for the group takes longer if rebalances do; otherwise its restarts would share rebalances.
    """
    session_ms, usual = document["session_timeout_ms"], TimingModel()
    interval_ms = min(usual.heartbeat_ms, session_ms // 3)
    crashes = {event["crash"]: event["at"] for event in document["events"] if "crash" in event}
    for pace, added_ms, stretch_factor in ((0.02, -interval_ms, 1), (2, -interval_ms, 1), (2, interval_ms, 2)):
        times = {"heartbeat_ms": interval_ms, "consumer_heartbeat_ms": usual.consumer_heartbeat_ms}
        times = {name: round(pace * ms) for name, ms in (times | {"processing_ms": usual.processing_ms}).items()}
        events = []
        for event in document["events"]:
            changed, at = {**event, "at": event["at"] * stretch_factor}, crashes.get(event.get("join"))
            if "bounce" in event:
                changed["down_ms"] = max(event["down_ms"] + added_ms, 1)
            elif at is not None:
                is_early = added_ms < 0 and event["at"] == at + session_ms
                changed["at"] = at * stretch_factor + (1 if is_early else max(event["at"] - at + added_ms, 1))
            events.append(changed)
        yield {**document, **times, "events": sorted(events, key=lambda event: event["at"])}


def _crashes_to_bounces(document: Document, how: str) -> Document:
    """Return the scenario with each crash and rejoin replaced by a ``bounce`` or ``pause`` of the same duration."""
    events = list(document["events"])
    for crash in [event for event in events if "crash" in event]:
        at, name = crash["at"], crash["crash"]
        back = next((event for event in events if event.get("join") == name), None)
        left = {"at": at, "leave": name} if back is None else {"at": at, how: name, "down_ms": max(back["at"] - at, 1)}
        events = [left if event is crash else event for event in events if event is not back]
    return {**document, "events": sorted(events, key=lambda event: event["at"])}


def _restart_in_batches(document: Document, parallel: int) -> Document:
    """Return the scenario with ``parallel`` members restarted at once; downtimes and pauses stay the same."""
    bounces = [event for event in document["events"] if "bounce" in event]
    if not bounces:
        return document
    down_ms = sorted(event["down_ms"] for event in bounces)[len(bounces) // 2]
    gaps = sorted(after["at"] - before["at"] for before, after in pairwise(bounces))
    between_ms = max(gaps[len(gaps) // 2] - down_ms, 1) if gaps else 1
    names = [event["bounce"] for event in bounces]
    return {**document, "events": rolling_restart(names, parallel=parallel, down_ms=down_ms, between_ms=between_ms)}


#: Changes of a scenario by name; arguments are the document and the replay's value. ``closing``: members leave
#: instead of crashing. ``pauses``: sessions are longer, so that members pause instead of losing their sessions.
_SCENARIO_EDITS: Final[Mapping[str, Callable[[Document, int], Document]]] = {
    "closing": lambda document, _: _crashes_to_bounces(document, "bounce"),
    "session": lambda document, session_ms: {**document, "session_timeout_ms": session_ms},
    "pauses": lambda document, session_ms: {**_crashes_to_bounces(document, "pause"), "session_timeout_ms": session_ms},
    "batches": _restart_in_batches,
}
#: Kinds of deploys, including those that static membership keeps free of rebalances.
_COMPARED: Final = DEPLOY_KINDS | {"static-bounce"}
#: Way to rebalance → the rule that recommends this way.
_RULES: Final = {"cooperative": "cooperative-assignor", "consumer": "consumer-protocol", "static": "static-membership"}


def applied_changes(replayer: Replayer) -> Iterator[tuple[str, Finding]]:
    """Yield advice that the latest deploys already follow: they rebalance in another way than earlier deploys."""
    deploys = [each for each in replayer.history.episodes_of(_COMPARED) if each.downtime or not each.rebalances]
    ways = [_protocol_label(episode) for episode in deploys]
    number = sum(1 for _ in takewhile(lambda way: way == ways[0], ways))
    if 0 < number < len(deploys) and ways[0] in _RULES:
        yield f"{_RULES[ways[0]]}/applied", _compare_way(ways[0], deploys[number:], deploys[:number], replayer)


def _protocol_label(episode: Episode) -> str:
    names = episode.members.names.values()
    if names and all(member.group_instance_id for member in names):
        return "static"
    if episode.protocol == "consumer":
        return "consumer"
    return "cooperative" if episode.assignor == COOPERATIVE else "eager"


def _compare_way(way: str, before: Sequence[Episode], after: Sequence[Episode], replayer: Replayer) -> Finding:
    earlier, later = _downtime_per_deploy(before), _downtime_per_deploy(after)
    forecast = replayer.saving(Replay(before, way=way))
    text = f"{bounds(later)} instead of {bounds(earlier)} a deploy, all partitions together"
    if forecast is not None and forecast.downtime_ms is not None:
        text += f" (forecast: {duration(forecast.downtime_ms[1] // len(forecast.episodes))})"
    deploys = f"{count(len(before), 'deploy')} before ({list_text(before)}), {len(after)} after ({list_text(after)})"
    since = f"{way} since {moment(after[-1].opened_at)} UTC"
    is_better = later[1] is not None and later[1] < earlier[0]
    return Finding(
        "info",
        [make_evidence(f"{since}: {text}; {deploys}", [*before, *after], beforeMs=earlier[0], afterMs=later[0])],
        "Nothing: it helped" if is_better else "Nothing: the bounds overlap, so no gain is proven yet",
        saving=CostSaving(text=text, downtime_ms=None if forecast is None else forecast.downtime_ms, measured_ms=later),
        confidence="high" if is_better else "low",
    )


def _downtime_per_deploy(episodes: Sequence[Episode]) -> Bounds:
    downtimes = [(0, 0) if episode.downtime is None else episode.downtime.total_ms for episode in episodes]
    lower, upper = reduce(add_bounds, downtimes)
    return lower // len(episodes), None if upper is None else upper // len(episodes)
