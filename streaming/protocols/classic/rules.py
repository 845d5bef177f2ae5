"""Rules of the JoinGroup protocols beside eager: its first version, cooperative (KIP-429), Connect (KIP-415)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from assignors.assignment import minus, select_topics
from assignors.connect import incremental, model
from assignors.connect.model import LeaderMemory, Work
from assignors.model import TopicPartitions
from streaming.protocols import vote
from streaming.protocols.classic.step import ClassicMember, ClassicStep, DelayOver, Rules
from streaming.protocols.vocabulary import NOTHING


class Cooperative(Rules):
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


class EagerV1(Rules):
    """First version of eager: no SyncGroup, votes or instance ids; the coordinator runs the broker's strategy."""

    coordinator_assigns = True
    static = False
    member_id_required = False

    def assign(self, step: ClassicStep, order: Sequence[str]) -> Mapping[str, TopicPartitions]:
        """The coordinator runs the strategy, with the cluster's metadata as they are."""
        return step.client_side_shares(order)

    def assignors(self, member: ClassicMember) -> tuple[str, ...]:
        """The broker's strategy, whatever clients say."""
        del member
        return self.default


class Remembered(NamedTuple):
    """State between rounds: the leader's memory, the leader, and each worker's work in its order.

    ``revoked``: the workers whose last assignment revoked something.
    """

    leader: str
    incarnation: int
    memory: LeaderMemory
    work: Mapping[str, Work]
    revoked: frozenset[str]


class EagerWorkers(Rules):
    """``connect.protocol = eager``: all stop, connectors and tasks go round."""

    static = False
    subscribes = False

    def assignors(self, member: ClassicMember) -> tuple[str, ...]:
        """``connect.protocol``."""
        del member
        return self.default

    def assign(self, step: ClassicStep, order: Sequence[str]) -> Mapping[str, TopicPartitions]:
        """``EagerAssignor``: over sorted workers."""
        ids = {step.members[name].member_id: name for name in order}
        answer = incremental.assign_eager(list(ids), _configured(step))
        return {ids[member_id]: done.share() for member_id, done in answer.items()}


def _configured(step: ClassicStep) -> dict[str, int]:
    return {name: topic.partitions for name, topic in step.group.topics.items()}


class Incremental(EagerWorkers):
    """``connect.protocol = compatible``: workers keep running what they run; lost tasks wait, then move."""

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
        running = {member_id: _running(work.get(name, Work()), step.members[name]) for member_id, name in ids.items()}
        answer = incremental.assign(
            last.memory if stays else LeaderMemory(),
            running,
            _configured(step),
            step.at,
            max_delay_ms=step.timing.scheduled_rebalance_delay_ms,
            generation=generation,
        )
        after = {
            ids[member_id]: model.work_after(running[member_id], change) for member_id, change in answer.changes.items()
        }
        revoked = frozenset(
            ids[one] for one, change in answer.changes.items() if change.revoked.connectors or change.revoked.tasks
        )
        step.set(memory=Remembered(leader, incarnation, answer.state, after, revoked))
        if answer.delay_ms > 0:
            step.later(DelayOver(step.at + answer.delay_ms, generation))
        return {name: done.share() for name, done in after.items()}

    def rejoins(self, step: ClassicStep, member: ClassicMember, share: TopicPartitions) -> bool:
        """A worker with revoked work joins again, so that others may get it.

        Also where it does not run that: the leader may take away what it has only just given
        (``DistributedHerder.handleRebalanceCompleted`` asks for the list alone).
        """
        del share
        memory: Remembered | None = step.group.memory
        return memory is not None and member.client.name in memory.revoked


def _running(work: Work, member: ClassicMember) -> Work:
    """Return the work that a worker reports, in wire order; nothing when it is new or came back empty."""
    if member.claim_generation < 0:
        return Work()
    held = {(topic, number) for topic, numbers in member.claim.items() for number in numbers}
    return model.work_on_wire(Work(work.connectors, tuple(task for task in work.tasks if task in held)))
