"""One step of the ZooKeeper machine: paths, watches and views. A step works on a copy and becomes a new state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import structs

from assignors import registry
from assignors.model import Member as AssignorMember
from assignors.model import Share
from assignors.shares import tidy
from streaming.protocols.classic_state import LIVE, MemberCalls, Stage
from streaming.protocols.vocabulary import After, Cause, Event, Output, Round, Sent, Setup, Wants
from streaming.protocols.zookeeper_state import Member, State, View, Watched


class Step:
    """The state while one event is applied, and the outputs so far."""

    def __init__(self, state: State, at: int, setup: Setup) -> None:
        self.before = state
        self.at = at
        self.setup = setup
        self.members: dict[str, Member] = dict(state.members)
        self.changes: dict[str, Any] = {}
        self.out: list[Output] = []
        self._shares: dict[int, dict[str, Share]] = {}

    def get(self, field: str) -> Any:
        """A field of the state, as changed so far."""
        return self.changes.get(field, getattr(self.before, field))

    def set(self, **changes: Any) -> None:
        """Change fields of the state."""
        self.changes.update(changes)

    def update(self, name: str, **changes: Any) -> None:
        """Change a member."""
        self.members[name] = structs.replace(self.members[name], **changes)

    def done(self) -> tuple[State, tuple[Output, ...]]:
        """The new state, and what the step answers."""
        return structs.replace(self.before, members=self.members, **self.changes), tuple(self.out)

    def send(self, kind: str, times: int) -> None:
        """Requests (or notifications) went over the wire."""
        if times:
            self.out.append(Sent(kind, times))

    def later(self, event: Event) -> None:
        """Schedule an event."""
        self.out.append(After(event))

    def network(self, ways: int = 1) -> int:
        """When a message that leaves now arrives."""
        return self.at + ways * self.setup.timing.network_ms

    def calls(self, names: Iterable[str]) -> tuple[tuple[str, int], ...]:
        """These members' calls as they stand now."""
        return tuple((name, self.members[name].call) for name in names)

    def waiting(self, event: MemberCalls, stages: Iterable[Stage]) -> list[str]:
        """The members of ``event`` that still wait for this call, in one of these stages."""
        allowed = frozenset(stages)
        return [
            name
            for name, call in event.calls
            if (member := self.members.get(name)) is not None
            and member.call == call
            and member.stage in allowed
        ]

    def subscriptions(self) -> None:
        """Says what live members subscribe to, when that changed."""
        wanted = frozenset(
            topic
            for member in self.members.values()
            if member.stage in LIVE
            for topic in member.client.topics
        )
        if wanted != self.get("wanted"):
            self.set(wanted=wanted)
            self.out.append(Wants(wanted))

    def changed(self, cause: Cause) -> None:
        """A watched path changed: every consumer that is there is notified, each by its own ensemble member."""
        views = self.get("views")
        number = views[-1].number + 1 if views else 1
        ids = {name: member.said for name, member in self.members.items() if member.registered}
        self.set(
            views=(*views, View(number, self.at, ids, self.get("topics"))),
            causes=(*self.get("causes"), cause),
        )
        self.send("WatchNotification", len(ids))
        due: dict[int, list[str]] = {}
        for name in ids:
            lag = self.setup.view_lag(name, number)
            due.setdefault(self.network() + lag, []).append(name)
        for at, names in due.items():
            self.later(Watched(at, self.calls(names), number))
        if not ids:
            self.announce()

    def view(self, name: str) -> View:
        """The newest view that the consumer was notified of."""
        views: tuple[View, ...] = self.get("views")
        notified = self.members[name].notified
        return next(view for view in reversed(views) if view.number <= notified)

    def shares(self, view: View) -> dict[str, Share]:
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
        causes: tuple[Cause, ...] = self.get("causes")
        cause: Cause = self.get("cause")
        after = {name: member.nodes for name, member in self.members.items() if member.registered}
        if not causes and after == self.get("held"):
            return
        if causes:
            kind = causes[0].kind
            cause = Cause(
                kind, tuple(dict.fromkeys(name for c in causes if c.kind == kind for name in c.members))
            )
        rounds = self.get("rounds") + 1
        oldest = min((m.seen for m in self.members.values() if m.registered), default=0)
        views = tuple(view for view in self.get("views") if view.number >= oldest) or self.get("views")[-1:]
        self.set(rounds=rounds, causes=(), cause=cause, held=after, views=views)
        self.out.append(Round(rounds, bool(causes), cause, after))
