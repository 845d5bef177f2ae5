"""A group as the offsets topic shows it, and the full view that is published of it. State in, state out.

A classic group is one record a generation. A consumer group (KIP-848) is many: its epoch, and for each member
the subscription, the target and the current assignment; :func:`apply` puts them together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from streaming.collect.records import (
    ClassicGeneration,
    ClassicGroup,
    Current,
    CurrentAssignment,
    GroupEpoch,
    IdPartitions,
    MemberSubscription,
    Record,
    ResolvedRegex,
    Subscription,
    TargetAssignment,
    TargetEpoch,
)
from streaming.wire.events import GroupObserved, ObservedMember, Partitions

V = TypeVar("V")
#: Topic id → topic name; an id that the cluster no longer knows stands for itself.
Names = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class ModernGroup:
    """A consumer group; every mapping is by member id, ``regexes`` by pattern."""

    epoch: int | None = None
    target_epoch: int | None = None
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)
    targets: Mapping[str, IdPartitions] = field(default_factory=dict)
    currents: Mapping[str, Current] = field(default_factory=dict)
    regexes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """What is known of a group: it is classic, or modern, or (both None) gone."""

    classic: ClassicGeneration | None = None
    modern: ModernGroup | None = None


def apply(group: Group, record: Record) -> Group:
    """The group after one record; unchanged by records that say nothing of members."""
    match record:
        case ClassicGroup():
            return replace(group, classic=record.value)
        case GroupEpoch(epoch=None):
            return replace(group, modern=None)
        case GroupEpoch() | TargetEpoch() | MemberSubscription() | TargetAssignment() | CurrentAssignment():
            modern = _modern(group.modern or ModernGroup(), record)
            # The tombstones of a deleted group come in any order: they must not bring it back.
            return replace(group, modern=None if group.modern is None and modern == ModernGroup() else modern)
        case ResolvedRegex():
            if group.modern is None:
                return group
            return replace(
                group,
                modern=replace(
                    group.modern, regexes=_with(group.modern.regexes, record.regex, record.topics)
                ),
            )
        case _:
            return group


def _modern(group: ModernGroup, record: Record) -> ModernGroup:
    match record:
        case GroupEpoch():
            return replace(group, epoch=record.epoch)
        case TargetEpoch():
            return replace(group, target_epoch=record.epoch)
        case MemberSubscription():
            return replace(group, subscriptions=_with(group.subscriptions, record.member_id, record.value))
        case TargetAssignment():
            return replace(group, targets=_with(group.targets, record.member_id, record.partitions))
        case CurrentAssignment():
            return replace(group, currents=_with(group.currents, record.member_id, record.value))
        case _:
            return group


def _with(mapping: Mapping[str, V], key: str, value: V | None) -> dict[str, V]:
    """The mapping with one entry set; without it when ``value`` is None."""
    changed = dict(mapping)
    if value is None:
        changed.pop(key, None)
    else:
        changed[key] = value
    return changed


def view(group_id: str, group: Group, timestamp: int, names: Names) -> GroupObserved | None:
    """The full view of a group; None before its first generation or epoch, and when it is gone."""
    if group.classic is not None:
        return _classic_view(group_id, group.classic, timestamp)
    if group.modern is not None and group.modern.epoch is not None:
        return _modern_view(group_id, group.modern, timestamp, names)
    return None


def _classic_view(group_id: str, value: ClassicGeneration, timestamp: int) -> GroupObserved | None:
    if value.generation <= 0 and not value.members:
        return None  # the group was created, or only holds offsets: nobody has joined yet
    members = [
        ObservedMember(
            member_id=member.member_id,
            topics=list(member.said.topics),
            assigned=member.assigned,
            owned=member.said.owned,
            owned_generation=member.said.owned_generation,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rack_id=member.said.rack_id,
            session_timeout_ms=member.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
        )
        for member in value.members
    ]
    return GroupObserved(
        group_id=group_id,
        timestamp=timestamp,
        members=members,
        generation=value.generation,
        group_protocol="classic",
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
        leader=value.leader,
        state="Stable" if members else "Empty",
    )


def _modern_view(group_id: str, group: ModernGroup, timestamp: int, names: Names) -> GroupObserved:
    members = []
    for member_id, said in sorted(group.subscriptions.items()):
        now = group.currents.get(member_id)
        target = group.targets.get(member_id)
        topics = dict.fromkeys(said.topics)
        if said.regex is not None:
            topics |= dict.fromkeys(group.regexes.get(said.regex, ()))
        members.append(
            ObservedMember(
                member_id=member_id,
                topics=list(topics),
                assigned=named(now.assigned, names) if now is not None else {},
                group_instance_id=said.group_instance_id,
                client_id=said.client_id,
                client_host=said.client_host,
                rack_id=said.rack_id,
                session_timeout_ms=said.session_timeout_ms,
                rebalance_timeout_ms=said.rebalance_timeout_ms,
                member_epoch=now.member_epoch if now is not None else None,
                previous_member_epoch=now.previous_member_epoch if now is not None else None,
                state=now.state if now is not None else None,
                pending_revocation=named(now.pending_revocation, names) if now is not None else {},
                target=named(target, names) if target is not None else None,
            )
        )
    return GroupObserved(
        group_id=group_id,
        timestamp=timestamp,
        members=members,
        group_epoch=group.epoch,
        group_protocol="consumer",
        protocol=next((m.server_assignor for m in group.subscriptions.values() if m.server_assignor), None),
        state=_state(group),
    )


def _state(group: ModernGroup) -> str:
    """ConsumerGroup.ConsumerGroupState, from the records alone."""
    if not group.subscriptions:
        return "Empty"
    if group.target_epoch is None or (group.epoch or 0) > group.target_epoch:
        return "Assigning"
    behind = any(
        now.member_epoch != group.target_epoch or now.state != "STABLE" for now in group.currents.values()
    )
    return "Reconciling" if behind or len(group.currents) < len(group.subscriptions) else "Stable"


def named(partitions: IdPartitions, names: Names) -> Partitions:
    """The same partitions by topic name, topics and partitions ascending."""
    return {
        topic: list(numbers)
        for topic, numbers in sorted((names(topic_id), numbers) for topic_id, numbers in partitions.items())
        if numbers
    }
