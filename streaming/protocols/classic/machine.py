"""The machine of the JoinGroup protocols: the coordinator's tables, and where the group stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from assignors.model import Topic
from streaming.protocols import vote
from streaming.protocols.classic import coordinator, members
from streaming.protocols.classic.group import (
    Assigned,
    ClassicMember,
    ClassicPhase,
    ClassicState,
    DelayOver,
    InitialDelayOver,
    JoinGroup,
    JoinTimeout,
    LeaveGroup,
    MetadataSeen,
    RebalanceInProgress,
    SessionExpired,
    SyncGroup,
    SyncTimeout,
)
from streaming.protocols.classic.step import ClassicStep, Rules
from streaming.protocols.group import Stage
from streaming.protocols.machine import Machine
from streaming.protocols.table import Table, rows
from streaming.protocols.vocabulary import CoordinatorFails, Held, Setup, TopicsChanged

_EMPTY, _PREPARING, _COMPLETING, _STABLE = ClassicPhase
_ALL = tuple(ClassicPhase)

#: The coordinator: ``ClassicGroup`` and ``GroupMetadataManager``.
COORDINATOR: Table = {
    **rows((_EMPTY,), JoinGroup, coordinator.join_group, (_EMPTY, _PREPARING)),
    **rows((_PREPARING,), JoinGroup, coordinator.join_group, (_PREPARING, _COMPLETING)),
    **rows(
        (_COMPLETING,), JoinGroup, coordinator.join_group, (_COMPLETING, _PREPARING), "new or changed member"
    ),
    **rows(
        (_STABLE,),
        JoinGroup,
        coordinator.join_group,
        (_STABLE, _PREPARING, _COMPLETING),
        "new member, leader, changed",
    ),
    **rows(
        (_PREPARING,), InitialDelayOver, coordinator.initial_delay_over, (_PREPARING, _COMPLETING, _EMPTY)
    ),
    **rows((_EMPTY, _COMPLETING, _STABLE), InitialDelayOver, coordinator.initial_delay_over),
    **rows((_PREPARING,), JoinTimeout, coordinator.join_timeout, (_PREPARING, _COMPLETING, _EMPTY)),
    **rows((_EMPTY, _COMPLETING, _STABLE), JoinTimeout, coordinator.join_timeout),
    **rows((_COMPLETING,), SyncGroup, coordinator.sync_group, (_COMPLETING, _STABLE), "of the leader"),
    **rows((_EMPTY, _PREPARING, _STABLE), SyncGroup, coordinator.sync_group),
    **rows(
        (_COMPLETING, _STABLE),
        SyncTimeout,
        coordinator.sync_timeout,
        (_COMPLETING, _STABLE, _PREPARING, _EMPTY),
    ),
    **rows((_EMPTY, _PREPARING), SyncTimeout, coordinator.sync_timeout),
    **rows((_EMPTY,), LeaveGroup, coordinator.leave_group),
    **rows((_PREPARING,), LeaveGroup, coordinator.leave_group, (_PREPARING, _COMPLETING, _EMPTY)),
    **rows((_COMPLETING, _STABLE), LeaveGroup, coordinator.leave_group, _ALL),
    **rows((_EMPTY,), SessionExpired, coordinator.session_expired),
    **rows((_PREPARING,), SessionExpired, coordinator.session_expired, (_PREPARING, _COMPLETING, _EMPTY)),
    **rows((_COMPLETING, _STABLE), SessionExpired, coordinator.session_expired, _ALL),
    **rows(_ALL, RebalanceInProgress, members.rebalance_in_progress),
    **rows(_ALL, Assigned, members.assigned),
    **rows(_ALL, TopicsChanged, members.topics_changed),
    **rows(_ALL, MetadataSeen, members.metadata_seen),
    **rows(_ALL, DelayOver, members.delay_over),
    **rows(_ALL, CoordinatorFails, members.coordinator_fails),
}

#: The first version has no sync phase: the coordinator assigns as soon as everyone has joined.
COORDINATOR_V1: Table = (
    {
        pair: row._replace(to=tuple(dict.fromkeys(_STABLE if to is _COMPLETING else to for to in row.to)))
        for pair, row in COORDINATOR.items()
        if pair[0] is not _COMPLETING and pair[1] not in (SyncGroup, SyncTimeout, DelayOver)
    }
    | rows((_STABLE,), MetadataSeen, members.metadata_seen, (_STABLE, _PREPARING))
    | rows((_PREPARING, _STABLE), CoordinatorFails, members.coordinator_fails, (_EMPTY, _PREPARING, _STABLE))
)

#: What the group's own events mean for a process. For the diagrams: the coordinator's table has their handlers.
PROCESS_ANSWERS: Table = {
    **rows((Stage.STARTING,), JoinGroup, coordinator.join_group, (Stage.JOINING,), "sent"),
    **rows(
        (Stage.STABLE, Stage.SYNCING),
        RebalanceInProgress,
        members.rebalance_in_progress,
        (Stage.JOINING,),
    ),
    **rows((Stage.JOINING,), SyncGroup, coordinator.sync_group, (Stage.SYNCING,), "JoinGroup answered"),
    **rows((Stage.SYNCING,), Assigned, members.assigned, (Stage.STABLE, Stage.JOINING), "SyncGroup answered"),
}


class Classic(Machine[ClassicState, ClassicMember]):
    """One of the JoinGroup protocols, which its rules make it."""

    group = ClassicState

    def __init__(self, name: str, setup: Setup, rules: Rules) -> None:
        super().__init__(name, setup, COORDINATOR_V1 if rules.coordinator_assigns else COORDINATOR)
        self.rules = rules

    def standing(self, topics: Mapping[str, Topic], held: Sequence[Held], number: int) -> ClassicState:
        """A stable generation, of which every member has told what it owns."""
        if not self.rules.subscribes:
            return super().standing(topics, held, number)
        members = {}
        for place, (client, share) in enumerate(held, 1):
            member = ClassicMember(client, owned=share)
            members[client.name] = structs.replace(
                member,
                stage=Stage.STABLE,
                incarnation=1,
                known=True,
                said=client.topics,
                member_id=self.setup.member_id(client.name, 1),
                beat_from=0,
                place=place,
                generation=number,
                last=share,
                assignors=self.rules.assignors(member),
                claim=share,
                claim_generation=number,
                assigned=share,
                part=number,
            )
        step = self.step(
            ClassicState(
                members=members,
                topics=topics,
                incarnations=dict.fromkeys(members, 1),
                places=len(members),
                most=len(members),
                phase=_STABLE,
                generation=number,
                announced=number,
                assignor=vote.select({name: member.assignors for name, member in members.items()}),
                assigned_with=topics,
            ),
            0,
        )
        step.set(leader=step.order(members)[0], wanted=step.subscribed(list(members.values())))
        return step.done()[0]

    def phase_of(self, group: ClassicState) -> ClassicPhase:
        """``ClassicGroup.currentState``."""
        return group.phase

    def step(self, group: ClassicState, at: int) -> ClassicStep:
        """A step under the protocol's rules."""
        return ClassicStep(group, at, self.setup, self.rules)

    def stable(self, group: ClassicState) -> bool:
        """Whether every live member consumes what the coordinator stored for it."""
        return group.phase in (_STABLE, _EMPTY) and all(
            member.stage not in (Stage.STARTING, Stage.JOINING, Stage.SYNCING)
            for member in group.members.values()
        )
