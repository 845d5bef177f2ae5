"""One step of the ZooKeeper machine: paths, watches and views."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from assignors import registry
from assignors.model import Member as AssignorMember
from assignors.model import Share
from assignors.shares import tidy
from streaming.protocols.group import Stage
from streaming.protocols.step import Step
from streaming.protocols.vocabulary import NOTHING, Announced, Reason, Setup, told_as_one
from streaming.protocols.zookeeper.group import (
    Closed,
    Registered,
    SessionGone,
    Watched,
    ZooKeeperMember,
    ZooKeeperState,
    ZooKeeperView,
)


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
        reason = told_as_one(reasons, self.group.reason)
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
