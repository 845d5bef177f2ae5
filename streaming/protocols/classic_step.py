"""One step of a JoinGroup machine: what every handler uses.

A step works on a copy and becomes a new state at its end: nothing that a caller holds changes, also when a
handler raises in the middle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import structs

from assignors.java import DEFAULT_CAPACITY, in_hash_order
from assignors.model import Share, Topic
from streaming.protocols.classic_state import (
    LIVE,
    Assigned,
    Calls,
    JoinGroup,
    Member,
    MemberCalls,
    Phase,
    SessionExpired,
    Stage,
    State,
)
from streaming.protocols.vocabulary import (
    NOTHING,
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


class Rules(Protocol):
    """Where the JoinGroup protocols differ."""

    #: The coordinator assigns and answers JoinGroup with the share: there is no SyncGroup.
    coordinator_assigns: bool
    #: Knows ``group.instance.id``.
    static: bool
    #: A new dynamic member is told its id first (JoinGroup v4).
    member_id_required: bool
    #: Members choose topics; Connect's workers run every connector.
    subscribes: bool

    def assignors(self, member: Member) -> tuple[str, ...]:
        """What a member's JoinGroup lists."""
        ...

    def keeps(self, member: Member) -> Share:
        """What a member goes on consuming while it joins."""
        ...

    def assign(self, step: Step, order: Sequence[str]) -> Mapping[str, Share]:
        """Every known member's share; ``order`` is that of the JoinGroup response."""
        ...

    def rejoins(self, member: Member, share: Share) -> bool:
        """Whether a member that owned and now has ``share`` joins again at once."""
        ...


class Step:
    """The state while one event is applied, and the outputs so far."""

    def __init__(self, state: State, at: int, setup: Setup, rules: Rules) -> None:
        self.before = state
        self.at = at
        self.setup = setup
        self.rules = rules
        self.timing = setup.timing
        self.members: dict[str, Member] = dict(state.members)
        self.topics: Mapping[str, Topic] = state.topics
        self.changes: dict[str, Any] = {}
        self.out: list[Output] = []

    # The state.

    def get(self, field: str) -> Any:
        """A field of the state, as changed so far."""
        return self.changes.get(field, getattr(self.before, field))

    def set(self, **changes: Any) -> None:
        """Change fields of the state."""
        self.changes.update(changes)

    @property
    def phase(self) -> Phase:
        """Where the group stands."""
        phase: Phase = self.get("phase")
        return phase

    def update(self, name: str, **changes: Any) -> Member:
        """Change a member."""
        member = structs.replace(self.members[name], **changes)
        self.members[name] = member
        return member

    def done(self) -> tuple[State, tuple[Output, ...]]:
        """The new state, and what the step answers."""
        return structs.replace(self.before, members=self.members, topics=self.topics, **self.changes), tuple(
            self.out
        )

    def known(self) -> dict[str, Member]:
        """Whom the coordinator counts in."""
        return {name: member for name, member in self.members.items() if member.known}

    def order(self, known: Mapping[str, Member]) -> list[str]:
        """Names in the order of the broker's HashMap of members."""
        return in_table(known, self.get("most"))

    def incarnation(self, name: str) -> int:
        """The number of a process that begins (again) to become a member."""
        number = int(self.get("incarnations").get(name, 0)) + 1
        self.set(incarnations={**self.get("incarnations"), name: number})
        return number

    def counted_in(self, names: Sequence[str]) -> None:
        """The coordinator knows these members from now on."""
        place = self.get("places")
        for number, name in enumerate(names, place + 1):
            self.members[name] = structs.replace(self.members[name], known=True, place=number)
        there = sum(member.known for member in self.members.values())
        self.set(places=place + len(names), most=max(self.get("most"), there))

    def leader_is_gone(self) -> bool:
        """Whether the group has no leader among its known members."""
        leader = self.members.get(self.get("leader") or "")
        return leader is None or not leader.known

    def caused(self, kind: str, names: Iterable[str] = ()) -> None:
        """One more reason for the next round."""
        self.set(causes=(*self.get("causes"), Cause(kind, tuple(names))))

    # Outputs.

    def send(self, kind: str, count: int) -> None:
        """Requests went over the wire."""
        if count:
            self.out.append(Sent(kind, count))

    def later(self, event: Event) -> None:
        """Schedule an event."""
        self.out.append(After(event))

    def network(self, times: int = 1) -> int:
        """When a message that leaves now arrives, after ``times`` ways."""
        return self.at + times * self.timing.network_ms

    def waiting(self, event: MemberCalls, stages: Iterable[Stage]) -> list[str]:
        """The members of ``event`` that still wait for this call, in one of these stages."""
        allowed, members = tuple(stages), self.members
        return [
            name
            for name, call in event.calls
            if (member := members.get(name)) is not None and member.call == call and member.stage in allowed
        ]

    def calls(self, names: Iterable[str]) -> Calls:
        """These members' calls as they stand now."""
        members = self.members
        return tuple([(name, members[name].call) for name in names])

    # What members do.

    def quiet(self, names: Iterable[str]) -> None:
        """These members stop beating; the heartbeats they sent are counted."""
        since = Counter([self.members[name].beat_from for name in names])
        every = self.timing.heartbeat_ms
        self.send("Heartbeat", sum(beats(begun, self.at, every) * many for begun, many in since.items()))

    def consume(self, shares: Mapping[str, Share]) -> None:
        """These members consume these shares from now on."""
        if shares:
            self.out.append(Owns(shares))

    def subscriptions(self) -> None:
        """Says what live members subscribe to, when that changed."""
        wanted = frozenset(
            topic
            for member in self.members.values()
            if member.stage in LIVE
            for topic in member.client.topics
        )
        if not self.rules.subscribes and any(member.stage in LIVE for member in self.members.values()):
            wanted = frozenset(self.topics)
        if wanted != self.get("wanted"):
            self.set(wanted=wanted)
            self.out.append(Wants(wanted))

    def last_heard(self, member: Member) -> int:
        """When the coordinator last heard of a member, its heartbeats included."""
        if member.beat_from is None:
            return member.heard
        return max(member.heard, last_beat(member.beat_from, self.at, self.timing.heartbeat_ms))

    def watch(self, names: Iterable[str]) -> None:
        """The sessions of members that fell silent expire one session timeout after they were last heard of.

        A member whose JoinGroup waits has no running session: it gets one when the join phase ends.
        """
        expiries: dict[int, list[str]] = {}
        for name in names:
            member = self.members[name]
            if (member.known and not member.joined) or member.pending:
                expiry = self.last_heard(member) + self.timing.session_timeout_ms
                expiries.setdefault(expiry, []).append(name)
        for at, silent in expiries.items():
            self.later(SessionExpired(max(at, self.at), self.calls(silent)))

    def reply(self, names: Iterable[str]) -> None:
        """Answers with shares are on their way."""
        names = list(names)
        if names:
            self.later(Assigned(self.network(), self.calls(names), self.get("generation")))

    def join(self, names: Iterable[str]) -> None:
        """Members send JoinGroup now: they stop what their protocol makes them stop, and beat no more."""
        names = list(names)
        self.quiet(names)
        stopped: dict[str, Share] = {}
        members, keeps = self.members, self.rules.keeps
        for name in names:
            member = members[name]
            keep = keeps(member)
            if keep is not member.owned:
                stopped[name] = keep
            members[name] = structs.replace(
                member, stage=Stage.JOINING, call=member.call + 1, beat_from=None, owned=keep, synced=False
            )
        self.consume(stopped)
        if names:
            self.later(JoinGroup(self.network(), self.calls(names)))


def in_table(known: Mapping[str, Member], most: int) -> list[str]:
    """Names as a HashMap by member id iterates them, that has held ``most`` members at once."""
    names = sorted(known, key=lambda name: known[name].place)
    by_id = {known[name].member_id: name for name in names}
    capacity = DEFAULT_CAPACITY
    while most * 4 > capacity * 3:
        capacity *= 2
    return [by_id[member_id] for member_id in in_hash_order(list(by_id), capacity=capacity)]


def forget(member: Member) -> Member:
    """The member once the coordinator does not know it any more."""
    return structs.replace(
        member,
        known=False,
        pending=False,
        joined=False,
        synced=False,
        member_id="",
        assigned=NOTHING,
        claim=NOTHING,
    )
