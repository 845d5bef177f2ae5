"""State machine of the JoinGroup protocols: handlers of events (``AbstractCoordinator``), transitions, and rules."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from assignors.assignment import select_topics, subtract
from assignors.connect import incremental
from assignors.model import Topic, TopicPartitions
from streaming.protocols import vocabulary, vote
from streaming.protocols.classic import coordinator
from streaming.protocols.classic import step as classic
from streaming.protocols.machine import StateMachine
from streaming.protocols.vocabulary import LIVE, NOTHING, Stage, Table, TopicsChanged, rows


def topics_changed(step: classic.ClassicStep, event: TopicsChanged) -> None:
    """Change partition counts; clients notice the change when they refresh their metadata."""
    step.set_fields(topics={**step.group.topics, **event.topics})
    step.subscriptions()
    step.later(classic.MetadataSeen(step.at + step.timing.metadata_age_ms))


def _apply_metadata(step: classic.ClassicStep, event: classic.MetadataSeen) -> None:
    """Let the leader rejoin if topics changed since the assignment; if coordinators assign, they rebalance instead."""
    del event
    if step.rules.coordinator_assigns:
        if step.group.phase is classic.ClassicPhase.STABLE and _has_other_topics(step):
            step.add_reason("topic.partitions_changed")
            coordinator.prepare(step)
        return
    leader = step.members.get(step.group.leader)
    if leader is None or leader.stage is not Stage.STABLE or not _is_metadata_outdated(step):
        return
    if _has_other_topics(step):
        step.add_reason("topic.partitions_changed")
    step.set_fields(snapshot=None)
    step.join([leader.client.name])


def _is_metadata_outdated(step: classic.ClassicStep) -> bool:
    snapshot = step.group.snapshot
    return _has_other_topics(step) or (snapshot is not None and snapshot != step.subscribed_topics())


def _has_other_topics(step: classic.ClassicStep) -> bool:
    then, now = step.group.topics_at_assignment, step.group.topics
    if then is now:
        return False
    topics = step.subscribed_topics() if step.rules.subscribes else {*then, *now}
    return any(then.get(topic) != now.get(topic) for topic in topics)


def rebalance_in_progress(step: classic.ClassicStep, event: classic.RebalanceInProgress) -> None:
    """Let members rejoin whose heartbeat or SyncGroup was answered with REBALANCE_IN_PROGRESS."""
    names = step.waiting(event, (Stage.STABLE, Stage.SYNCING))
    step.join(name for name in names if step.members[name].is_member)


def assigned(step: classic.ClassicStep, event: classic.Assigned) -> None:
    """Deliver assignments: members stop and start partitions, and rejoin if the protocol requires it."""
    names = step.waiting(event, (Stage.SYNCING,))
    if event.generation != step.group.generation:
        return  # A later generation is under way, and these members will receive its assignment.
    again: list[str] = []
    shares: dict[str, TopicPartitions] = {}
    for name in names:
        member = step.members[name]
        share, owned = member.assigned, member.owned
        if step.rules.rejoins(step, member, share) or (
            step.rules.subscribes and member.subscription != member.client.topics
        ):
            again.append(name)
        if share is not owned:
            shares[name] = share
        step.members[name] = structs.replace(
            member,
            stage=Stage.STABLE,
            owned=share,
            last=share,
            generation=event.generation,
            beat_from=step.at,
            contact_at=step.at,
        )
    step.consume(shares)
    if names:
        coordinator.notify_rejoin(step)
    if step.group.leader in names and _is_metadata_outdated(step):
        step.later(classic.MetadataSeen(step.at + step.timing.metadata_age_ms))
    if again and step.group.phase is not classic.ClassicPhase.EMPTY:
        step.join(again)


def _end_delay(step: classic.ClassicStep, event: classic.DelayPassed) -> None:
    if event.generation != step.group.generation:
        return
    # A worker counts the delay from when it receives its assignment (``DistributedHerder.RebalanceListener``).
    if any(member.stage is Stage.SYNCING for member in step.members.values()):
        step.later(classic.DelayPassed(step.network(), event.generation))
    step.join(name for name, member in step.members.items() if member.stage is Stage.STABLE)


def coordinator_fails(step: classic.ClassicStep, event: vocabulary.CoordinatorFails) -> None:
    """Let another coordinator restore the group; if coordinators assign, the group is lost and all members rejoin."""
    del event
    live = [name for name, member in step.members.items() if member.stage in LIVE]
    step.send(step.first_request, len(live))
    if not step.rules.coordinator_assigns or not live:
        return
    step.quiet(live)
    step.consume(dict.fromkeys(live, NOTHING))
    for name, member in list(step.members.items()):
        if name in live:
            step.restart_join(name)
        elif member.stage is Stage.FROZEN:
            step.members[name] = structs.replace(classic.without_membership(member), call=member.call + 1)
        else:
            del step.members[name]
    step.set_fields(phase=classic.ClassicPhase.EMPTY, leader="", initial=False, attempt=step.group.attempt + 1)
    step.send_first_requests(live)


_EMPTY, _PREPARING, _COMPLETING, _STABLE = classic.ClassicPhase
_ALL_PHASES = tuple(classic.ClassicPhase)
_JOIN = (classic.JoinGroup, coordinator.join_group)
_SYNC_TIMEOUT = (classic.SyncTimeout, coordinator.sync_timeout)
#: The coordinator: ``ClassicGroup`` and ``GroupMetadataManager``.
COORDINATOR_TABLE: Table = {
    **rows((_EMPTY,), *_JOIN, (_EMPTY, _PREPARING)),
    **rows((_PREPARING,), *_JOIN, (_PREPARING, _COMPLETING)),
    **rows((_COMPLETING,), *_JOIN, (_COMPLETING, _PREPARING), "new or changed member"),
    **rows((_STABLE,), *_JOIN, (_STABLE, _PREPARING, _COMPLETING), "new member, leader, changed"),
    **rows((_PREPARING,), classic.InitialDelayOver, coordinator.end_initial_delay, (_PREPARING, _COMPLETING, _EMPTY)),
    **rows((_EMPTY, _COMPLETING, _STABLE), classic.InitialDelayOver, coordinator.end_initial_delay),
    **rows((_PREPARING,), classic.JoinTimeout, coordinator.join_timeout, (_PREPARING, _COMPLETING, _EMPTY)),
    **rows((_EMPTY, _COMPLETING, _STABLE), classic.JoinTimeout, coordinator.join_timeout),
    **rows((_COMPLETING,), classic.SyncGroup, coordinator.sync_group, (_COMPLETING, _STABLE), "of the leader"),
    **rows((_EMPTY, _PREPARING, _STABLE), classic.SyncGroup, coordinator.sync_group),
    **rows((_COMPLETING, _STABLE), *_SYNC_TIMEOUT, (_COMPLETING, _STABLE, _PREPARING, _EMPTY)),
    **rows((_EMPTY, _PREPARING), *_SYNC_TIMEOUT),
    **rows((_EMPTY,), classic.LeaveGroup, coordinator.leave_group),
    **rows((_PREPARING,), classic.LeaveGroup, coordinator.leave_group, (_PREPARING, _COMPLETING, _EMPTY)),
    **rows((_COMPLETING, _STABLE), classic.LeaveGroup, coordinator.leave_group, _ALL_PHASES),
    **rows((_EMPTY,), classic.SessionExpired, coordinator.session_expired),
    **rows((_PREPARING,), classic.SessionExpired, coordinator.session_expired, (_PREPARING, _COMPLETING, _EMPTY)),
    **rows((_COMPLETING, _STABLE), classic.SessionExpired, coordinator.session_expired, _ALL_PHASES),
    **rows(_ALL_PHASES, classic.RebalanceInProgress, rebalance_in_progress),
    **rows(_ALL_PHASES, classic.Assigned, assigned),
    **rows(_ALL_PHASES, TopicsChanged, topics_changed),
    **rows(_ALL_PHASES, classic.MetadataSeen, _apply_metadata),
    **rows(_ALL_PHASES, classic.DelayPassed, _end_delay),
    **rows(_ALL_PHASES, vocabulary.CoordinatorFails, coordinator_fails),
}
#: The first version has no sync phase: the coordinator computes the assignment as soon as all members have joined.
COORDINATOR_V1_TABLE: Table = (
    {
        pair: row._replace(to=tuple(dict.fromkeys(_STABLE if to is _COMPLETING else to for to in row.to)))
        for pair, row in COORDINATOR_TABLE.items()
        if pair[0] is not _COMPLETING and pair[1] not in (classic.SyncGroup, classic.SyncTimeout, classic.DelayPassed)
    }
    | rows((_STABLE,), classic.MetadataSeen, _apply_metadata, (_STABLE, _PREPARING))
    | rows((_PREPARING, _STABLE), vocabulary.CoordinatorFails, coordinator_fails, (_EMPTY, _PREPARING, _STABLE))
)


# Rules of the first eager version, of cooperative (KIP-429) and of Connect (KIP-415).


class Cooperative(classic.Rules):
    """Rules of cooperative: a member keeps its partitions while it joins, then revokes moved partitions and rejoins."""

    def kept_partitions(self, member: classic.ClassicMember) -> TopicPartitions:
        """Return the member's owned partitions of topics to which it still subscribes (``onJoinPrepare``)."""
        if not vote.cooperative(self.assignors(member)):
            return NOTHING
        return select_topics(member.owned, member.client.topics)

    def rejoins(self, step: classic.ClassicStep, member: classic.ClassicMember, share: TopicPartitions) -> bool:
        """True if the member must revoke partitions and rejoin (``onJoinComplete``)."""
        del step
        return share is not member.owned and bool(subtract(member.owned, share))


class EagerV1(classic.Rules):
    """Rules of the eager protocol's first version: the coordinator assigns, and there are no static members."""

    coordinator_assigns = True
    static = False
    member_id_required = False

    def assign(self, step: classic.ClassicStep, order: Sequence[str]) -> Mapping[str, TopicPartitions]:
        """Return the assignment that the coordinator computes from current cluster metadata."""
        return step.client_side_shares(order)

    def assignors(self, member: classic.ClassicMember) -> tuple[str, ...]:
        """Return the assignor that the broker is configured with, whatever assignors the client lists."""
        del member
        return self.default


class ConnectGroupState(NamedTuple):
    """State of a Connect group between rounds: the leader, the leader's memory, and the ordered work of each worker.

    ``revoked``: the workers whose last assignment revoked work.
    """

    leader: str
    incarnation: int
    memory: incremental.LeaderMemory
    work: Mapping[str, incremental.Work]
    revoked: frozenset[str]


class EagerWorkers(classic.Rules):
    """Rules of ``connect.protocol = eager``: all workers stop; connectors and tasks are assigned round-robin."""

    static = False
    subscribes = False

    def assignors(self, member: classic.ClassicMember) -> tuple[str, ...]:
        """Return the value of ``connect.protocol`` as the worker's only assignor."""
        del member
        return self.default

    def assign(self, step: classic.ClassicStep, order: Sequence[str]) -> Mapping[str, TopicPartitions]:
        """Return the assignment that ``EagerAssignor`` computes over the sorted workers."""
        ids = {step.members[name].member_id: name for name in order}
        answer = incremental.assign_eager(list(ids), _configured(step))
        return {ids[member_id]: done.share() for member_id, done in answer.items()}


def _configured(step: classic.ClassicStep) -> dict[str, int]:
    return {name: topic.partitions for name, topic in step.group.topics.items()}


class IncrementalWorkers(EagerWorkers):
    """Rules of ``connect.protocol = compatible``: workers keep their tasks; lost tasks move after a set delay."""

    def kept_partitions(self, member: classic.ClassicMember) -> TopicPartitions:
        """Return all of the worker's tasks, which keep running while the worker joins."""
        return member.owned

    def assign(self, step: classic.ClassicStep, order: Sequence[str]) -> Mapping[str, TopicPartitions]:
        """Return the assignment that ``IncrementalCooperativeAssignor`` computes with the leader's memory."""
        leader = step.group.leader
        generation = step.group.generation
        incarnation = step.members[leader].incarnation
        last = step.group.memory
        is_same_leader = last is not None and (last.leader, last.incarnation) == (leader, incarnation)
        work = last.work if last is not None else {}
        ids = {step.members[name].member_id: name for name in order}
        running = {
            member_id: _running_work(work.get(name, incremental.Work()), step.members[name])
            for member_id, name in ids.items()
        }
        answer = incremental.assign(
            last.memory if is_same_leader else incremental.LeaderMemory(),
            running,
            _configured(step),
            step.at,
            max_delay_ms=step.timing.scheduled_rebalance_delay_ms,
            generation=generation,
        )
        after = {
            ids[member_id]: incremental.apply_work_change(running[member_id], change)
            for member_id, change in answer.changes.items()
        }
        revoked = frozenset(ids[worker] for worker, change in answer.changes.items() if change.revoked)
        step.set_fields(memory=ConnectGroupState(leader, incarnation, answer.state, after, revoked))
        if answer.delay_ms > 0:
            step.later(classic.DelayPassed(step.at + answer.delay_ms, generation))
        return {name: done.share() for name, done in after.items()}

    def rejoins(self, step: classic.ClassicStep, member: classic.ClassicMember, share: TopicPartitions) -> bool:
        """True if the worker has revoked work and must rejoin, so that other workers get this work.

        The worker also rejoins if it does not run the revoked work yet, as the leader may revoke work that it has just
        assigned (``DistributedHerder.handleRebalanceCompleted`` only checks the list of revoked work).
        """
        del share
        memory: ConnectGroupState | None = step.group.memory
        return memory is not None and member.client.name in memory.revoked


def _running_work(work: incremental.Work, member: classic.ClassicMember) -> incremental.Work:
    """Return the connectors and tasks that a worker reports, in wire order; none if it is new or rejoined without."""
    if member.claim_generation < 0:
        return incremental.Work()
    held = {(topic, number) for topic, numbers in member.claim.items() for number in numbers}
    tasks = tuple(task for task in work.tasks if task in held)
    return incremental.serialized_work(incremental.Work(work.connectors, tasks))


class Classic(StateMachine[classic.ClassicState, classic.ClassicMember]):
    """State machine of a protocol with JoinGroup requests, configured by the protocol's rules."""

    group = classic.ClassicState

    def __init__(self, name: str, setup: vocabulary.Setup, rules: classic.Rules) -> None:
        super().__init__(name, setup, COORDINATOR_V1_TABLE if rules.coordinator_assigns else COORDINATOR_TABLE)
        self.rules = rules

    def resume(
        self, topics: Mapping[str, Topic], held: Sequence[vocabulary.Owner], number: int
    ) -> classic.ClassicState:
        """Return a stable group of generation ``number`` in which the members own the partitions in ``held``."""
        if not self.rules.subscribes:
            return super().resume(topics, held, number)
        members = {}
        for name, fields in self.state_at_rest(held).items():
            fields.update(dict.fromkeys(("last", "claim", "assigned"), fields["owned"]))
            fields.update(dict.fromkeys(("generation", "claim_generation", "part"), number))
            assignors = self.rules.assignors(classic.ClassicMember(fields["client"]))
            members[name] = classic.ClassicMember(**fields, assignors=assignors)
        chosen = vote.select({name: member.assignors for name, member in members.items()})
        generation = {"phase": _STABLE, "generation": number, "announced": number, "topics_at_assignment": topics}
        group = self.group_at_rest(members, topics, assignor=chosen, **generation)
        return structs.replace(group, leader=self.step(group, 0).order(members)[0])

    def phase_of(self, group: classic.ClassicState) -> classic.ClassicPhase:
        """Return the phase of a classic group (``ClassicGroup.currentState``)."""
        return group.phase

    def step(self, group: classic.ClassicState, at: int) -> classic.ClassicStep:
        """Return a new step, in which one event is applied to a classic group at the time ``at``."""
        return classic.ClassicStep(group, at, self.setup, self.rules)
