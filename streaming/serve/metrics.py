"""`/metrics`: groups under the names other exporters use, and the feed's own health.

Totals come from the history, so they go on over restarts. Member ids are not labels: they change with every
restart of a consumer. Display names of members are, in one series a group and cause, for alerts.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable
from copy import copy
from typing import Final, TypeVar

from anyio import CapacityLimiter, to_thread
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from streaming.serve.board import STALE_KINDS, Board
from streaming.serve.connections import SharedBody
from streaming.serve.records import GroupSummary
from streaming.serve.stories import DowntimeTotals
from streaming.settings.slo import service_level

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
#: Seconds for which requests receive the same text.
FRESH_SECONDS: Final = 0.5
_GROUP: Final = ("consumergroup",)
_F = TypeVar("_F", GaugeMetricFamily, CounterMetricFamily, SummaryMetricFamily, InfoMetricFamily)


def _family(kind: type[_F], name: str, text: str, *labels: str) -> _F:
    """Return a metric family with a label for the group, and others."""
    return kind(f"kafka_consumergroup_{name}", text, labels=[*_GROUP, *labels])


class BoardMetrics(Collector):
    """Metrics of the groups, the open incidents, the components and the feed, as on the board."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def describe(self) -> Iterable[Metric]:
        """Nothing ahead of time: collecting for a description would walk all groups."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Yield one family a name."""
        # Series of deleted groups would stay for as long as the history has their rounds.
        groups = [group for group in self._board.groups.values() if group.state != "Dead"]
        yield from self._groups(groups)
        yield from self._downtime(groups)
        yield from self._incidents()
        yield from self._feed()
        yield from self._components()

    def _groups(self, groups: list[GroupSummary]) -> Iterable[Metric]:
        members = _family(GaugeMetricFamily, "members", "Members of the group.")
        state = _family(GaugeMetricFamily, "state", "1 for its state; Unknown while the feed is stale.", "state")
        status = _family(GaugeMetricFamily, "status", "1 for its status; unknown while the feed is stale.", "status")
        rebalancing = _family(
            GaugeMetricFamily,
            "rebalancing_seconds",
            "Seconds since the rebalance in progress began; 0 without one, no series while the feed is stale.",
        )
        unowned = _family(GaugeMetricFamily, "unowned_partitions", "Subscribed partitions without an owner.")
        rebalances = _family(CounterMetricFamily, "rebalances", "Rebalances, by the cause of the first round.", "cause")
        rounds = _family(CounterMetricFamily, "rounds", "Rounds of rebalances, by cause.", "cause")
        moved = _family(CounterMetricFamily, "partitions_moved", "Partitions given to another owner.")
        unavailable = _family(
            CounterMetricFamily,
            "partition_unavailable_seconds",
            "Seconds that partitions spent without an owner between rounds, summed over partitions.",
        )
        duration = _family(
            SummaryMetricFamily,
            "rebalance_duration_seconds",
            "Seconds between first and last round of rebalances of more than one round.",
        )
        last = _family(GaugeMetricFamily, "last_rebalance_timestamp_seconds", "Time of the latest round.")
        info = InfoMetricFamily("kafka_consumergroup", "What kind of group it is.", labels=_GROUP)
        named = _family(
            InfoMetricFamily,
            "cause_members",
            "Display names of the members that the newest round with this cause names.",
            "cause",
        )
        stale, now_ms = self._board.status.stale is not None, time.time() * 1000
        for group in groups:
            name = group.group_id
            status.add_metric([name, "unknown" if stale else group.status], 1)
            if not stale:
                lasting = max(0, now_ms - group.since) if group.status == "rebalancing" else 0
                rebalancing.add_metric([name], lasting / 1000)
            members.add_metric([name], group.members)
            state.add_metric([name, "Unknown" if stale else group.state], 1)
            unowned.add_metric([name], group.unassigned)
            for cause, count in group.rebalance_causes.items():
                rebalances.add_metric([name, cause], count)
            for cause, count in group.causes.items():
                rounds.add_metric([name, cause], count)
            moved.add_metric([name], group.moved_total)
            unavailable.add_metric([name], group.unavailable_ms / 1000)
            if group.timed_rebalances:
                duration.add_metric([name], group.timed_rebalances, group.rebalance_ms / 1000)
            last.add_metric([name], group.timestamp / 1000)
            info.add_metric([name], {"kind": group.kind, "protocol": group.protocol})
            for cause, text in group.cause_members.items():
                named.add_metric([name, cause], {"members": text})
        return (
            members,
            state,
            status,
            rebalancing,
            unowned,
            rebalances,
            rounds,
            moved,
            unavailable,
            duration,
            last,
            info,
            named,
        )

    def _downtime(self, groups: list[GroupSummary]) -> Iterable[Metric]:
        """Yield both bounds, and the number of partitions without an upper one. Unknown bounds have no series."""
        lower = _family(
            CounterMetricFamily,
            "downtime_lower_seconds",
            "Seconds without a consumer in episodes that are over, summed over partitions: at least.",
        )
        upper = _family(
            CounterMetricFamily,
            "downtime_upper_seconds",
            "The same at most; no series once a partition of the group had no upper bound.",
        )
        unbounded = _family(
            CounterMetricFamily,
            "downtime_unbounded_partitions",
            "Partitions without a consumer in an episode for a time without an upper bound.",
        )
        allowed = _family(
            GaugeMetricFamily,
            "slo_downtime_seconds",
            "Seconds without a consumer that [[slo]] allows a day, summed over partitions.",
        )
        totals = self._board.current_stories.downtime
        for group in groups:
            if group.kind != "consumer":
                continue  # only consumers' downtime is measured
            total = totals.get(group.group_id, DowntimeTotals())
            lower.add_metric([group.group_id], total.lower_ms / 1000)
            if not total.unbounded:
                upper.add_metric([group.group_id], total.upper_ms / 1000)
            unbounded.add_metric([group.group_id], total.unbounded)
            level = service_level(self._board.levels, group.group_id)
            if level is not None and level.downtime_day_ms is not None:
                allowed.add_metric([group.group_id], level.downtime_day_ms / 1000)
        return lower, upper, unbounded, allowed

    def _incidents(self) -> Iterable[Metric]:
        """Yield one sample a group and kind, and one a kind of the cluster's incidents."""
        of_group = _family(GaugeMetricFamily, "incident_open", "Open incidents of the group, by kind.", "kind")
        of_cluster = GaugeMetricFamily(
            "rebalance_monitor_cluster_incident_open", "Open incidents of the cluster, by kind.", labels=["kind"]
        )
        counts = Counter(
            (incident.kind,) if incident.scope == "cluster" else (incident.group_id, incident.kind)
            for incident in self._board.current_stories.open.values()
        )
        for which, count in counts.items():
            (of_cluster if len(which) == 1 else of_group).add_metric(which, count)
        return of_group, of_cluster

    def _feed(self) -> Iterable[Metric]:
        board, name = self._board, "rebalance_monitor_feed"
        status = board.status
        gauges = {
            "clients": ("Clients of the event stream.", board.listeners),
            "lag_records": ("Unread records; NaN while unknown.", math.nan if status.lag is None else status.lag),
            "caught_up": ("1 while the topics are known to be read to their ends.", float(status.caught_up)),
            "stale_since_timestamp_seconds": (
                "Time of the data; 0 while it is up to date.",
                0 if status.stale is None else status.stale.since / 1000,
            ),
        }
        counters = {
            "rounds": ("Rounds stored.", board.extent.last),
            "repeated_records": ("Diffs dropped as seen.", board.repeated),
            "refused_records": ("Records not usable.", board.refused),
            "clients_behind": ("Times a client fell back on the history.", board.fell_behind),
            "clients_cut_off": ("Clients that took no bytes for too long.", board.cut_off),
        }
        for suffix, (text, value) in gauges.items():
            yield GaugeMetricFamily(f"{name}_{suffix}", text, value=value)
        for suffix, (text, count) in counters.items():
            yield CounterMetricFamily(f"{name}_{suffix}", text, value=count)
        stale = GaugeMetricFamily(f"{name}_stale", "1 for the reason why the feed is not up to date.", labels=["cause"])
        for kind in STALE_KINDS:
            stale.add_metric([kind], float(status.stale is not None and status.stale.kind == kind))
        yield stale

    def _components(self) -> Iterable[Metric]:
        labels, name = ["part", "id"], "rebalance_monitor_part"
        alive = GaugeMetricFamily(
            f"{name}_alive", "0 for a component that has stopped, or whose heartbeats are late.", labels=labels
        )
        heartbeat = GaugeMetricFamily(
            f"{name}_last_heartbeat_timestamp_seconds", "Time of its last heartbeat.", labels=labels
        )
        up_to = GaugeMetricFamily(
            f"{name}_up_to_timestamp_seconds",
            "Everything before this time has gone through it, by its last heartbeat.",
            labels=labels,
        )
        for part in self._board.status.parts:
            which = [part.part, part.id]
            alive.add_metric(which, float(part.state in ("alive", "behind")))
            heartbeat.add_metric(which, part.last_heartbeat / 1000)
            up_to.add_metric(which, part.up_to / 1000)
        return alive, heartbeat, up_to


class Metrics:
    """All metrics of the process."""

    def __init__(self, board: Board) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(BoardMetrics(board))

    def text(self) -> bytes:
        """Return the text format, as Prometheus scrapes it."""
        return generate_latest(self._registry)


class Exposition:
    """The text of ``/metrics``: made in a thread, one at a time, the same for all requests of the next moment."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._maker = CapacityLimiter(1)
        self._text: SharedBody | None = None
        self._until = 0.0

    async def response(self, request: Request) -> Response:
        """Return the newest text, made anew if it is old."""
        view = copy(self._board)
        view.groups = dict(view.groups)  # the thread must not meet changes
        text = await to_thread.run_sync(self._current, view, limiter=self._maker)
        return await text.response(request, self._maker)

    def _current(self, view: Board) -> SharedBody:
        began = time.monotonic()
        if self._text is None or began >= self._until:
            self._text = SharedBody(Metrics(view).text(), CONTENT_TYPE)
            # A third of the time at most is spent on it, however large it is and however many ask.
            self._until = time.monotonic() + max(FRESH_SECONDS, 2 * (time.monotonic() - began))
        return self._text
