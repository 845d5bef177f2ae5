"""Rules of the JoinGroup protocols: eager, its first version, cooperative (KIP-429), Connect (KIP-415)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from assignors.assignment import minus, select_topics
from assignors.connect import eager as connect_eager
from assignors.connect import incremental, model
from assignors.connect.model import LeaderMemory, Work
from assignors.model import Member as AssignorMember
from assignors.model import TopicPartitions
from streaming.protocols import vote
from streaming.protocols.classic.step import ClassicMember, ClassicStep, DelayOver
from streaming.protocols.vocabulary import NOTHING, Setup


class Eager:
    """Stop the world: nobody consumes from before JoinGroup until the SyncGroup answer."""

    coordinator_assigns = False
    static = True
    member_id_required = True
    subscribes = True

    def __init__(self, setup: Setup) -> None:
        self._default = (setup.assignor,)

    def assignors(self, member: ClassicMember) -> tuple[str, ...]:
        """The client's own list, or the group's default."""
        return member.client.assignors or self._default

    def keeps(self, member: ClassicMember) -> TopicPartitions:
        """Nothing."""
        del member
        return NOTHING

    def assign(self, step: ClassicStep, order: Sequence[str]) -> Mapping[str, TopicPartitions]:
        """The leader runs the chosen client-side assignor."""
        _update_snapshot(step)
        return client_side_shares(step, order)

    def rejoins(self, step: ClassicStep, member: ClassicMember, share: TopicPartitions) -> bool:
        """Never: what it is given it may consume at once."""
        del step, member, share
        return False


def client_side_shares(step: ClassicStep, order: Sequence[str]) -> dict[str, TopicPartitions]:
    """Shares by name, from the registry's assignor with what each JoinGroup said."""
    # Owned partitions travel in every Subscription (v1+); sticky reads its own user data instead.
    assignor = step.group.assignor
    told = {}
    for name in order:
        member = step.members[name]
        told[name] = AssignorMember(
            member.member_id,
            member.said,
            member.client.instance_id if step.rules.static else None,
            member.client.rack_id,
            member.last if assignor == "sticky" else member.claim,
            member.claim_generation,
        )
    return step.shares("classic", assignor, told)


def _update_snapshot(step: ClassicStep) -> None:
    """Which topics the leader's metadata hold when it assigns (``ConsumerCoordinator.updateGroupSubscription``).

    A leader asks for fresh metadata only when the group subscribes to more than it does itself, or its own
    subscription changed. Otherwise a topic that nobody subscribes to any more is still in them; with the next
    refresh the leader takes that for a change, and joins again.
    """
    leader = step.members[step.group.leader]
    whose = (leader.client.name, leader.incarnation, leader.said)
    wanted = step.said()
    stale = step.group.snapshot
    fresh = stale is None or whose != step.group.snapshot_of or not wanted.issubset(leader.said)
    step.set(snapshot=wanted if fresh else stale, snapshot_of=whose)


class Cooperative(Eager):
    """Keeps what it owns through the join, revokes owned − assigned after it, and joins again if that was any."""

    def keeps(self, member: ClassicMember) -> TopicPartitions:
        """All it owns of topics that it still subscribes to (``onJoinPrepare``)."""
        if not vote.cooperative(self.assignors(member)):
            return NOTHING
        return select_topics(member.owned, member.client.topics)

    def rejoins(self, step: ClassicStep, member: ClassicMember, share: TopicPartitions) -> bool:
        """``onJoinComplete``: "need to revoke partitions and re-join"."""
        del step
        return share is not member.owned and bool(minus(member.owned, share))


class EagerV1(Eager):
    """As eager, without SyncGroup, votes and instance ids."""

    coordinator_assigns = True
    static = False
    member_id_required = False

    def assign(self, step: ClassicStep, order: Sequence[str]) -> Mapping[str, TopicPartitions]:
        """The coordinator runs the strategy, with the cluster's metadata as they are."""
        return client_side_shares(step, order)

    def assignors(self, member: ClassicMember) -> tuple[str, ...]:
        """The broker's strategy, whatever clients say."""
        del member
        return self._default


class Remembered(NamedTuple):
    """What lives between rounds: the leader's memory, who the leader was, and each worker's work in its order.

    ``revoked``: the workers whose last assignment told them to stop something.
    """

    leader: str
    incarnation: int
    memory: LeaderMemory
    work: Mapping[str, Work]
    revoked: frozenset[str]


class Incremental:
    """Workers keep running what they run; lost tasks wait, then move."""

    coordinator_assigns = False
    static = False
    member_id_required = True
    subscribes = False

    def assignors(self, member: ClassicMember) -> tuple[str, ...]:
        """``connect.protocol = compatible``."""
        del member
        return ("incremental",)

    def keeps(self, member: ClassicMember) -> TopicPartitions:
        """Everything goes on."""
        return member.owned

    def assign(self, step: ClassicStep, order: Sequence[str]) -> Mapping[str, TopicPartitions]:
        """The leader runs ``IncrementalCooperativeAssignor`` with what it remembers."""
        leader = step.group.leader
        generation = step.group.generation
        incarnation = step.members[leader].incarnation
        last = step.group.memory
        stays = last is not None and (last.leader, last.incarnation) == (leader, incarnation)
        work = last.work if last is not None else {}
        ids = {step.members[name].member_id: name for name in order}
        running = {
            member_id: _running(work.get(name, Work()), step.members[name]) for member_id, name in ids.items()
        }
        answer = incremental.assign(
            last.memory if stays else LeaderMemory(),
            running,
            {name: topic.partitions for name, topic in step.group.topics.items()},
            step.at,
            max_delay_ms=step.timing.scheduled_rebalance_delay_ms,
            generation=generation,
        )
        after = {
            ids[member_id]: model.work_after(running[member_id], change)
            for member_id, change in answer.changes.items()
        }
        revoked = frozenset(
            ids[one]
            for one, change in answer.changes.items()
            if change.revoked.connectors or change.revoked.tasks
        )
        step.set(memory=Remembered(leader, incarnation, answer.state, after, revoked))
        if answer.delay_ms > 0:
            step.later(DelayOver(step.at + answer.delay_ms, generation))
        return {name: done.share() for name, done in after.items()}

    def rejoins(self, step: ClassicStep, member: ClassicMember, share: TopicPartitions) -> bool:
        """A worker that is told to stop something joins again, so that others may get it.

        Also where it does not run that: the leader may take away what it has only just given
        (``DistributedHerder.handleRebalanceCompleted`` asks for the list alone).
        """
        del share
        memory: Remembered | None = step.group.memory
        return memory is not None and member.client.name in memory.revoked


class EagerWorkers(Incremental):
    """``connect.protocol = eager``: all stop, connectors and tasks go round."""

    def assignors(self, member: ClassicMember) -> tuple[str, ...]:
        """``connect.protocol = eager``."""
        del member
        return ("eager",)

    def keeps(self, member: ClassicMember) -> TopicPartitions:
        """Nothing."""
        del member
        return NOTHING

    def assign(self, step: ClassicStep, order: Sequence[str]) -> Mapping[str, TopicPartitions]:
        """``EagerAssignor``: over sorted workers."""
        ids = {step.members[name].member_id: name for name in order}
        answer = connect_eager.assign(
            list(ids), {name: topic.partitions for name, topic in step.group.topics.items()}
        )
        return {ids[member_id]: done.share() for member_id, done in answer.items()}

    def rejoins(self, step: ClassicStep, member: ClassicMember, share: TopicPartitions) -> bool:
        """Never."""
        del step, member, share
        return False


def _running(work: Work, member: ClassicMember) -> Work:
    """What a worker reports, in the order of the wire; nothing when it is new or came back empty."""
    if member.claim_generation < 0:
        return Work()
    held = {(topic, number) for topic, numbers in member.claim.items() for number in numbers}
    return model.work_on_wire(Work(work.connectors, tuple(task for task in work.tasks if task in held)))
