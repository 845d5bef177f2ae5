"""Connect (KIP-415): incremental cooperative for workers; a connector's tasks take the place of partitions.

Tasks of a worker that is gone wait for it up to ``scheduled.rebalance.max.delay.ms``; when the delay ends
every worker joins again. Every worker may run every connector, and there are no static workers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from assignors.connect import eager as connect_eager
from assignors.connect import incremental, model
from assignors.connect.model import LeaderMemory, Work
from assignors.model import Share
from streaming.protocols.classic.step import ClassicMember, ClassicStep, DelayOver
from streaming.protocols.vocabulary import NOTHING


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

    def keeps(self, member: ClassicMember) -> Share:
        """Everything goes on."""
        return member.owned

    def assign(self, step: ClassicStep, order: Sequence[str]) -> Mapping[str, Share]:
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

    def rejoins(self, step: ClassicStep, member: ClassicMember, share: Share) -> bool:
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

    def keeps(self, member: ClassicMember) -> Share:
        """Nothing."""
        del member
        return NOTHING

    def assign(self, step: ClassicStep, order: Sequence[str]) -> Mapping[str, Share]:
        """``EagerAssignor``: over sorted workers."""
        ids = {step.members[name].member_id: name for name in order}
        answer = connect_eager.assign(
            list(ids), {name: topic.partitions for name, topic in step.group.topics.items()}
        )
        return {ids[member_id]: done.share() for member_id, done in answer.items()}

    def rejoins(self, step: ClassicStep, member: ClassicMember, share: Share) -> bool:
        """Never."""
        del step, member, share
        return False


def _running(work: Work, member: ClassicMember) -> Work:
    """What a worker reports, in the order of the wire; nothing when it is new or came back empty."""
    if member.claim_generation < 0:
        return Work()
    held = {(topic, number) for topic, numbers in member.claim.items() for number in numbers}
    return model.work_on_wire(Work(work.connectors, tuple(task for task in work.tasks if task in held)))
