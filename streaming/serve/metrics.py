"""`/metrics`: groups under the names other exporters use, and the feed's own health.

Totals come from the history, so they go on over restarts. Member ids are not labels: they change with every
restart of a consumer. Display names of members are, in one series a group and cause, for alerts.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any, Final

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
from streaming.settings.config import ServiceLevel, service_level

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
#: Seconds for which requests receive the same text.
FRESH_SECONDS: Final = 0.5
#: Samples of a family: label values (after the group's), and a value.
_Samples = Iterable[tuple[tuple[str, ...], Any]]
_KINDS: Final[dict[str, Any]] = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily, "info": InfoMetricFamily}


def _metric(kind: str, name: str, text: str, labels: Sequence[str], samples: _Samples) -> Metric:
    family: Metric = _KINDS[kind](name, text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)  # type: ignore[attr-defined] # each of the three has it
    return family


def _per_group(group: GroupSummary, *, is_stale: bool, now_ms: float) -> dict[str, _Samples]:
    lasting = max(0, now_ms - group.since) / 1000 if group.status == "rebalancing" else 0
    return {
        "members": [((), group.members)],
        "state": [(("Unknown" if is_stale else group.state,), 1)],
        "status": [(("unknown" if is_stale else group.status,), 1)],
        "rebalancing_seconds": [] if is_stale else [((), lasting)],
        "unowned_partitions": [((), group.unassigned)],
        "rebalances": [((cause,), count) for cause, count in group.rebalance_causes.items()],
        "rounds": [((cause,), count) for cause, count in group.causes.items()],
        "partitions_moved": [((), group.moved_total)],
        "partition_unavailable_seconds": [((), group.unavailable_ms / 1000)],
        "last_rebalance_timestamp_seconds": [((), group.timestamp / 1000)],
        "": [((), {"kind": group.kind, "protocol": group.protocol})],
        "cause_members": [((cause,), {"members": text}) for cause, text in group.cause_members.items()],
    }


def _of_consumers(total: DowntimeTotals, level: ServiceLevel | None) -> dict[str, _Samples]:
    """Return the samples of downtime, which is measured of consumers only. Unknown bounds have no series."""
    allowed = None if level is None else level.downtime_day_ms
    return {
        "downtime_lower_seconds": [((), total.lower_ms / 1000)],
        "downtime_upper_seconds": [] if total.unbounded else [((), total.upper_ms / 1000)],
        "downtime_unbounded_partitions": [((), total.unbounded)],
        "slo_downtime_seconds": [] if allowed is None else [((), allowed / 1000)],
    }


#: Name after ``kafka_consumergroup``, kind, label beside the group's, and text.
_GROUP_FAMILIES: Final = (
    ("members", "gauge", "", "Members of the group."),
    ("state", "gauge", "state", "1 for its state; Unknown while the feed is stale."),
    ("status", "gauge", "status", "1 for its status; unknown while the feed is stale."),
    ("rebalancing_seconds", "gauge", "", "Seconds since the rebalance in progress began; 0 without one."),
    ("unowned_partitions", "gauge", "", "Subscribed partitions without an owner."),
    ("rebalances", "counter", "cause", "Rebalances, by the cause of the first round."),
    ("rounds", "counter", "cause", "Rounds of rebalances, by cause."),
    ("partitions_moved", "counter", "", "Partitions given to another owner."),
    (
        "partition_unavailable_seconds",
        "counter",
        "",
        "Seconds without an owner between rounds, summed over partitions.",
    ),
    ("last_rebalance_timestamp_seconds", "gauge", "", "Time of the latest round."),
    ("", "info", "", "What kind of group it is."),
    ("cause_members", "info", "cause", "Display names of the members that the newest round with this cause names."),
    ("downtime_lower_seconds", "counter", "", "Seconds without a consumer in finished episodes, at least."),
    ("downtime_upper_seconds", "counter", "", "The same at most; no series once a partition had no upper bound."),
    ("downtime_unbounded_partitions", "counter", "", "Partitions whose time without a consumer has no upper bound."),
    ("slo_downtime_seconds", "gauge", "", "Seconds without a consumer that [[slo]] allows a day."),
)


class Metrics(Collector):
    """Metrics of the groups, the open incidents, the components and the feed, as on the board."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def text(self) -> bytes:
        """Return the text format, as Prometheus scrapes it."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterable[Metric]:
        """Yield one family a name."""
        yield from self._groups()
        yield from self._incidents()
        yield from self._feed()
        yield from self._components()

    def _groups(self) -> Iterable[Metric]:
        board, samples = self._board, defaultdict[str, list[tuple[tuple[str, ...], Any]]](list)
        duration = SummaryMetricFamily(
            "kafka_consumergroup_rebalance_duration_seconds",
            "Seconds between first and last round of rebalances of more than one round.",
            labels=["consumergroup"],
        )
        for group in board.groups.values():
            if group.state == "Dead":  # its series would stay for as long as the history has its rounds
                continue
            name = group.group_id
            found = _per_group(group, is_stale=board.status.stale is not None, now_ms=time.time() * 1000)
            if group.kind == "consumer":
                total = board.current_stories.downtime.get(name, DowntimeTotals())
                found |= _of_consumers(total, service_level(board.levels, name))
            for family, values in found.items():
                samples[family] += [((name, *labels), value) for labels, value in values]
            if group.timed_rebalances:
                duration.add_metric([name], group.timed_rebalances, group.rebalance_ms / 1000)
        for suffix, kind, label, text in _GROUP_FAMILIES:
            name, labels = f"kafka_consumergroup_{suffix}".rstrip("_"), ["consumergroup", label]
            yield _metric(kind, name, text, labels if label else labels[:1], samples[suffix])
        yield duration

    def _incidents(self) -> Iterable[Metric]:
        incidents = self._board.current_stories.open.values()
        of_groups = Counter((one.group_id, one.kind) for one in incidents if one.scope == "group")
        of_cluster = Counter((one.kind,) for one in incidents if one.scope == "cluster")
        labels = ("consumergroup", "kind")
        text = "Open incidents of the group, by kind."
        yield _metric("gauge", "kafka_consumergroup_incident_open", text, labels, of_groups.items())
        text = "Open incidents of the cluster, by kind."
        yield _metric("gauge", "rebalance_monitor_cluster_incident_open", text, labels[1:], of_cluster.items())

    def _feed(self) -> Iterable[Metric]:
        board, status, stale = self._board, self._board.status, self._board.status.stale
        families = (
            ("gauge", "clients", "Clients of the event stream.", board.listeners),
            (
                "gauge",
                "lag_records",
                "Unread records; NaN while unknown.",
                math.nan if status.lag is None else status.lag,
            ),
            ("gauge", "caught_up", "1 while the topics are known to be read to their ends.", float(status.caught_up)),
            (
                "gauge",
                "stale_since_timestamp_seconds",
                "Time of the data; 0 while it is up to date.",
                stale.since / 1000 if stale else 0,
            ),
            ("counter", "rounds", "Rounds stored.", board.extent.last),
            ("counter", "repeated_records", "Diffs dropped as seen.", board.repeated),
            ("counter", "refused_records", "Records not usable.", board.refused),
            ("counter", "clients_behind", "Times a client fell back on the history.", board.fell_behind),
            ("counter", "clients_cut_off", "Clients that took no bytes for too long.", board.cut_off),
        )
        for kind, name, text, value in families:
            yield _metric(kind, f"rebalance_monitor_feed_{name}", text, (), [((), value)])
        reasons = [((kind,), float(stale is not None and stale.kind == kind)) for kind in STALE_KINDS]
        text = "1 for the reason why the feed is not up to date."
        yield _metric("gauge", "rebalance_monitor_feed_stale", text, ("cause",), reasons)

    def _components(self) -> Iterable[Metric]:
        parts = self._board.status.parts
        families = {
            "alive": (
                "0 for a component that has stopped, or whose heartbeats are late.",
                [float(part.state in ("alive", "behind")) for part in parts],
            ),
            "last_heartbeat_timestamp_seconds": (
                "Time of its last heartbeat.",
                [part.last_heartbeat / 1000 for part in parts],
            ),
            "up_to_timestamp_seconds": (
                "Everything before this time has gone through it, by its last heartbeat.",
                [part.up_to / 1000 for part in parts],
            ),
        }
        for name, (text, values) in families.items():
            samples = [((part.part, part.id), value) for part, value in zip(parts, values, strict=True)]
            yield _metric("gauge", f"rebalance_monitor_part_{name}", text, ("part", "id"), samples)


class Exposition:
    """The text of ``/metrics``: made in a thread, one at a time, the same for all requests of the next moment."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._maker = CapacityLimiter(1)
        self._text: SharedBody | None = None
        self._until = 0.0

    async def response(self, request: Request) -> Response:
        """Return the newest text, made again if it is old."""
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
