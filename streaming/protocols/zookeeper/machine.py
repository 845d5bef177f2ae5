"""What ZooKeeper consumers do: register, watch, stop, release, read, claim, and try again."""

from __future__ import annotations

from collections.abc import Sequence

from assignors.model import Share
from assignors.shares import taken
from streaming.protocols.group import LIVE, Stage, Table, rows
from streaming.protocols.machine import Machine
from streaming.protocols.vocabulary import (
    NOTHING,
    CoordinatorFails,
    Reason,
    Setup,
    TopicsChanged,
    process_name,
)
from streaming.protocols.zookeeper.step import (
    BrokersChanged,
    Claimed,
    Closed,
    Registered,
    SessionGone,
    Watched,
    ZooKeeperMember,
    ZooKeeperPhase,
    ZooKeeperState,
    ZooKeeperStep,
)


def registered(step: ZooKeeperStep, event: Registered) -> None:
    """New nodes under ``ids``: one change each."""
    for name in step.waiting(event, (Stage.STARTING, Stage.STABLE)):
        member = step.members[name]
        kind = "member.subscription_changed" if member.known else "member.joined"
        step.update(name, known=True, stage=Stage.STABLE, said=member.client.topics)
        step.send("SetData" if member.known else "Create", 1)
        step.changed(Reason(kind, (name,)))


def closed(step: ZooKeeperStep, event: Closed | SessionGone) -> None:
    """Ephemeral nodes are gone, of ``ids`` and ``owners`` alike."""
    expired = isinstance(event, SessionGone)
    stages = (Stage.CRASHED, Stage.FROZEN) if expired else (Stage.LEAVING,)
    for name in step.waiting(event, stages):
        if step.members[name].stage is Stage.FROZEN:
            step.update(name, known=False, owned=NOTHING, nodes=NOTHING, busy=False)
        else:
            del step.members[name]
        step.changed(Reason("member.fenced" if expired else "member.left", (process_name(name),)))


def topics_changed(step: ZooKeeperStep, event: TopicsChanged) -> None:
    """``/brokers/topics`` changes."""
    step.set(topics={**step.group.topics, **event.topics})
    step.later(BrokersChanged(step.network()))


def coordinator_fails(step: ZooKeeperStep, event: CoordinatorFails) -> None:
    """A broker is gone: its node under ``/brokers/ids`` too."""
    del event
    step.later(BrokersChanged(step.network(), "coordinator.failed"))


def brokers_changed(step: ZooKeeperStep, event: BrokersChanged) -> None:
    """Every consumer watches brokers and topics."""
    if step.known():
        step.changed(Reason(event.kind))


def watched(step: ZooKeeperStep, event: Watched) -> None:
    """Consumers wake: those at work go on and start over afterwards, the others stop, release and read."""
    names = step.waiting(event, (Stage.STABLE,))
    begin = []
    for name in names:
        member = step.members[name]
        step.update(name, notified=max(member.notified, event.number))
        retry = event.number < 0 and member.seen == 0
        if not member.busy and (retry or member.seen < event.number):
            begin.append(name)
    _begin(step, begin)


def _begin(step: ZooKeeperStep, names: Sequence[str]) -> None:
    """Stop, release, read: the first half of a rebalance."""
    stopped: dict[str, Share] = {}
    released = 0
    reads: dict[str, int] = {}
    for name in names:
        member = step.members[name]
        released += sum(map(len, member.nodes.values()))
        if member.owned:
            stopped[name] = NOTHING
        step.update(name, owned=NOTHING, nodes=NOTHING, busy=True, seen=member.notified)
        reads[name] = len(step.view(member.notified).ids) + len(member.client.topics)
    step.send("Delete", released)
    step.send("GetChildren", len(names))
    step.send("GetData", sum(reads.values()))
    step.consume(stopped)
    # One request after the other: the list of ids, each consumer's node, each topic's.
    step.later_each(Claimed, {name: step.network(2 * (1 + many)) for name, many in reads.items()})


def claimed(step: ZooKeeperStep, event: Claimed) -> None:
    """Claims, one consumer after the other: all nodes, or none and another try."""
    names = [name for name in step.waiting(event, (Stage.STABLE,)) if step.members[name].busy]
    nodes = taken({name: member.nodes for name, member in step.members.items() if member.nodes})
    started: dict[str, Share] = {}
    again: list[str] = []
    waiting: list[str] = []
    for name in names:
        member = step.members[name]
        share = step.shares(step.view(member.seen)).get(name, NOTHING)
        step.send("Create", sum(map(len, share.values())))
        if any(not nodes.get(topic, set()).isdisjoint(partitions) for topic, partitions in share.items()):
            waiting.append(name)
            continue
        for topic, partitions in share.items():
            nodes.setdefault(topic, set()).update(partitions)
        step.update(name, nodes=share, owned=share, busy=False)
        started[name] = share
        if member.notified > member.seen:
            again.append(name)
    step.consume({name: share for name, share in started.items() if share})
    if waiting:
        step.later(Watched(step.at + step.timing.zookeeper_backoff_ms, step.calls(waiting), -1))
        for name in waiting:
            step.update(name, busy=False, seen=0)
    _settle(step)
    _begin(step, again)


def _settle(step: ZooKeeperStep) -> None:
    """A round is over when nobody is at work."""
    there = [m for m in step.known().values() if m.stage in LIVE]
    if there and not any(m.busy or m.seen == 0 for m in there) and any(m.seen for m in there):
        step.announce()


_EMPTY, _REBALANCING, _STABLE = ZooKeeperPhase
_ALL = tuple(ZooKeeperPhase)

#: The group as a whole.
GROUP: Table = {
    **rows((_EMPTY,), Registered, registered, (_EMPTY, _REBALANCING), "node under ids"),
    **rows((_REBALANCING, _STABLE), Registered, registered, (_REBALANCING, _STABLE)),
    **rows((_STABLE, _REBALANCING), Closed, closed, _ALL, "nodes gone"),
    **rows((_EMPTY,), Closed, closed),
    **rows((_STABLE, _REBALANCING), SessionGone, closed, _ALL, "session expired"),
    **rows((_EMPTY,), SessionGone, closed),
    **rows((_STABLE, _REBALANCING), Watched, watched, (_STABLE, _REBALANCING), "everyone wakes"),
    **rows((_EMPTY,), Watched, watched),
    **rows((_REBALANCING,), Claimed, claimed, (_REBALANCING, _STABLE), "all claims hold"),
    **rows((_STABLE, _EMPTY), Claimed, claimed),
    **rows((_STABLE, _REBALANCING), BrokersChanged, brokers_changed, (_REBALANCING, _STABLE)),
    **rows((_EMPTY,), BrokersChanged, brokers_changed),
    **rows(_ALL, TopicsChanged, topics_changed),
    **rows(_ALL, CoordinatorFails, coordinator_fails),
}


class ZooKeeper(Machine[ZooKeeperState, ZooKeeperMember]):
    """The high-level consumer of 0.8."""

    group = ZooKeeperState

    def __init__(self, setup: Setup) -> None:
        super().__init__("zookeeper", setup, GROUP)

    def phase_of(self, group: ZooKeeperState) -> ZooKeeperPhase:
        """Rebalancing while anybody is busy, or has not seen the newest change."""
        there = [member for member in group.members.values() if member.known]
        if not there:
            return _EMPTY
        newest = group.views[-1].number
        settled = all(not member.busy and member.seen == newest for member in there if member.stage in LIVE)
        return _STABLE if settled else _REBALANCING

    def step(self, group: ZooKeeperState, at: int) -> ZooKeeperStep:
        """A step of the group."""
        return ZooKeeperStep(group, at, self.setup)

    def stable(self, group: ZooKeeperState) -> bool:
        """Whether everyone has seen the newest change and claimed its share of it."""
        return self.phase_of(group) in (_EMPTY, _STABLE) and all(
            member.stage is not Stage.STARTING for member in group.members.values()
        )
