"""One step of the consumer machine: what every handler uses. A step works on a copy and becomes a new state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import structs

from assignors.java import in_timeline_order
from assignors.model import Share
from streaming.protocols.classic_state import LIVE, MemberCalls, Stage
from streaming.protocols.consumer_state import Expired, Member, State
from streaming.protocols.reconcile import Current, MemberState
from streaming.protocols.vocabulary import (
    After,
    Cause,
    Event,
    Output,
    Owns,
    Sent,
    Setup,
    Wants,
    beats,
    last_beat,
)


class Step:
    """The state while one event is applied, and the outputs so far."""

    def __init__(self, state: State, at: int, setup: Setup) -> None:
        self.before = state
        self.at = at
        self.setup = setup
        self.timing = setup.timing
        self.members: dict[str, Member] = dict(state.members)
        self.changes: dict[str, Any] = {}
        self.out: list[Output] = []
        self._holders: dict[str, dict[int, str]] | None = None

    def get(self, field: str) -> Any:
        """A field of the state, as changed so far."""
        return self.changes.get(field, getattr(self.before, field))

    def set(self, **changes: Any) -> None:
        """Change fields of the state."""
        self.changes.update(changes)

    def update(self, name: str, **changes: Any) -> Member:
        """Change a member."""
        member = structs.replace(self.members[name], **changes)
        self.members[name] = member
        return member

    def done(self) -> tuple[State, tuple[Output, ...]]:
        """The new state, and what the step answers."""
        return structs.replace(self.before, members=self.members, **self.changes), tuple(self.out)

    def send(self, times: int, kind: str = "ConsumerGroupHeartbeat") -> None:
        """Requests went over the wire."""
        if times:
            self.out.append(Sent(kind, times))

    def later(self, event: Event) -> None:
        """Schedule an event."""
        self.out.append(After(event))

    def network(self, ways: int = 1) -> int:
        """When a message that leaves now arrives."""
        return self.at + ways * self.timing.network_ms

    def every(self, member: Member) -> int:
        """How often a member beats."""
        return self.timing.heartbeat_ms if member.classic else self.timing.consumer_heartbeat_ms

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

    def consume(self, shares: Mapping[str, Share]) -> None:
        """These members consume these shares from now on."""
        if shares:
            self.out.append(Owns(shares))

    def count(self, names: Iterable[str], until: int) -> None:
        """Counts the beats that these members sent up to ``until``."""
        for name in names:
            member = self.members[name]
            sent = beats(member.beat_from, until, self.every(member))
            self.send(sent, "Heartbeat" if member.classic else "ConsumerGroupHeartbeat")

    def incarnation(self, name: str) -> int:
        """The number of a process that begins (again) to become a member."""
        number = int(self.get("incarnations").get(name, 0)) + 1
        self.set(incarnations={**self.get("incarnations"), name: number})
        return number

    def counted_in(self, name: str, **changes: Any) -> None:
        """The coordinator knows this member from now on."""
        place = self.get("places") + 1
        self.update(name, known=True, place=place, **changes)
        there = sum(member.known for member in self.members.values())
        # It is in the table once its heartbeat is answered.
        self.set(places=place, most=max(self.get("most"), there - 1))

    def order(self, *, last: str | None) -> list[str]:
        """Known members as the coordinator's table of members iterates them; ``last`` has just come."""
        known = [name for name, member in self.members.items() if member.known and name != last]
        known.sort(key=lambda name: self.members[name].place)
        by_id = {self.members[name].member_id: name for name in known}
        found = [by_id[member_id] for member_id in in_timeline_order(list(by_id), most=self.get("most"))]
        return found if last is None else [*found, last]

    def holders(self) -> dict[str, dict[int, str]]:
        """Who is assigned each partition, or has not given it up yet."""
        if self._holders is None:
            self._holders = {}
            for name, member in self.members.items():
                if member.known:
                    self.held(name, None, member.current)
        return self._holders

    def held(self, name: str, before: Current | None, after: Current) -> None:
        """A member's current assignment has changed."""
        holders = self._holders
        if holders is None:
            return
        for share in () if before is None else (before.assigned, before.revoking):
            for topic, partitions in share.items():
                known = holders[topic]
                for partition in partitions:
                    if known.get(partition) == name:
                        del known[partition]
        for share in (after.assigned, after.revoking):
            for topic, partitions in share.items():
                holders.setdefault(topic, {}).update(dict.fromkeys(partitions, name))

    def caused(self, kind: str, names: Iterable[str] = ()) -> None:
        """A reason for the next round, and one more group epoch, which covers metadata that changed meanwhile."""
        epoch = self.get("group_epoch") + 1
        self.set(
            causes=(*self.get("causes"), (epoch, Cause(kind, tuple(names)))),
            group_epoch=epoch,
            outdated=False,
        )

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

    def last_heard(self, member: Member) -> int:
        """When the coordinator last heard of a member, its counted heartbeats included."""
        if member.beat_from is None:
            return member.heard
        return max(member.heard, last_beat(member.beat_from, self.at, self.every(member)))

    def watch(self, names: Iterable[str]) -> None:
        """Members that fell silent: their sessions run out, or the time to give up partitions does."""
        for name in names:
            member = self.members[name]
            if not member.known:
                continue
            end = self.last_heard(member) + self.timing.session_timeout_ms
            if member.current.state is MemberState.UNREVOKED:
                end = min(end, member.unrevoked_at + self.timing.rebalance_timeout_ms)
            self.later(Expired(max(end, self.at), self.calls([name])))
