"""Online migration between the classic and the consumer protocol (KIP-848, migration policy ``bidirectional``).

While all members are classic, the group is a classic group. The first consumer member's heartbeat converts the group,
and classic members then send JoinGroup and SyncGroup to a consumer group. When the last consumer member departs, the
group is converted back and all members rejoin. Unlike in Kafka, the group is not converted back if a static member
rejoins as a classic member in place of the last consumer member.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from assignors.model import TopicPartitions
from streaming.protocols import vocabulary
from streaming.protocols.classic.coordinator import prepare
from streaming.protocols.classic.machine import COORDINATOR_TABLE, Classic, Cooperative
from streaming.protocols.classic.step import ClassicMember, ClassicPhase, ClassicState, JoinGroup, in_hash_table_order
from streaming.protocols.consumer import step as consumer
from streaming.protocols.vocabulary import LIVE, MachineMember, Stage

_EVENTS = (consumer.Heartbeat, consumer.HeartbeatAnswered, consumer.Goodbye, consumer.Expired, consumer.MetadataChanged)
#: Events that a classic group schedules for itself; they are ignored once the group has been converted.
_CLASSIC = frozenset(event for _, event in COORDINATOR_TABLE) - {vocabulary.TopicsChanged, vocabulary.CoordinatorFails}


def classic_state_machine(setup: vocabulary.Setup) -> Classic:
    """Return the classic protocol's state machine for a group of classic members; the default assignor is ``range``."""
    classic_setup = replace(setup, assignor="range")
    return Classic("cooperative", classic_setup, Cooperative(classic_setup))


def route_event(
    inner: Classic, group: consumer.ConsumerState, event: vocabulary.GroupEvent
) -> tuple[consumer.ConsumerState, tuple[vocabulary.MachineOutput, ...]] | None:
    """Apply an event that concerns classic members; return None if the event is for the consumer protocol."""
    if _is_classic(group, event):
        if isinstance(event, vocabulary.TopicsChanged):
            group = structs.replace(group, topics={**group.topics, **event.topics})
        after, outputs = inner.apply(group.classic or inner.initial(group.topics), event)
        return structs.replace(group, classic=after), outputs
    return (group, ()) if type(event) in _CLASSIC else None


def split_event(
    group: consumer.ConsumerState, event: vocabulary.GroupEvent
) -> tuple[vocabulary.GroupEvent, vocabulary.GroupEvent] | None:
    """Split an event about classic and consumer members into two events; return None if it is about one kind only."""
    if group.classic is None or not isinstance(event, vocabulary.MemberEvent):
        return None
    consumers = tuple(name for name in event.names if name in group.members)
    if not consumers or len(consumers) == len(event.names):
        return None
    classic_names = tuple(name for name in event.names if name not in group.members)
    return structs.replace(event, names=classic_names), structs.replace(event, names=consumers)


def _is_classic(group: consumer.ConsumerState, event: vocabulary.GroupEvent) -> bool:
    if isinstance(event, vocabulary.Start):
        classic = [client for client in event.clients if client.group_protocol == "classic"]
        if not classic or (group.classic is None and group.members):
            return False
        if len(classic) < len(event.clients):
            raise vocabulary.UndefinedTransition("consumer: classic and consumer members can't start in one event")
        return True
    if group.classic is None or isinstance(event, _EVENTS):
        return False
    return not isinstance(event, vocabulary.MemberEvent) or not any(name in group.members for name in event.names)


def upgrade(step: consumer.ConsumerStep, event: consumer.Heartbeat) -> None:
    """Convert to a consumer group at the first heartbeat of a consumer member (``convertToConsumerGroup``)."""
    classic = step.group.classic
    if classic is None or not step.waiting(event, (Stage.STARTING, Stage.JOINING)):
        return
    members = {}
    targets = {}
    silent = []
    classic_members = {name: member for name, member in classic.members.items() if member.is_member}
    places = {name: place for place, name in enumerate(in_hash_table_order(classic_members, classic.most), 1)}
    for name, member in classic.members.items():
        if name in step.members or (not member.is_member and member.stage not in LIVE):
            continue
        members[name] = structs.replace(_member(member, classic.generation, step.at), place=places.get(name, 0))
        if member.is_member:
            targets[name] = member.assigned
        if member.stage not in LIVE:
            silent.append(name)
    step.members = {**members, **step.members}
    # An empty classic group is deleted, and a new group begins (``maybeDeleteEmptyClassicGroup``).
    group_epoch, target_epoch = (classic.generation,) * 2 if classic_members else (consumer.NEW_EPOCH, 0)
    step.set_fields(classic=None, group_epoch=group_epoch, target_epoch=target_epoch, targets=targets, held=targets)
    incarnations = {**classic.incarnations, **step.group.incarnations}
    step.set_fields(incarnations=incarnations, places=len(places), most=len(places))
    step.set_fields(attempt=classic.attempt, reason=classic.reason)
    step.subscriptions()
    step.watch(silent)
    step.send_leave_requests([name for name, member in members.items() if member.stage is Stage.LEAVING])
    joining = [name for name, member in members.items() if member.stage is Stage.STARTING]
    if joining:
        step.send_heartbeats(joining)


def _client_fields(member: MachineMember) -> dict[str, Any]:
    kept: dict[str, Any] = {"call": member.call + 1, "incarnation": member.incarnation, "owned": member.owned}
    if member.is_member:
        kept |= {
            "is_member": True,
            "stage": Stage.STABLE if member.stage in LIVE else member.stage,
            "member_id": member.member_id,
            "beat_from": member.beat_from,
            "contact_at": max(member.contact_at, member.beat_from or 0),
            "subscription": member.subscription,
        }
    return kept


def _member(member: ClassicMember, generation: int, at: int) -> consumer.ConsumerMember:
    client = replace(member.client, group_protocol="classic")
    kept = _client_fields(member)
    if member.is_member:
        kept["current"] = consumer.CurrentAssignment(consumer.Reconciliation.STABLE, generation, member.assigned)
        if member.stage in LIVE and member.beat_from is None:
            kept["beat_from"] = at
    return consumer.ConsumerMember(client, **kept)


def downgrade(step: consumer.ConsumerStep, kind: str, gone: Sequence[str]) -> bool:
    """Convert the group to a classic group if only classic members remain; members in ``gone`` do not rejoin."""
    remaining = step.group_members()
    if not remaining or not all(member.is_classic for member in remaining.values()):
        return False
    inner = classic_state_machine(step.setup)
    epoch = step.group.group_epoch
    members = {
        name: _to_classic_member(member, epoch, step.group.targets.get(name, vocabulary.NOTHING))
        for name, member in step.members.items()
        if member.is_classic and (member.is_member or member.stage is not Stage.CRASHED)
    }
    topics = step.group.topics
    classic_step = inner.step(ClassicState(members=members, topics=topics, topics_at_assignment=topics), step.at)
    classic_step.set_fields(phase=ClassicPhase.STABLE, generation=epoch, announced=epoch, attempt=step.group.attempt)
    classic_step.set_fields(incarnations=step.group.incarnations, places=step.group.places, most=len(remaining))
    for name, member in classic_step.group_members().items():
        classic_step.update(name, assignors=inner.rules.assignors(member))
    classic_step.set_fields(leader=classic_step.order(classic_step.group_members())[0])
    classic_step.add_reason(kind, gone)
    classic_step.watch([name for name, member in members.items() if member.stage not in LIVE])
    starting_members = [name for name, member in members.items() if member.stage is Stage.STARTING]
    if starting_members:
        classic_step.later(JoinGroup(step.network(), classic_step.calls(starting_members)))
    classic_step.send_leave_requests([name for name, member in members.items() if member.stage is Stage.LEAVING])
    prepare(classic_step)
    classic_step.subscriptions()
    classic, outputs = classic_step.done()
    step.members = {name: member for name, member in step.members.items() if name not in members}
    step.set_fields(classic=classic, target_epoch=epoch, targets={}, held={}, first=None, second=False)
    step.set_fields(outdated=False, reasons=(), subscribed=frozenset())
    step.out.extend(outputs)
    return True


def _to_classic_member(member: consumer.ConsumerMember, epoch: int, target: TopicPartitions) -> ClassicMember:
    """Return the member as a member of a classic group; a member that the coordinator does not list joins again."""
    kept = _client_fields(member)
    if not member.is_member:
        stage = member.stage if member.stage is Stage.FROZEN else Stage.STARTING
        return ClassicMember(member.client, stage=stage, **kept)
    kept |= {"last": member.owned, "claim": member.owned, "assigned": target, "place": member.place, "part": epoch}
    own = member.current.epoch
    return ClassicMember(member.client, **kept, generation=own, claim_generation=own)
