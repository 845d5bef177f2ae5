"""Metrics at `/metrics`: groups, under the names that other exporters use, and the health of the feed.

Totals come from the history, so they continue over restarts. Member ids are not labels, as they change with every
restart of a consumer. Display names of members are labels of one series for each group and cause, for alerts.
"""

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Final

from anyio import CapacityLimiter, to_thread
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from streaming.serve.board import STALE_KINDS, Board
from streaming.serve.clusters import Cluster
from streaming.serve.connections import SharedBody
from streaming.serve.records import GroupSummary
from streaming.serve.stories import DowntimeTotals
from streaming.settings.config import service_level

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
#: The least time for which requests receive the same text, seconds.
CACHE_SECONDS: Final = 0.5
_TYPES: Final[dict[str, Any]] = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily, "info": InfoMetricFamily}
#: Metric's name after ``kafka_consumergroup_``, its type, its labels besides the group's, and its help text. Only
#: consumer groups have downtime.
_GROUP_FAMILIES: Final = (
    ("members", "gauge", (), "Members of the group."),
    ("state", "gauge", ("state",), "1 for its state; Unknown while the feed is stale."),
    ("status", "gauge", ("status",), "1 for its status; unknown while the feed is stale."),
    ("rebalancing_seconds", "gauge", (), "Seconds since the rebalance in progress began; 0 without one."),
    ("unowned_partitions", "gauge", (), "Subscribed partitions without an owner."),
    ("rebalances", "counter", ("cause",), "Rebalances, by the cause of the first round."),
    ("rounds", "counter", ("cause",), "Rounds of rebalances, by cause."),
    ("partitions_moved", "counter", (), "Partitions given to another owner."),
    ("partition_unavailable_seconds", "counter", (), "Seconds without an owner between rounds, sum over partitions."),
    ("last_rebalance_timestamp_seconds", "gauge", (), "Time of the latest round."),
    ("", "info", (), "What kind of group it is."),
    ("cause_members", "info", ("cause",), "Display names of the members that the newest round with this cause names."),
    ("downtime_lower_seconds", "counter", (), "Seconds without a consumer in finished episodes, at least."),
    ("downtime_upper_seconds", "counter", (), "The same at most; no series once a partition had no upper bound."),
    ("downtime_unbounded_partitions", "counter", (), "Partitions whose time without a consumer has no upper bound."),
    ("slo_downtime_seconds", "gauge", (), "Seconds without a consumer that [[slo]] allows a day."),
)


class Metrics(Collector):
    """Prometheus metrics of the groups, the open incidents, the components and the feed."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def collect(self) -> Iterator[Metric]:
        """Yield one metric family per name."""
        yield from self._groups()
        yield from self._incidents()
        yield from self._feed()
        yield from self._component_metrics()

    def _groups(self) -> Iterator[Metric]:
        families: dict[str, Any] = {
            name: _TYPES[kind](f"kafka_consumergroup_{name}".rstrip("_"), text, labels=["consumergroup", *label])
            for name, kind, label, text in _GROUP_FAMILIES
        }
        text = "Seconds between first and last round of rebalances of more than one round."
        name = "kafka_consumergroup_rebalance_duration_seconds"
        duration = SummaryMetricFamily(name, text, labels=["consumergroup"])
        for group in self._board.groups.values():
            if group.state == "Dead":  # a dead group's series would stay for as long as the history has its rounds
                continue
            for name, label, value in self._samples(group):
                families[name].add_metric([group.group_id, *label], value)
            if group.timed_rebalances:
                duration.add_metric([group.group_id], group.timed_rebalances, group.rebalance_ms / 1000)
        yield from families.values()
        yield duration

    def _samples(self, group: GroupSummary) -> Iterator[tuple[str, tuple[str, ...], Any]]:
        """Yield the group's samples: name of the metric family, values of labels (without the group's), and value."""
        is_stale = self._board.status.stale is not None
        yield "members", (), group.members
        yield "state", ("Unknown" if is_stale else group.state,), 1
        yield "status", ("unknown" if is_stale else group.status,), 1
        if not is_stale:
            is_rebalancing = group.status == "rebalancing"
            yield "rebalancing_seconds", (), max(0, time.time() - group.since / 1000) if is_rebalancing else 0
        yield "unowned_partitions", (), group.unassigned
        for cause, count in group.rebalance_causes.items():
            yield "rebalances", (cause,), count
        for cause, count in group.causes.items():
            yield "rounds", (cause,), count
        yield "partitions_moved", (), group.moved_total
        yield "partition_unavailable_seconds", (), group.unavailable_ms / 1000
        yield "last_rebalance_timestamp_seconds", (), group.timestamp / 1000
        yield "", (), {"kind": group.kind, "protocol": group.protocol}
        for cause, members in group.cause_members.items():
            yield "cause_members", (cause,), {"members": members}
        if group.kind == "consumer":
            total = self._board.current_stories.downtime.get(group.group_id, DowntimeTotals())
            yield "downtime_lower_seconds", (), total.lower_ms / 1000
            if not total.unbounded:
                yield "downtime_upper_seconds", (), total.upper_ms / 1000
            yield "downtime_unbounded_partitions", (), total.unbounded
            level = service_level(self._board.levels, group.group_id)
            if level is not None and level.downtime_day_ms is not None:
                yield "slo_downtime_seconds", (), level.downtime_day_ms / 1000

    def _incidents(self) -> Iterator[Metric]:
        name, text = "kafka_consumergroup_incident_open", "Open incidents of the group, by kind."
        incidents_metric = GaugeMetricFamily(name, text, labels=("consumergroup", "kind"))
        name, text = "rebalance_monitor_cluster_incident_open", "Open incidents of the cluster, by kind."
        cluster_incidents = GaugeMetricFamily(name, text, labels=("kind",))
        incidents = self._board.current_stories.open.values()
        counts = Counter((incident.scope, incident.group_id, incident.kind) for incident in incidents)
        for (scope, group, kind), count in counts.items():
            if scope == "group":
                incidents_metric.add_metric([group, kind], count)
            else:
                cluster_incidents.add_metric([kind], count)
        yield from (incidents_metric, cluster_incidents)

    def _feed(self) -> Iterator[Metric]:
        board, status, stale = self._board, self._board.status, self._board.status.stale
        lag = math.nan if status.lag is None else status.lag
        since = stale.since / 1000 if stale else 0
        for kind, name, text, value in (
            ("gauge", "clients", "Clients of the event stream.", len(board.listeners)),
            ("gauge", "lag_records", "Unread records; NaN while unknown.", lag),
            ("gauge", "caught_up", "1 while the topics are known to be read to their ends.", status.caught_up),
            ("gauge", "stale_since_timestamp_seconds", "Time of the data; 0 while it is up to date.", since),
            ("counter", "rounds", "Rounds stored.", board.round_range.last),
            ("counter", "repeated_records", "Diffs dropped as seen.", board.repeated),
            ("counter", "refused_records", "Records not usable.", board.refused),
            ("counter", "clients_behind", "Times a client fell back on the history.", board.fell_behind_count),
            ("counter", "clients_cut_off", "Clients that took no bytes for too long.", board.dropped_unread),
        ):
            yield _TYPES[kind](f"rebalance_monitor_feed_{name}", text, value=float(value))
        text = "1 for the reason why the feed is not up to date."
        reasons = GaugeMetricFamily("rebalance_monitor_feed_stale", text, labels=("cause",))
        for kind in STALE_KINDS:
            reasons.add_metric([kind], float(stale is not None and stale.kind == kind))
        yield reasons

    def _component_metrics(self) -> Iterator[Metric]:
        alive, last_heartbeat, up_to = (
            GaugeMetricFamily(f"rebalance_monitor_part_{name}", text, labels=("part", "id"))
            for name, text in (
                ("alive", "0 for a component that has stopped, or whose heartbeats are late."),
                ("last_heartbeat_timestamp_seconds", "Time of its last heartbeat."),
                ("up_to_timestamp_seconds", "Everything before this time has gone through it, by its last heartbeat."),
            )
        )
        for part in self._board.status.parts:
            alive.add_metric([part.part, part.id], float(part.state in ("alive", "behind")))
            last_heartbeat.add_metric([part.part, part.id], part.last_heartbeat / 1000)
            up_to.add_metric([part.part, part.id], part.up_to / 1000)
        yield from (alive, last_heartbeat, up_to)


class ClusterMetrics(Collector):
    """Metrics of several clusters, by name; each sample has the label ``cluster``."""

    def __init__(self, boards: Mapping[str, Board]) -> None:
        self._boards = boards

    def collect(self) -> Iterator[Metric]:
        """Yield one metric family per name, with the samples of all clusters."""
        families: dict[str, Metric] = {}
        for cluster, board in self._boards.items():
            for family in Metrics(board).collect():
                samples = [sample._replace(labels={"cluster": cluster, **sample.labels}) for sample in family.samples]
                shared = families.setdefault(family.name, family)
                shared.samples = samples if shared is family else shared.samples + samples
        yield from families.values()


class MetricsResponse:
    """The response to ``/metrics``, rendered by one thread and reused for requests within a short time."""

    def __init__(self, clusters: Sequence[Cluster]) -> None:
        self._clusters = clusters
        self._rendering_limiter = CapacityLimiter(1)
        self._text: SharedBody | None = None
        self._cached_until = 0.0

    async def response(self, request: Request) -> Response:
        """Return the response of ``/metrics``; its text is shared for a short time, and then computed again."""
        views = {cluster.name: copy(cluster.board) for cluster in self._clusters}
        for view in views.values():
            view.groups = dict(view.groups)  # copied, as the groups may change while the thread reads them
        text = await to_thread.run_sync(self._current, views, limiter=self._rendering_limiter)
        return await text.response(request, self._rendering_limiter)

    def _current(self, views: Mapping[str, Board]) -> SharedBody:
        began = time.monotonic()
        if self._text is None or began >= self._cached_until:
            collector = ClusterMetrics(views) if len(views) > 1 else Metrics(*views.values())
            self._text = SharedBody(generate_latest(collector), CONTENT_TYPE)
            # At most a third of the time is spent on the text, whatever its size and the number of requests.
            self._cached_until = time.monotonic() + max(CACHE_SECONDS, 2 * (time.monotonic() - began))
        return self._text
