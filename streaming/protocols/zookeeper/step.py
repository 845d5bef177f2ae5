"""Group, members, events and step of the ZooKeeper protocol: paths, watches and views."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from assignors import registry
from assignors.model import Member as AssignorMember
from assignors.model import Share, Topic
from assignors.shares import tidy
from streaming.protocols.group import MachineMember, MachineState, Stage
from streaming.protocols.step import Step
from streaming.protocols.vocabulary import (
    NOTHING,
    Announced,
    MachineEvent,
    MemberCalls,
    Reason,
    Setup,
    joint_reason,
)


class ZooKeeperPhase(StrEnum):
    """Where the group stands; nobody in particular knows it."""

    EMPTY = "Empty"
    REBALANCING = "Rebalancing"
    STABLE = "Stable"


class ZooKeeperView(NamedTuple):
    """What is under the watched paths after a change, and when the ensemble's leader had it."""

    number: int
    at: int
    ids: Mapping[str, tuple[str, ...]]
    topics: Mapping[str, Topic]


class ZooKeeperMember(MachineMember, frozen=True, gc=False):
    """A consumer: its process, its nodes, and its view."""

    #: Its nodes under ``owners``: what it consumes, and, once it has crashed, what its session still holds.
    nodes: Share = NOTHING
    #: It works on a rebalance (or waits to try again).
    busy: bool = False
    #: The change that it rebalanced for last, and the newest one it was notified of.
    seen: int = 0
    notified: int = 0


class ZooKeeperState(MachineState, frozen=True):
    """A group as its ZooKeeper paths show it."""

    members: Mapping[str, ZooKeeperMember] = {}
    #: Newest last; older ones are kept while somebody may still read them.
    views: tuple[ZooKeeperView, ...] = ()
    #: Rounds so far: there are no generations.
    rounds: int = 0
    #: What has changed since the last round.
    reasons: tuple[Reason, ...] = ()
    #: What everyone had after the last round.
    held: Mapping[str, Share] = {}


class Registered(MemberCalls, frozen=True):
    """Consumers create (or rewrite) their nodes under ``ids``."""


class Closed(MemberCalls, frozen=True):
    """Consumers close their sessions: all their nodes are gone."""


class SessionGone(MemberCalls, frozen=True):
    """ZooKeeper has not heard of consumers for the session timeout: all their nodes are gone."""


class Watched(MemberCalls, frozen=True):
    """Watches fire at consumers: they read, stop, and release what they own."""

    number: int = 0


class Claimed(MemberCalls, frozen=True):
    """Consumers create their nodes under ``owners``."""


class BrokersChanged(MachineEvent, frozen=True):
    """A node under ``/brokers/ids`` or ``/brokers/topics`` changed."""

    kind: str = "topic.partitions_changed"


class ZooKeeperStep(Step[ZooKeeperState, ZooKeeperMember]):
    """A group of ZooKeeper consumers while one event is applied, and the outputs so far."""

    member = ZooKeeperMember
    hello = "Connect"
    farewell = "CloseSession"

    def __init__(self, group: ZooKeeperState, at: int, setup: Setup) -> None:
        super().__init__(group, at, setup)
        self._shares: dict[int, dict[str, Share]] = {}

    def changed(self, reason: Reason) -> None:
        """A watched path changed: every consumer that is there is notified, each by its own ensemble member."""
        views = self.group.views
        number = views[-1].number + 1 if views else 1
        ids = {name: member.said for name, member in self.known().items()}
        self.set(
            views=(*views, ZooKeeperView(number, self.at, ids, self.group.topics)),
            reasons=(*self.group.reasons, reason),
        )
        self.send("WatchNotification", len(ids))
        self.later_each(
            Watched, {name: self.network() + self.setup.view_lag(name, number) for name in ids}, number
        )
        if not ids:
            self.announce()

    def view(self, number: int) -> ZooKeeperView:
        """The newest view that a consumer which was notified of this change reads."""
        return next(view for view in reversed(self.group.views) if view.number <= number)

    def shares(self, view: ZooKeeperView) -> dict[str, Share]:
        """Everybody's share in this view, as each consumer computes it for itself."""
        found = self._shares.get(view.number)
        if found is None:
            members = [
                AssignorMember(name, topics, streams=dict.fromkeys(topics, 1))
                for name, topics in view.ids.items()
            ]
            answer = registry.find("zookeeper", self.setup.assignor).assign(view.topics, members)
            found = {thread.rpartition("-")[0]: tidy(share) for thread, share in answer.items()}
            self._shares[view.number] = found
        return found

    def announce(self) -> None:
        """A round: nobody works on a claim, so that what is claimed is what is consumed."""
        known = self.known()
        after = {name: member.nodes for name, member in known.items()}
        reasons = self.group.reasons
        if not reasons and after == self.group.held:
            return
        reason = joint_reason(reasons, self.group.reason)
        rounds = self.group.rounds + 1
        oldest = min((member.seen for member in known.values()), default=0)
        views = tuple(view for view in self.group.views if view.number >= oldest) or self.group.views[-1:]
        self.set(rounds=rounds, reasons=(), reason=reason, held=after, views=views)
        self.out.append(Announced(rounds, bool(reasons), reason, after))

    # The life of a process.

    def incarnation(self, name: str, before: ZooKeeperMember | None) -> int:
        """Counted while anything of the process is left: ids need not be new."""
        del name
        return 1 if before is None else before.incarnation + 1

    def knock(self, names: Collection[str]) -> None:
        """A new node under ``ids``."""
        self.later(Registered(self.network(3), self.calls(names)))

    def renamed(self, before: str, after: str) -> None:
        """What everyone had after the last round goes by name."""
        held = dict(self.group.held)
        if before in held:
            held[after] = held.pop(before)
        self.set(held=held)

    def static(self, member: ZooKeeperMember) -> bool:
        """There are no static members: a restart is a leave and a join."""
        del member
        return False

    def goodbye(self, names: Collection[str]) -> None:
        """The session is closed."""
        self.later(Closed(self.network(), self.calls(names)))

    def quiet(self, names: Collection[str]) -> None:
        """Session pings are ZooKeeper's own business: none are counted."""

    def interrupted(self, member: ZooKeeperMember) -> dict[str, Any]:
        """A consumer that was at work has nothing yet: it begins again when it goes on."""
        return {"busy": False, "seen": 0 if member.busy else member.seen}

    def watch(self, names: Collection[str]) -> None:
        """Clients ping every third of the session timeout; the session counts from the last ping."""
        names = [name for name in names if self.members[name].known]
        if names:
            self.later(SessionGone(self.at + self.timing.session_timeout_ms, self.calls(names)))

    def thawed(self, name: str) -> None:
        """One whose session expired registers anew; one that missed a change rebalances."""
        member = self.update(name, call=self.members[name].call + 1)
        if not member.known:
            incarnation = self.incarnation(name, member)
            self.update(
                name, stage=Stage.STARTING, incarnation=incarnation, nodes=NOTHING, seen=0, notified=0
            )
            self.send(self.hello)
            self.knock([name])
            return
        self.update(name, stage=Stage.STABLE)
        self.consume({name: member.owned})
        if member.said != member.client.topics:
            self.resubscribed([name])
        newest = self.group.views[-1].number
        if member.seen < newest:
            self.later(Watched(self.network(), self.calls([name]), newest))

    def resubscribed(self, names: Collection[str]) -> None:
        """A consumer rewrites its node under ``ids``."""
        for name in names:
            if self.members[name].known:
                self.later(Registered(self.network(), self.calls([name])))
