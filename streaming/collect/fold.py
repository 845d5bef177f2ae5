"""Converts the records of one partition of the offsets topic into events; uses no client and no clock.

The coordinator gives all records of one write one timestamp, and a join is up to five records. So consecutive records
with one timestamp (a *run*) are taken together: each group in the run is published once, as it is after the run, with
the offset of its last record in the run. Classic generations are one record each, and each of them is published.

Snapshots of a large group that rebalances are coalesced: at most one is published in
:data:`~streaming.collect.followed_group.COALESCE_MS` of record time. The last one is published once the group is
stable, once a later record shows that the time has passed, or by :meth:`Fold.flush`. So the events are a function of
the partition's log from the start of publishing on, except for the moments of flushing.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from assignors.errors import MonitorError
from streaming.collect.coordinator.classic import ClassicGroup
from streaming.collect.coordinator.modern import TopicNames
from streaming.collect.coordinator.records import OffsetCommit, RawRecord, decode
from streaming.collect.coordinator.schema import MalformedRecord
from streaming.collect.evidence import COMMIT_SOURCE
from streaming.collect.followed_group import FollowedGroup
from streaming.collect.partition_owners import CoordinatorActivity, PartitionOwners
from streaming.records.events import MAX_TIMESTAMP, Event, EventData, GroupObserved, PartitionsStopped


class CollectedEvent(NamedTuple):
    """An event, the last record from which the event was built, and the previous snapshot of the event's group."""

    record: RawRecord
    event: Event
    previous: GroupObserved | None = None


class RejectedRecord(NamedTuple):
    """A record that could not be used, and the error that explains why."""

    record: RawRecord
    error: MonitorError


Outcome = CollectedEvent | RejectedRecord


class Fold:
    """Converts the records of one partition of the offsets topic into events, and keeps the state of its groups.

    An unusable record is skipped. After an unusable generation, the next generation has no evidence about the members
    that were removed in between.

    Attributes:
        start: the first offset whose events an earlier collector has not published.
        was_pending: True if a snapshot still waited to be published when the earlier collector stopped.
        open_offset: offset of the first record whose events were not returned yet; None if all were returned.
        committed: the first commit of each committed offset, by group, topic and partition.
        held: the last record of each group with a snapshot that waits to be published.
    """

    def __init__(
        self,
        source: str,
        partition: int,
        names: TopicNames,
        is_wanted: Callable[[str], bool] = lambda _: True,
        max_silence_ms: int | None = None,
    ) -> None:
        self._source, self._partition = source, partition
        self._names, self._is_wanted_group, self._max_silence_ms = names, is_wanted, max_silence_ms
        self.start, self.was_pending = 0, False
        self.open_offset: int | None = None
        self._has_read_first_record = False
        self._leader_epoch, self._leader_since_ms = -1, 0
        self.groups: dict[str, FollowedGroup] = {}
        self.committed: dict[str, dict[tuple[str, int], OffsetCommit]] = {}
        self._coordinator_activity = CoordinatorActivity()
        self._timestamp: int | None = None
        #: The last record of each group that changed in this run, and of each group whose commits in it are evidence.
        self._deferred_records: dict[str, RawRecord] = {}
        self._resumed_records: dict[str, RawRecord] = {}
        self.held: dict[str, RawRecord] = {}
        self._outcomes: list[Outcome] = []

    def add(self, record: RawRecord) -> list[Outcome]:
        """Add the next record; if its timestamp is new, return the events and rejected records of earlier records."""
        outcomes = self.settle() if self.open_offset is not None and record.timestamp != self._timestamp else []
        if record.offset >= self.start:
            self._begin_publishing()
        outcomes += self._release_deferred(record.timestamp)
        if record.leader_epoch > self._leader_epoch:
            self._leader_epoch, self._leader_since_ms = record.leader_epoch, record.timestamp
        try:
            has_outcome = self._apply_record(record)
        except MonitorError as error:
            self._outcomes.append(RejectedRecord(record, error))
            has_outcome = True
        if has_outcome:
            self._timestamp = record.timestamp
            if self.open_offset is None:
                self.open_offset = record.offset
        return outcomes

    def settle(self) -> list[Outcome]:
        """End the current run of records with one timestamp; return their outcomes: events and rejected records."""
        for group_id, record in self._resumed_records.items():
            self._defer_resumed(self.groups[group_id], record)
        self._resumed_records = {}
        for group_id, record in self._deferred_records.items():
            if self.groups[group_id].defer_record(record):
                self.held[group_id] = record
            else:
                self._publish(self.groups[group_id], record)
        self._deferred_records = {}
        self._timestamp = self.open_offset = None
        return self._take_outcomes(self.start)

    def flush(self) -> list[Outcome]:
        """Return the events of all snapshots that are waiting to be published."""
        self._begin_publishing()
        return self._publish_deferred([*self.held])

    def snapshots(self) -> dict[str, GroupObserved]:
        """Return the last published snapshot of each group."""
        return {group_id: group.published for group_id, group in self.groups.items() if group.published is not None}

    def _begin_publishing(self) -> None:
        """Begin to publish; drop waiting snapshots, unless the previous collector had not published them."""
        if not self._has_read_first_record and not self.was_pending:
            self._publish_deferred([*self.held])
        self._has_read_first_record = True

    def _release_deferred(self, timestamp: int) -> list[Outcome]:
        due = [group_id for group_id in self.held if not self.groups[group_id].is_early(timestamp)]
        outcomes = self._publish_deferred(due) if due else []
        for group_id in due:
            self.groups[group_id].published_at = timestamp
        return outcomes

    def _publish_deferred(self, group_ids: Iterable[str]) -> list[Outcome]:
        for group_id in sorted(group_ids, key=lambda group_id: self.held[group_id].offset):
            self._publish(self.groups[group_id], self.held[group_id])
        return self._take_outcomes(0 if self._has_read_first_record else self.start)

    def _take_outcomes(self, start: int) -> list[Outcome]:
        outcomes, self._outcomes = self._outcomes, []
        return [outcome for outcome in outcomes if outcome.record.offset >= start]

    def _apply_record(self, record: RawRecord) -> bool:
        entry = decode(record.key, record.value, self._is_wanted_group)
        if entry is None:
            return False
        group = self.groups.get(entry.group_id)
        if isinstance(entry, OffsetCommit):
            self._keep_offset(entry)
            is_evidence = group is not None and self._apply_commit(group.owners, entry)
            if is_evidence:
                self._resumed_records[entry.group_id] = record
            return is_evidence
        if not 0 <= record.timestamp <= MAX_TIMESTAMP:
            raise MalformedRecord(f"timestamp: {record.timestamp} is not a time in milliseconds")
        self._coordinator_activity.record_write(record.timestamp)
        if group is None:
            group = FollowedGroup(group_id=entry.group_id, names=self._names, max_silence_ms=self._max_silence_ms)
            self.groups[entry.group_id] = group
        if isinstance(entry, ClassicGroup) and entry.group_id in self._deferred_records and group.classic is not None:
            self._publish(group, self._deferred_records.pop(entry.group_id))
        group.apply(entry)
        self._deferred_records[entry.group_id] = record
        return True

    def _keep_offset(self, commit: OffsetCommit) -> None:
        """Store a group's committed offset; after compaction it may precede the records of the group's members."""
        offsets, place = self.committed.get(commit.group_id, {}), (commit.topic, commit.partition)
        if commit.offset is None or commit.offset < 0:
            offsets.pop(place, None)
            if not offsets:
                self.committed.pop(commit.group_id, None)
        elif offsets or self._is_wanted_group(commit.group_id):
            if place not in offsets or offsets[place].offset != commit.offset:
                offsets[place] = commit
            self.committed[commit.group_id] = offsets

    def _apply_commit(self, owners: PartitionOwners, commit: OffsetCommit) -> bool:
        min_sent_at = None
        if commit.timestamp is not None and 0 <= commit.timestamp <= MAX_TIMESTAMP:
            self._coordinator_activity.record_write(commit.timestamp)
            min_sent_at = self._coordinator_activity.min_sent_at(commit.timestamp)
        return owners.commit(commit.topic, commit.partition, commit.timestamp, commit.offset, min_sent_at=min_sent_at)

    def _defer_resumed(self, group: FollowedGroup, record: RawRecord) -> None:
        if group.published is None or not 0 <= record.timestamp <= MAX_TIMESTAMP:
            return
        has_epochs = group.published.has_epochs
        for number, stops in group.owners.resumed().items():
            data = PartitionsStopped(
                group_id=group.group_id,
                timestamp=record.timestamp,
                source=COMMIT_SOURCE,
                stops=stops,
                generation=None if has_epochs else number,
                group_epoch=number if has_epochs else None,
            )
            event = Event(self._source, f"{self._partition}:{record.offset}/stopped/{number}", data)
            self._outcomes.append(CollectedEvent(record, event))

    def _publish(self, group: FollowedGroup, record: RawRecord) -> None:
        self.held.pop(group.group_id, None)
        previous = group.published
        data: EventData | None = group.release(record, self._leader_since_ms)
        if group.is_gone:
            del self.groups[group.group_id]
        if data is not None:
            event = Event(self._source, f"{self._partition}:{record.offset}", data)
            self._outcomes.append(CollectedEvent(record, event, previous))
