"""Detects cluster changes that concern many groups, as ``cluster.observed`` events; uses no client and no clock.

A stopped broker, a moved coordinator, a deleted topic or a stopped host causes rebalances of many groups. The
collector sees all groups, so it publishes each such change once, with the groups that it concerns.
:mod:`streaming.monitor.cluster` turns the changes into incidents of the cluster.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from assignors.java import string_hash
from streaming.records.events import CLUSTER, MAX_INT32, ClusterChange, ClusterObserved, Event, GroupObserved

#: A host counts as gone if at least this many groups lost all their members on the host, …
_MIN_GROUPS: Final = 3
#: … all within this time (ms).
_LOSS_WINDOW_MS: Final = 120_000
#: An outage of the whole cluster that is shorter than this (ms) is not published.
_MIN_SILENCE_MS: Final = 10_000
#: The time (ms) for which a coordinator's move waits: a broker that is stopped in order moves its partitions first.
_MIN_SHUTDOWN_MS: Final = 10_000


def subscribed(data: GroupObserved) -> frozenset[str]:
    """Return the topics to which a group's members subscribe or, if that is unknown, their assigned topics."""
    return frozenset(
        topic for member in data.members for topic in member.topics or (() if data.holds_tasks else member.assigned)
    )


class ClusterSnapshot(NamedTuple):
    """The cluster's metadata at one time.

    ``coordinators``: the leader of each partition of ``__consumer_offsets`` (None: no leader), which coordinates the
    groups in it. ``partitions``: counts of the topics that groups subscribe to; 0: the topic does not exist.
    """

    brokers: frozenset[int]
    coordinators: tuple[int | None, ...]
    partitions: Mapping[str, int]


def coordinator_partition(group_id: str, partitions: int) -> int:
    """Return the partition of ``__consumer_offsets`` that a group is in (GroupCoordinator.partitionFor)."""
    code = abs(string_hash(group_id))
    return (code if code <= MAX_INT32 else 0) % partitions


class ClusterView:
    """The cluster's last known state, with which the next snapshot is compared."""

    def __init__(self, source: str, brokers: Iterable[int] | None = None) -> None:
        self._source = source
        self._brokers = None if brokers is None else frozenset(brokers)
        self._snapshot: ClusterSnapshot | None = None
        self._silent_since_ms: int | None = None
        self._coordinators: dict[int, int] = {}
        #: The begin (ms) and the groups of each move that waits, by the old and the new broker.
        self._moves: dict[tuple[int, int], tuple[int, list[str]]] = {}
        self._hosts: dict[str, dict[str, int]] = {}

    def add_outage(self, at_ms: int) -> None:
        """Record that no broker has answered since ``at_ms``; the next snapshot ends this outage."""
        if self._silent_since_ms is None and self._snapshot is not None:
            self._silent_since_ms = at_ms

    def add_snapshot(self, snapshot: ClusterSnapshot, groups: Mapping[str, GroupObserved], at_ms: int) -> Event | None:
        """Compare a snapshot of the cluster with the previous one; return an event with the changes, or None."""
        before, self._snapshot = self._snapshot, snapshot
        topics: dict[str, frozenset[str]] = {}
        if snapshot != before or self._silent_since_ms is not None:  # with thousands of groups too expensive at rest
            topics = {group_id: subscribed(group) for group_id, group in sorted(groups.items()) if group.members}
        changes = [] if before in (None, snapshot) else [*self._changes(before, snapshot, topics, at_ms)]
        for old, new in sorted(move for move, (since, _) in self._moves.items() if at_ms - since >= _MIN_SHUTDOWN_MS):
            since, moved = self._moves.pop((old, new))  # away from a broker that has not stopped soon afterwards
            changes.append(ClusterChange("coordinator-moved", f"broker {old} to broker {new}", since, sorted(moved)))
        changes += self._removed_hosts(groups, at_ms)
        if self._silent_since_ms is not None and at_ms - self._silent_since_ms >= _MIN_SILENCE_MS:
            changes.append(ClusterChange("broker-restart", "all brokers", self._silent_since_ms, [*topics]))
        self._silent_since_ms = None
        has_other_brokers = self._brokers not in (None, snapshot.brokers)
        if not changes and not has_other_brokers:
            return None
        self._brokers = snapshot.brokers
        name = "+".join(f"{change.kind}/{change.subject}" for change in changes) or "brokers"
        data = ClusterObserved(group_id=CLUSTER, timestamp=at_ms, brokers=sorted(snapshot.brokers), changes=changes)
        return Event(self._source, f"{name}/{at_ms}", data)

    def _changes(
        self, before: ClusterSnapshot, after: ClusterSnapshot, topics: Mapping[str, AbstractSet[str]], at_ms: int
    ) -> Iterator[ClusterChange]:
        self._coordinators |= {at: broker for at, broker in enumerate(before.coordinators) if broker is not None}
        count = len(after.coordinators)
        pairs = [(coordinator_partition(group_id, count), group_id) for group_id in topics] if count else []
        for broker in sorted(before.brokers - after.brokers):
            led_by_broker = {group_id for partition, group_id in pairs if self._coordinators.get(partition) == broker}
            for move in [move for move in self._moves if move[0] == broker]:
                led_by_broker.update(self._moves.pop(move)[1])
            yield ClusterChange("broker-restart", f"broker {broker}", at_ms, sorted(led_by_broker))
        for partition, group_id in pairs:
            old, new = self._coordinators.get(partition), after.coordinators[partition]
            # A move away from a missing broker is part of that broker's incident.
            if old in after.brokers and new is not None and new != old:
                self._moves.setdefault((old, new), (at_ms, []))[1].append(group_id)
        for topic, old_count in before.partitions.items():
            new_count = after.partitions.get(topic, old_count)
            groups = [group_id for group_id, names in topics.items() if topic in names]
            if groups and new_count == 0 < old_count:
                yield ClusterChange("topic-deleted", topic, at_ms, groups)
            elif groups and new_count > old_count > 0:
                yield ClusterChange("partitions-added", f"{topic} from {old_count} to {new_count}", at_ms, groups)

    def _removed_hosts(self, groups: Mapping[str, GroupObserved], at_ms: int) -> Iterator[ClusterChange]:
        present_hosts: set[str] = set()
        for group_id, group in groups.items():
            hosts = {member.client_host for member in group.members if member.client_host}
            present_hosts |= hosts
            for host in hosts:
                self._hosts.setdefault(host, {})[group_id] = at_ms
        for host in sorted(self._hosts.keys() - present_hosts):
            last_seen = self._hosts.pop(host)
            lost = {group_id: last_ms for group_id, last_ms in last_seen.items() if at_ms - last_ms <= _LOSS_WINDOW_MS}
            if len(lost) >= _MIN_GROUPS:
                yield ClusterChange("mass-restart", host.lstrip("/"), min(lost.values()), sorted(lost))
