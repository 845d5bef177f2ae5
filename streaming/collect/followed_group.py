"""The state of one followed group: its last snapshot, and evidence for the next snapshot."""

from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from streaming.collect.broker_log.group_reasons import COORDINATOR_MOVE_MS
from streaming.collect.coordinator.classic import ClassicGroup, has_generation, keep_last_kind
from streaming.collect.coordinator.modern import EpochGroup, GroupRecordPart, TopicNames, named
from streaming.collect.coordinator.records import RawRecord
from streaming.collect.evidence import departure_evidence, probing_rebalance, removal_evidence
from streaming.collect.partition_owners import PartitionOwners
from streaming.collect.rebalances import STABLE_STATES
from streaming.records.events import COORDINATOR_MOVED, GROUP_CREATED, Evidence, GroupDeleted, GroupObserved

#: Evidence for a new group whose first generations were not written.
_GROUP_CREATED_EVIDENCE: Final = Evidence(
    source="group-records", reason="the group's first record has no generation: it is new", kind=GROUP_CREATED
)
#: A group with more members than this is large.
LARGE_GROUP_MEMBERS: Final = 100
#: The least record time (ms) between two snapshots of a large, rebalancing group.
COALESCE_MS: Final = 1000


@dataclass(slots=True)
class CoordinatedGroup:
    """A group's state at its coordinator: ``classic`` or ``epoch_group``, by protocol; both None without a group."""

    classic: GroupObserved | None = None
    epoch_group: EpochGroup | None = None

    @property
    def is_gone(self) -> bool:
        """True if the coordinator no longer has this group."""
        return self.classic is None and self.epoch_group is None

    def apply(self, record: ClassicGroup | GroupRecordPart) -> None:
        """Apply one of the coordinator's records to the group's state."""
        if isinstance(record, ClassicGroup):
            self.classic = keep_last_kind(self.classic, record.value)
            return
        group = self.epoch_group if self.epoch_group is not None and self.epoch_group.kind == record.kind else None
        if record.part == "epoch" and record.value is None:
            self.epoch_group = None if group is not None else self.epoch_group
        elif group is not None:
            group.put(record.part, record.key, record.value)
        elif record.value is not None and record.part != "regexes":
            # Tombstones of a deleted group come in any order, and patterns may follow; neither creates the group again.
            self.epoch_group = EpochGroup(record.kind)
            self.epoch_group.put(record.part, record.key, record.value)

    def snapshot(self, group_id: str, timestamp: int, names: TopicNames) -> GroupObserved | None:
        """Return a snapshot; None if the group has no generation or epoch yet, or no longer exists."""
        if self.classic is None:
            return None if self.epoch_group is None else self.epoch_group.snapshot(group_id, timestamp, names)
        if not has_generation(self.classic):
            return None
        return structs.replace(self.classic, group_id=group_id, timestamp=timestamp)


@dataclass(slots=True, kw_only=True)
class FollowedGroup(CoordinatedGroup):
    """A followed group whose records are in one partition of the offsets topic.

    Attributes:
        published: the last published snapshot.
        published_at: the record time (ms) of the last published snapshot.
        leader_epoch: the partition leader's epoch at the last snapshot; the leader is the coordinator.
        is_new: True if the group's first record was read, so no generation is missing.
        evidence: evidence about members that were removed since ``published``, while a newer snapshot waits.
    """

    group_id: str
    names: TopicNames
    max_silence_ms: int | None = None
    published: GroupObserved | None = None
    published_at: int = 0
    owners: PartitionOwners = field(default_factory=PartitionOwners)
    leader_epoch: int = -1
    is_new: bool = False
    evidence: list[Evidence] = field(default_factory=list)

    def apply(self, record: ClassicGroup | GroupRecordPart) -> None:
        """Apply one of the coordinator's records to the group's state."""
        CoordinatedGroup.apply(self, record)
        self.is_new = self.is_new or (self.classic is not None and not has_generation(self.classic))

    def is_early(self, timestamp: int) -> bool:
        """True if a snapshot at ``timestamp`` is too soon (:data:`COALESCE_MS`) after the last one."""
        return 0 <= timestamp - self.published_at < COALESCE_MS

    def defer_record(self, record: RawRecord) -> bool:
        """Return True if the snapshot of a large, rebalancing group must wait, because the last one is too recent.

        The partition owners are updated at once, because later commits are compared with them.
        """
        group, snapshot = self.epoch_group, self.published
        if self.classic is not None or group is None or len(group.subscriptions) <= LARGE_GROUP_MEMBERS:
            return False
        if snapshot is None or not snapshot.has_epochs or not self.is_early(record.timestamp):
            return False
        if group.number is None or group.state in STABLE_STATES:
            return False
        if removed_ids := group.changed - group.subscriptions.keys():
            static = {metadata.member.group_instance_id for metadata in group.subscriptions.values()} - {None}
            gone = (m for m in snapshot.members if m.member_id in removed_ids and m.group_instance_id not in static)
            self.evidence += removal_evidence(gone, record.timestamp, group.kind, self.owners, self.max_silence_ms)
        if group.kind == "consumer":  # tasks have no commits, and a share group's partition has several owners
            owned = {
                member: named(group.assignments[member].active, self.names) if member in group.assignments else None
                for member in sorted(group.changed)
            }
            self.owners.change(group.number, record.timestamp, owned)
            group.changed.clear()
        return True

    def release(self, record: RawRecord, leader_since: int) -> GroupObserved | GroupDeleted | None:
        """Return the event for the group's state after ``record``; None if the state has not changed."""
        before = self.published
        now = self.snapshot(self.group_id, record.timestamp, self.names)
        if self.epoch_group is not None:
            self.epoch_group.changed.clear()
        if now is None:
            if before is None or not self.is_gone:
                return None
            return GroupDeleted(group_id=self.group_id, timestamp=record.timestamp, reason="tombstone")
        evidence, self.evidence = self.evidence, []
        # Each record of a classic group is a new generation.
        is_same = before is not None and now.has_epochs and structs.replace(before, timestamp=now.timestamp) == now
        if before is not None and not is_same:
            evidence += [
                *departure_evidence(before, now, self.owners, self.max_silence_ms),
                *probing_rebalance(before, now),
                *self._apply_move(record, leader_since),
            ]
        elif before is None and self.is_new and (now.generation or 0) > 1:
            evidence = [_GROUP_CREATED_EVIDENCE]
        self.owners.observe(now)
        self.published, self.published_at = now, record.timestamp
        if is_same:
            return None
        self.leader_epoch = record.leader_epoch
        return structs.replace(now, evidence=evidence) if evidence else now

    def _apply_move(self, record: RawRecord, leader_since: int) -> list[Evidence]:
        """Return evidence that another broker became coordinator shortly before this record.

        Empty if ``record`` is the new leader's first record: the time of the move is then unknown, maybe days ago.
        """
        elapsed_ms = record.timestamp - leader_since
        if not 0 <= self.leader_epoch < record.leader_epoch or not 0 < elapsed_ms <= COORDINATOR_MOVE_MS:
            return []
        reason = f"the partition of the group's records had a new leader {elapsed_ms / 1000:.0f} s before"
        return [Evidence(source="group-records", reason=reason, kind=COORDINATOR_MOVED)]
