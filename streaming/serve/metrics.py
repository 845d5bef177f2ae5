"""`/metrics`: groups under the names other exporters use, and the feed's own health.

Totals come from the history, so they go on over restarts. Member ids are not labels: they change with every
restart of a consumer. Display names of members are, in one series a group and cause, for alerts.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import copy
from typing import Final

from anyio import CapacityLimiter, to_thread
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from streaming.serve.board import STALE_KINDS, Board
from streaming.serve.connections import SharedBody
from streaming.serve.records import GroupSummary
from streaming.serve.stories import DowntimeTotals

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
#: Seconds for which requests receive the same text.
FRESH_SECONDS: Final = 0.5


class _BoardCollector(Collector):
    """Reads the board whenever metrics are collected."""

    def __init__(self, board: Board) -> None:
        self._board = board

    @property
    def groups(self) -> Iterator[GroupSummary]:
        """Groups that exist: series of deleted ones would stay for as long as the history has their rounds."""
        return (group for group in self._board.groups.values() if group.state != "Dead")

    def describe(self) -> Iterable[Metric]:
        """Nothing ahead of time: collecting for a description would walk all groups."""
        return ()


class GroupMetrics(_BoardCollector):
    """Metrics of every group on the board."""

    def collect(self) -> Iterable[Metric]:
        """One family per name, with one sample per group."""
        label = ["consumergroup"]
        members = GaugeMetricFamily("kafka_consumergroup_members", "Members of the group.", labels=label)
        state = GaugeMetricFamily(
            "kafka_consumergroup_group_state",
            "1 for its state; Unknown while the feed is stale.",
            labels=[*label, "state"],
        )
        unowned = GaugeMetricFamily(
            "kafka_consumergroup_unowned_partitions", "Subscribed partitions without an owner.", labels=label
        )
        rebalances = CounterMetricFamily(
            "kafka_consumergroup_rebalances", "Rebalance rounds, by cause.", labels=[*label, "cause"]
        )
        moved = CounterMetricFamily(
            "kafka_consumergroup_partitions_moved", "Partitions given to another owner.", labels=label
        )
        unavailable = CounterMetricFamily(
            "kafka_consumergroup_partition_unavailable_seconds",
            "Seconds that partitions spent without an owner between rounds, summed over partitions.",
            labels=label,
        )
        duration = SummaryMetricFamily(
            "kafka_consumergroup_rebalance_duration_seconds",
            "Seconds between first and last round of rebalances of more than one round.",
            labels=label,
        )
        last = GaugeMetricFamily(
            "kafka_consumergroup_last_rebalance_timestamp_seconds", "Time of the latest round.", labels=label
        )
        info = InfoMetricFamily("kafka_consumergroup", "What kind of group it is.", labels=label)
        named = InfoMetricFamily(
            "kafka_consumergroup_cause_members",
            "Display names of the members that the newest round with this cause names.",
            labels=[*label, "cause"],
        )
        stale = self._board.status.stale is not None
        for group in self.groups:
            name = group.group_id
            members.add_metric([name], group.members)
            state.add_metric([name, "Unknown" if stale else group.state], 1)
            unowned.add_metric([name], group.unassigned)
            for cause, rounds in group.causes.items():
                rebalances.add_metric([name, cause], rounds)
            moved.add_metric([name], group.moved_total)
            unavailable.add_metric([name], group.unavailable_ms / 1000)
            if group.timed_rebalances:
                duration.add_metric([name], group.timed_rebalances, group.rebalance_ms / 1000)
            last.add_metric([name], group.timestamp / 1000)
            info.add_metric([name], {"kind": group.kind, "protocol": group.protocol})
            for cause, text in group.cause_members.items():
                named.add_metric([name, cause], {"members": text})
        return members, state, unowned, rebalances, moved, unavailable, duration, last, info, named


class DowntimeMetrics(_BoardCollector):
    """Downtime of consumer groups, by the episodes that are over."""

    def collect(self) -> Iterable[Metric]:
        """Both bounds, and the partitions without an upper one. Unknown bounds have no series."""
        name, label = "kafka_consumergroup_downtime", ["consumergroup"]
        lower = CounterMetricFamily(
            f"{name}_lower_seconds",
            "Seconds without a consumer in episodes that are over, summed over partitions: at least.",
            labels=label,
        )
        upper = CounterMetricFamily(
            f"{name}_upper_seconds",
            "The same at most; no series once a partition of the group had no upper bound.",
            labels=label,
        )
        unbounded = CounterMetricFamily(
            f"{name}_unbounded_partitions",
            "Partitions without a consumer in an episode for a time without an upper bound.",
            labels=label,
        )
        totals = self._board.current_stories.downtime
        for group in self.groups:
            if group.kind != "consumer":
                continue  # only consumers' downtime is measured
            total = totals.get(group.group_id, DowntimeTotals())
            lower.add_metric([group.group_id], total.lower_ms / 1000)
            if not total.unbounded:
                upper.add_metric([group.group_id], total.upper_ms / 1000)
            unbounded.add_metric([group.group_id], total.unbounded)
        return lower, upper, unbounded


class IncidentMetrics(_BoardCollector):
    """Metrics of open incidents."""

    def collect(self) -> Iterable[Metric]:
        """Yield one sample a group and kind."""
        open_incidents = GaugeMetricFamily(
            "kafka_consumergroup_incident_open",
            "Open incidents of the group, by kind.",
            labels=["consumergroup", "kind"],
        )
        counts = Counter(
            (incident.group_id, incident.kind) for incident in self._board.current_stories.open.values()
        )
        for which, count in counts.items():
            open_incidents.add_metric(which, count)
        return (open_incidents,)


class FeedMetrics(_BoardCollector):
    """Metrics of the feed itself."""

    def collect(self) -> Iterable[Metric]:
        """One sample per name."""
        board = self._board
        name = "rebalance_monitor_feed"
        yield GaugeMetricFamily(f"{name}_clients", "Clients of the event stream.", value=board.listeners)
        lag, now_stale = board.status.lag, board.status.stale
        yield GaugeMetricFamily(
            f"{name}_lag_records",
            "Unread records; NaN while unknown.",
            value=math.nan if lag is None else lag,
        )
        yield GaugeMetricFamily(
            f"{name}_caught_up",
            "1 while the topics are known to be read to their ends.",
            value=float(board.status.caught_up),
        )
        stale = GaugeMetricFamily(
            f"{name}_stale", "1 for the reason why the feed is not up to date.", labels=["cause"]
        )
        for kind in STALE_KINDS:
            stale.add_metric([kind], float(now_stale is not None and now_stale.kind == kind))
        yield stale
        yield GaugeMetricFamily(
            f"{name}_stale_since_timestamp_seconds",
            "Time of the data; 0 while it is up to date.",
            value=0 if now_stale is None else now_stale.since / 1000,
        )
        yield CounterMetricFamily(f"{name}_rounds", "Rounds stored.", value=board.extent.last)
        yield CounterMetricFamily(f"{name}_repeated_records", "Diffs dropped as seen.", value=board.repeated)
        yield CounterMetricFamily(f"{name}_refused_records", "Records not usable.", value=board.refused)
        yield CounterMetricFamily(
            f"{name}_clients_behind", "Times a client fell back on the history.", value=board.fell_behind
        )
        yield CounterMetricFamily(
            f"{name}_clients_cut_off", "Clients that took no bytes for too long.", value=board.cut_off
        )


class PartMetrics(_BoardCollector):
    """Metrics of the components that send heartbeats."""

    def collect(self) -> Iterable[Metric]:
        """One family per name, with one sample per part."""
        label = ["part", "id"]
        name = "rebalance_monitor_part"
        alive = GaugeMetricFamily(
            f"{name}_alive", "0 for a component that has stopped, or whose heartbeats are late.", labels=label
        )
        heard = GaugeMetricFamily(
            f"{name}_last_heard_timestamp_seconds", "Time of its last heartbeat.", labels=label
        )
        up_to = GaugeMetricFamily(
            f"{name}_up_to_timestamp_seconds",
            "Everything before this time has gone through it, by its last heartbeat.",
            labels=label,
        )
        for part in self._board.status.parts:
            which = [part.part, part.id]
            alive.add_metric(which, float(part.state in ("alive", "behind")))
            heard.add_metric(which, part.last_heard / 1000)
            up_to.add_metric(which, part.up_to / 1000)
        return alive, heard, up_to


class Metrics:
    """All metrics of the process."""

    def __init__(self, board: Board) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(GroupMetrics(board))
        self._registry.register(DowntimeMetrics(board))
        self._registry.register(IncidentMetrics(board))
        self._registry.register(FeedMetrics(board))
        self._registry.register(PartMetrics(board))

    def text(self) -> bytes:
        """The text format, as Prometheus scrapes it."""
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
