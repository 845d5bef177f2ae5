"""What ZooKeeper consumers do: register, watch, stop, release, read, claim, and try again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assignors.model import Share
from assignors.shares import taken
from streaming.protocols.classic_state import LIVE, Stage
from streaming.protocols.vocabulary import (
    NOTHING,
    Cause,
    CoordinatorFails,
    Crash,
    Freeze,
    Handover,
    Leave,
    Owns,
    Start,
    Stop,
    Subscribe,
    Thaw,
    TopicsChanged,
)
from streaming.protocols.zookeeper_state import (
    BrokersChanged,
    Claimed,
    Closed,
    Member,
    Registered,
    SessionGone,
    Watched,
)
from streaming.protocols.zookeeper_step import Step


def start(step: Step, event: Start) -> None:
    """Consumers connect and register."""
    for client in event.clients:
        old = step.members.pop(client.name, None)
        incarnation = old.incarnation + 1 if old else 1
        if old is not None and old.registered:
            # ZooKeeper keeps the old session's nodes until it is closed or expires.
            ghost = f"{client.name}~{old.incarnation}"
            step.members[ghost] = old
            held = dict(step.get("held"))
            if client.name in held:
                held[ghost] = held.pop(client.name)
            step.set(held=held)
            step.out.append(Handover(client.name, ghost))
            if old.stage is Stage.LEAVING:
                step.later(Closed(step.network(), step.calls([ghost])))
            else:
                _expire(step, [ghost], step.at)
        step.members[client.name] = Member(client, call=(old.call + 1 if old else 0), incarnation=incarnation)
    names = [client.name for client in event.clients]
    step.send("Connect", len(names))
    step.later(Registered(step.network(3), step.calls(names)))
    step.subscriptions()


def registered(step: Step, event: Registered) -> None:
    """New nodes under ``ids``: one change each."""
    for name in step.waiting(event, (Stage.STARTING, Stage.STABLE)):
        member = step.members[name]
        kind = "member.subscription_changed" if member.registered else "member.joined"
        step.update(name, registered=True, stage=Stage.STABLE, said=member.client.topics)
        step.send("SetData" if member.registered else "Create", 1)
        step.changed(Cause(kind, (name,)))


def leave(step: Step, event: Leave | Stop) -> None:
    """Consumers close their sessions."""
    step.out.append(Owns(dict.fromkeys(event.names, NOTHING)))
    said = []
    for name in event.names:
        if step.members[name].registered:
            said.append(name)
            step.update(
                name, stage=Stage.LEAVING, call=step.members[name].call + 1, owned=NOTHING, busy=False
            )
        else:
            del step.members[name]
    if said:
        step.send("CloseSession", len(said))
        step.later(Closed(step.network(), step.calls(said)))
    step.subscriptions()


#: There are no static members: a restart is a leave and a join.
stop = leave


def closed(step: Step, event: Closed | SessionGone) -> None:
    """Ephemeral nodes are gone, of ``ids`` and ``owners`` alike."""
    expired = isinstance(event, SessionGone)
    stages = (Stage.CRASHED, Stage.FROZEN) if expired else (Stage.LEAVING,)
    for name in step.waiting(event, stages):
        if step.members[name].stage is Stage.FROZEN:
            step.update(name, registered=False, owned=NOTHING, nodes=NOTHING, busy=False)
        else:
            del step.members[name]
        step.changed(Cause("member.fenced" if expired else "member.left", (name.partition("~")[0],)))


def crash(step: Step, event: Crash) -> None:
    """Processes end without a word; their nodes stay until the session expires."""
    _silent(step, event.names, Stage.CRASHED)


def freeze(step: Step, event: Freeze) -> None:
    """Processes stop for a while."""
    _silent(step, event.names, Stage.FROZEN)


def _silent(step: Step, names: Sequence[str], stage: Stage) -> None:
    step.out.append(Owns(dict.fromkeys(names, NOTHING)))
    silent = []
    for name in names:
        member = step.members[name]
        if stage is Stage.CRASHED and not member.registered:
            del step.members[name]
            continue
        owned = member.owned if stage is Stage.FROZEN else NOTHING
        # One that was at it has nothing yet: it begins again when it goes on.
        seen = 0 if member.busy else member.seen
        step.update(name, stage=stage, call=member.call + 1, owned=owned, busy=False, seen=seen)
        silent.append(name)
    _expire(step, [name for name in silent if step.members[name].registered], step.at)
    step.subscriptions()


def _expire(step: Step, names: Sequence[str], at: int) -> None:
    """ZooKeeper clients ping every third of the session timeout; the session counts from the last ping."""
    if names:
        step.later(SessionGone(at + step.setup.timing.session_timeout_ms, step.calls(names)))


def thaw(step: Step, event: Thaw) -> None:
    """Processes go on; one whose session expired registers anew, one that missed a change rebalances."""
    for name in event.names:
        member = step.members[name]
        step.update(name, call=member.call + 1, stage=Stage.STABLE if member.registered else Stage.STARTING)
        if not member.registered:
            step.update(name, incarnation=member.incarnation + 1, nodes=NOTHING, seen=0, notified=0)
            step.send("Connect", 1)
            step.later(Registered(step.network(3), step.calls([name])))
            continue
        step.out.append(Owns({name: member.owned}))
        if member.said != member.client.topics:
            step.later(Registered(step.network(), step.calls([name])))
        newest = step.get("views")[-1].number
        if member.seen < newest:
            step.later(Watched(step.network(), step.calls([name]), newest))
    step.subscriptions()


def subscribe(step: Step, event: Subscribe) -> None:
    """A consumer rewrites its node under ``ids``."""
    for name in event.names:
        member = step.members[name]
        step.update(name, client=replace(member.client, topics=event.topics))
        if member.registered:
            step.later(Registered(step.network(), step.calls([name])))
    step.subscriptions()


def topics_changed(step: Step, event: TopicsChanged) -> None:
    """``/brokers/topics`` changes."""
    step.set(topics={**step.get("topics"), **event.topics})
    step.later(BrokersChanged(step.network()))


def coordinator_fails(step: Step, event: CoordinatorFails) -> None:
    """A broker is gone: its node under ``/brokers/ids`` too."""
    del event
    step.later(BrokersChanged(step.network(), "coordinator.failed"))


def brokers_changed(step: Step, event: BrokersChanged) -> None:
    """Every consumer watches brokers and topics."""
    if any(member.registered for member in step.members.values()):
        step.changed(Cause(event.kind))


def watched(step: Step, event: Watched) -> None:
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


def _begin(step: Step, names: Sequence[str]) -> None:
    """Stop, release, read: the first half of a rebalance."""
    stopped: dict[str, Share] = {}
    released = 0
    due: dict[int, list[str]] = {}
    for name in names:
        member = step.members[name]
        released += sum(map(len, member.nodes.values()))
        if member.owned:
            stopped[name] = NOTHING
        step.update(name, owned=NOTHING, nodes=NOTHING, busy=True, seen=member.notified)
        reads = len(step.view(name).ids) + len(member.client.topics)
        due.setdefault(reads, []).append(name)
    step.send("Delete", released)
    step.send("GetChildren", len(names))
    step.send("GetData", sum(reads * len(readers) for reads, readers in due.items()))
    if stopped:
        step.out.append(Owns(stopped))
    for reads, readers in due.items():
        # One request after the other: the list of ids, each consumer's node, each topic's.
        step.later(Claimed(step.network(2 * (1 + reads)), step.calls(readers)))


def claimed(step: Step, event: Claimed) -> None:
    """Claims, one consumer after the other: all nodes, or none and another try."""
    names = [name for name in step.waiting(event, (Stage.STABLE,)) if step.members[name].busy]
    nodes = taken({name: member.nodes for name, member in step.members.items() if member.nodes})
    started: dict[str, Share] = {}
    again: list[str] = []
    waiting: list[str] = []
    for name in names:
        member = step.members[name]
        seen = next(view for view in reversed(step.get("views")) if view.number <= member.seen)
        share = step.shares(seen).get(name, NOTHING)
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
    if started:
        step.out.append(Owns({name: share for name, share in started.items() if share}))
    if waiting:
        step.later(Watched(step.at + step.setup.timing.zookeeper_backoff_ms, step.calls(waiting), -1))
        for name in waiting:
            step.update(name, busy=False, seen=0)
    _settle(step)
    _begin(step, again)


def _settle(step: Step) -> None:
    """A round is over when nobody is at work."""
    there = [m for m in step.members.values() if m.registered and m.stage in LIVE]
    if there and not any(m.busy or m.seen == 0 for m in there) and any(m.seen for m in there):
        step.announce()
