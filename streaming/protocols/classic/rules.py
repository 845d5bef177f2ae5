"""Rules of the JoinGroup protocols other than eager: its first version, cooperative (KIP-429), Connect (KIP-415)."""

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
    """Rules of cooperative: a member keeps its partitions while it joins, then revokes moved ones and rejoins."""

    def keeps(self, member: ClassicMember) -> TopicPartitions:
        """Return the owned partitions of topics that the member still subscribes to (``onJoinPrepare``)."""
        if not vote.cooperative(self.assignors(member)):
            return NOTHING
        return select_topics(member.owned, member.client.topics)

    def rejoins(self, step: ClassicStep, member: ClassicMember, share: TopicPartitions) -> bool:
        """True if the member must revoke partitions and rejoin (``onJoinComplete``)."""
        del step
        return share is not member.owned and bool(minus(member.owned, share))


class EagerV1(Rules):
    """Rules of the first eager version: no SyncGroup, vote or instance ids; the coordinator computes assignments."""

    coordinator_assigns = True
    static = False
    member_id_required = False

    def assign(self, step: ClassicStep, order: Sequence[str]) -> Mapping[str, TopicPartitions]:
        """Return the assignment that the coordinator computes from current cluster metadata."""
        return step.client_side_shares(order)

    def assignors(self, member: ClassicMember) -> tuple[str, ...]:
        """Return the broker's strategy, whatever the client lists."""
        del member
        return self.default


class Remembered(NamedTuple):
    """State between rounds of Connect: the leader, its memory, and the work of each worker in order.

    ``revoked``: the workers whose last assignment revoked something.
    """

    leader: str
    incarnation: int
    memory: LeaderMemory
    work: Mapping[str, Work]
    revoked: frozenset[str]


class EagerWorkers(Rules):
    """Rules of ``connect.protocol = eager``: all workers stop; connectors and tasks are assigned round-robin."""

    static = False
    subscribes = False

    def assignors(self, member: ClassicMember) -> tuple[str, ...]:
        """Return the value of ``connect.protocol``."""
        del member
        return self.default

    def assign(self, step: ClassicStep, order: Sequence[str]) -> Mapping[str, TopicPartitions]:
        """Return the assignment by ``EagerAssignor``, over sorted workers."""
        ids = {step.members[name].member_id: name for name in order}
        answer = incremental.assign_eager(list(ids), _configured(step))
        return {ids[member_id]: done.share() for member_id, done in answer.items()}


def _configured(step: ClassicStep) -> dict[str, int]:
    return {name: topic.partitions for name, topic in step.group.topics.items()}


class Incremental(EagerWorkers):
    """Rules of ``connect.protocol = compatible``: workers keep running; lost tasks wait for the delay, then move."""

    def keeps(self, member: ClassicMember) -> TopicPartitions:
        """Return all of the worker's tasks: they keep running."""
        return member.owned

    def assign(self, step: ClassicStep, order: Sequence[str]) -> Mapping[str, TopicPartitions]:
        """Return the assignment by ``IncrementalCooperativeAssignor`` with the leader's memory."""
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
            ids[worker]
            for worker, change in answer.changes.items()
            if change.revoked.connectors or change.revoked.tasks
        )
        step.set(memory=Remembered(leader, incarnation, answer.state, after, revoked))
        if answer.delay_ms > 0:
            step.later(DelayOver(step.at + answer.delay_ms, generation))
        return {name: done.share() for name, done in after.items()}

    def rejoins(self, step: ClassicStep, member: ClassicMember, share: TopicPartitions) -> bool:
        """True if the worker has revoked work: it rejoins so that other workers get that work.

        This holds even if it does not run the work yet, as the leader may revoke work that it has just assigned
        (``DistributedHerder.handleRebalanceCompleted`` only checks the list of revoked work).
        """
        del share
        memory: Remembered | None = step.group.memory
        return memory is not None and member.client.name in memory.revoked


def _running(work: Work, member: ClassicMember) -> Work:
    """Return the work that a worker reports, in wire order; none if the worker is new or rejoined without work."""
    if member.claim_generation < 0:
        return Work()
    held = {(topic, number) for topic, numbers in member.claim.items() for number in numbers}
    return model.work_on_wire(Work(work.connectors, tuple(task for task in work.tasks if task in held)))
