"""State machine of ZooKeeper consumers, which register, watch, stop, release, read, claim, and retry."""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from assignors import registry
from assignors.assignment import collect_partition_sets, normalize
from assignors.model import Member, Topic, TopicPartitions
from streaming.protocols import vocabulary
from streaming.protocols.machine import StateMachine, Step
from streaming.protocols.vocabulary import LIVE, MachineMember, ProtocolState, Stage, Table, rows


class ZooKeeperPhase(StrEnum):
    """Phase of a ZooKeeper group, derived from the states of its members."""

    EMPTY = "Empty"
    REBALANCING = "Rebalancing"
    STABLE = "Stable"


class ZooKeeperView(NamedTuple):
    """Content of the watched ZooKeeper paths after a change, and when (ms) the ensemble's leader applied the change."""

    number: int
    at: int
    ids: Mapping[str, tuple[str, ...]]
    topics: Mapping[str, Topic]


class ZooKeeperMember(MachineMember, frozen=True, gc=False):
    """A ZooKeeper consumer: its process, its nodes, and the group changes of which it was notified."""

    #: The consumer's nodes under ``owners``: the partitions that it consumes or, after a crash, the partitions that its
    #: session still holds.
    nodes: TopicPartitions = vocabulary.NOTHING
    #: True if the consumer works on a rebalance, or waits for its next attempt.
    busy: bool = False
    #: Numbers of the change for which the consumer rebalanced last, and of the newest change of which it was notified.
    seen: int = 0
    notified: int = 0


class ZooKeeperState(ProtocolState, frozen=True):
    """State of a group as stored in its ZooKeeper paths."""

    members: Mapping[str, ZooKeeperMember] = {}
    #: Views of the paths, newest last; older views are kept as long as a consumer may still read them.
    views: tuple[ZooKeeperView, ...] = ()
    #: Number of rounds so far, in place of a generation.
    rounds: int = 0
    #: Reasons of the changes since the last round.
    reasons: tuple[vocabulary.Reason, ...] = ()
    #: Each member's partitions after the last round.
    held: Mapping[str, TopicPartitions] = {}


class ConsumerRegistered(vocabulary.MemberCalls, frozen=True):
    """Consumers create or rewrite their ZooKeeper nodes under ``/consumers/<group>/ids``."""


class SessionsClosed(vocabulary.MemberCalls, frozen=True):
    """Consumers close their sessions: all their nodes are deleted."""


class SessionGone(vocabulary.MemberCalls, frozen=True):
    """The ZooKeeper sessions of these consumers expire, so all of the consumers' nodes are deleted."""


class Watched(vocabulary.MemberCalls, frozen=True):
    """ZooKeeper notifies consumers of a changed path; they read the paths, stop, and release their partitions."""

    number: int = 0


class PartitionsClaimed(vocabulary.MemberCalls, frozen=True):
    """Event: consumers create their nodes under ``owners`` in ZooKeeper."""


class BrokersChanged(vocabulary.GroupEvent, frozen=True):
    """A node under ``/brokers/ids`` or ``/brokers/topics`` changed."""

    kind: str = "topic.partitions_changed"


class _ZooKeeperStep(Step[ZooKeeperState, ZooKeeperMember]):
    member = ZooKeeperMember
    first_request = "Connect"
    leave_request = "CloseSession"
    join_event = ConsumerRegistered
    leave_event = SessionsClosed

    def __init__(self, group: ZooKeeperState, at: int, setup: vocabulary.Setup) -> None:
        super().__init__(group, at, setup)
        self._shares: dict[int, dict[str, TopicPartitions]] = {}

    def changed(self, reason: vocabulary.Reason) -> None:
        """Record a change of a watched path; each live consumer receives its notification after a delay."""
        views = self.group.views
        number = views[-1].number + 1 if views else 1
        ids = {name: member.subscription for name, member in self.group_members().items()}
        view = ZooKeeperView(number, self.at, ids, self.group.topics)
        self.set_fields(views=(*views, view), reasons=(*self.group.reasons, reason))
        self.send("WatchNotification", len(ids))
        self.schedule_each(Watched, {name: self.network() + self.setup.view_lag(name, number) for name in ids}, number)
        if not ids:
            self.announce()

    def view(self, number: int) -> ZooKeeperView:
        return next(view for view in reversed(self.group.views) if view.number <= number)

    def view_shares(self, view: ZooKeeperView) -> dict[str, TopicPartitions]:
        shares = self._shares.get(view.number)
        if shares is None:
            members = [Member(name, topics, streams=dict.fromkeys(topics, 1)) for name, topics in view.ids.items()]
            assignment = registry.find("zookeeper", self.setup.assignor).assign(view.topics, members)
            shares = {thread.rpartition("-")[0]: normalize(share) for thread, share in assignment.items()}
            self._shares[view.number] = shares
        return shares

    def announce(self) -> None:
        members = self.group_members()
        after = {name: member.nodes for name, member in members.items()}
        reasons = self.group.reasons
        if not reasons and after == self.group.held:
            return
        reason = vocabulary.common_reason(reasons, self.group.reason)
        rounds = self.group.rounds + 1
        oldest = min((member.seen for member in members.values()), default=0)
        views = tuple(view for view in self.group.views if view.number >= oldest) or self.group.views[-1:]
        self.set_fields(rounds=rounds, reasons=(), reason=reason, held=after, views=views)
        self.out.append(vocabulary.NewRound(rounds, bool(reasons), reason, after))

    # Process lifecycle.

    def renamed(self, before: str, after: str) -> None:
        held = dict(self.group.held)
        if before in held:
            held[after] = held.pop(before)
        self.set_fields(held=held)

    def static(self, member: ZooKeeperMember) -> bool:
        del member
        return False

    def interrupted(self, member: ZooKeeperMember) -> dict[str, Any]:
        return {"busy": False, "seen": 0 if member.busy else member.seen}

    def watch(self, names: Collection[str]) -> None:
        names = [name for name in names if self.members[name].is_member]
        if names:
            self.later(SessionGone(self.at + self.timing.session_timeout_ms, self.calls(names)))

    def resume_member(self, name: str) -> None:
        member = self.update(name, call=self.members[name].call + 1)
        if not member.is_member:
            lost = {"incarnation": self.incarnation(name), "nodes": vocabulary.NOTHING, "seen": 0, "notified": 0}
            self.update(name, stage=Stage.STARTING, **lost)
            self.send(self.first_request)
            self.send_first_requests([name])
            return
        self.update(name, stage=Stage.STABLE)
        self.consume({name: member.owned})
        if member.subscription != member.client.topics:
            self.resubscribed([name])
        newest = self.group.views[-1].number
        if member.seen < newest:
            self.later(Watched(self.network(), self.calls([name]), newest))

    def resubscribed(self, names: Collection[str]) -> None:
        """Let consumers rewrite their ZooKeeper nodes under ``/consumers/<group>/ids``."""
        for name in names:
            if self.members[name].is_member:
                self.later(ConsumerRegistered(self.network(), self.calls([name])))


def _register_consumer(step: _ZooKeeperStep, event: ConsumerRegistered) -> None:
    """Create or rewrite the consumers' ZooKeeper nodes under ``ids``; each node is one change."""
    for name in step.waiting(event, (Stage.STARTING, Stage.STABLE)):
        member = step.members[name]
        kind = "member.subscription_changed" if member.is_member else "member.joined"
        step.update(name, is_member=True, stage=Stage.STABLE, subscription=member.client.topics)
        step.send("SetData" if member.is_member else "Create", 1)
        step.changed(vocabulary.Reason(kind, (name,)))


def _close_sessions(step: _ZooKeeperStep, event: SessionsClosed | SessionGone) -> None:
    """Delete the consumers' ephemeral ZooKeeper nodes under ``ids`` and ``owners``."""
    is_gone = isinstance(event, SessionGone)
    stages = (Stage.CRASHED, Stage.FROZEN) if is_gone else (Stage.LEAVING,)
    for name in step.waiting(event, stages):
        if step.members[name].stage is Stage.FROZEN:
            step.update(name, is_member=False, owned=vocabulary.NOTHING, nodes=vocabulary.NOTHING, busy=False)
        else:
            del step.members[name]
        step.changed(vocabulary.Reason("member.fenced" if is_gone else "member.left", (vocabulary.process_name(name),)))


def _topics_changed(step: _ZooKeeperStep, event: vocabulary.TopicsChanged) -> None:
    """Change partition counts, which changes ``/brokers/topics``."""
    step.set_fields(topics={**step.group.topics, **event.topics})
    step.later(BrokersChanged(step.network()))


def _brokers_changed(step: _ZooKeeperStep, event: BrokersChanged) -> None:
    if step.group_members():
        step.changed(vocabulary.Reason(event.kind))


def _notify_watch(step: _ZooKeeperStep, event: Watched) -> None:
    """Notify ZooKeeper consumers: busy consumers react later, all others stop, release partitions and read paths."""
    names = step.waiting(event, (Stage.STABLE,))
    begin = []
    for name in names:
        member = step.members[name]
        step.update(name, notified=max(member.notified, event.number))
        if not member.busy and ((event.number < 0 and member.seen == 0) or member.seen < event.number):
            begin.append(name)
    _begin_rebalances(step, begin)


def _begin_rebalances(step: _ZooKeeperStep, names: Sequence[str]) -> None:
    stopped: dict[str, TopicPartitions] = {}
    released_count = 0
    read_delays: dict[str, int] = {}
    for name in names:
        member = step.members[name]
        released_count += sum(map(len, member.nodes.values()))
        if member.owned:
            stopped[name] = vocabulary.NOTHING
        step.update(name, owned=vocabulary.NOTHING, nodes=vocabulary.NOTHING, busy=True, seen=member.notified)
        read_delays[name] = len(step.view(member.notified).ids) + len(member.client.topics)
    step.send("Delete", released_count)
    step.send("GetChildren", len(names))
    step.send("GetData", sum(read_delays.values()))
    step.consume(stopped)
    # Requests are sent one after the other: for the list of ids, for each consumer's node, and for each topic's node.
    step.schedule_each(PartitionsClaimed, {name: step.network(2 * (1 + delay)) for name, delay in read_delays.items()})


def _claim_partitions(step: _ZooKeeperStep, event: PartitionsClaimed) -> None:
    names = [name for name in step.waiting(event, (Stage.STABLE,)) if step.members[name].busy]
    nodes = collect_partition_sets({name: member.nodes for name, member in step.members.items() if member.nodes})
    started: dict[str, TopicPartitions] = {}
    again: list[str] = []
    waiting: list[str] = []
    for name in names:
        member = step.members[name]
        share = step.view_shares(step.view(member.seen)).get(name, vocabulary.NOTHING)
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
    live = [member for member in step.group_members().values() if member.stage in LIVE]
    if any(member.seen for member in live) and not any(member.busy or member.seen == 0 for member in live):
        step.announce()
    _begin_rebalances(step, again)


_EMPTY, _REBALANCING, _STABLE = ZooKeeperPhase
_ALL_PHASES = tuple(ZooKeeperPhase)
#: Transitions of the group.
GROUP_TABLE: Table = {
    **rows((_EMPTY,), ConsumerRegistered, _register_consumer, (_EMPTY, _REBALANCING), "node under ids"),
    **rows((_REBALANCING, _STABLE), ConsumerRegistered, _register_consumer, (_REBALANCING, _STABLE)),
    **rows((_STABLE, _REBALANCING), SessionsClosed, _close_sessions, _ALL_PHASES, "nodes gone"),
    **rows((_EMPTY,), SessionsClosed, _close_sessions),
    **rows((_STABLE, _REBALANCING), SessionGone, _close_sessions, _ALL_PHASES, "session expired"),
    **rows((_EMPTY,), SessionGone, _close_sessions),
    **rows((_STABLE, _REBALANCING), Watched, _notify_watch, (_STABLE, _REBALANCING), "everyone wakes"),
    **rows((_EMPTY,), Watched, _notify_watch),
    **rows((_REBALANCING,), PartitionsClaimed, _claim_partitions, (_REBALANCING, _STABLE), "all claims hold"),
    **rows((_STABLE, _EMPTY), PartitionsClaimed, _claim_partitions),
    **rows((_STABLE, _REBALANCING), BrokersChanged, _brokers_changed, (_REBALANCING, _STABLE)),
    **rows((_EMPTY,), BrokersChanged, _brokers_changed),
    **rows(_ALL_PHASES, vocabulary.TopicsChanged, _topics_changed),
    # A broker's node under /brokers/ids is deleted.
    **rows(
        _ALL_PHASES,
        vocabulary.CoordinatorFails,
        lambda step, _: step.later(BrokersChanged(step.network(), "coordinator.failed")),
    ),
}


class ZooKeeper(StateMachine[ZooKeeperState, ZooKeeperMember]):
    """State machine of ZooKeeper groups: the high-level consumer of Kafka 0.8."""

    group = ZooKeeperState

    def __init__(self, setup: vocabulary.Setup) -> None:
        super().__init__("zookeeper", setup, GROUP_TABLE)

    def phase_of(self, group: ZooKeeperState) -> ZooKeeperPhase:
        """Return the group's phase: rebalancing while a live consumer is busy, or has not seen the newest change."""
        members_in_group = [member for member in group.members.values() if member.is_member]
        if not members_in_group:
            return _EMPTY
        newest = group.views[-1].number
        settled = all(not member.busy and member.seen == newest for member in members_in_group if member.stage in LIVE)
        return _STABLE if settled else _REBALANCING

    def step(self, group: ZooKeeperState, at: int) -> _ZooKeeperStep:
        """Return an object that applies events to the group at the simulated time ``at`` (ms)."""
        return _ZooKeeperStep(group, at, self.setup)
