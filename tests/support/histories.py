"""Membership logs for tests, written by hand or by chance, and what the pure monitor makes of them.

:class:`Log` writes the events of one group. :class:`Group` is a group whose members come and go, with the diffs
that the monitor gives for it. :func:`membership_log` interleaves many groups of every kind, the same for the same
seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

import msgspec

from assignors.partitioner import partition_for_key
from streaming.monitor.group import apply
from streaming.monitor.rendering import AssignmentOutput, DiffOutput, Output
from streaming.monitor.state import GroupState
from streaming.wire import codec, events
from streaming.wire.events import Cause, Diff, Event, EventData, MemberDiff, Partitions, TopicMetadata

#: Kinds of groups; a group keeps its kind.
FLAVOURS: tuple[dict[str, Any], ...] = (
    {"assignors": []},
    {"assignors": ["roundrobin", "range"]},
    {"assignors": ["sticky"]},
    {"assignors": ["cooperative-sticky"]},
    {"assignors": ["cooperative-sticky", "range"]},
    {"assignors": ["uniform"], "group_protocol": "consumer"},
    {"assignors": ["range"], "group_protocol": "consumer"},
    {"observed": "range"},
    {"observed": "cooperative-sticky"},
    {"observed": "uniform"},
    {"migrates": True},
)
#: No session ends while a test runs: what is fenced stands in the log.
SESSION_TIMEOUT_MS = 3_600_000
TOPICS = ("orders", "payments", "audit")


class Log:
    """Makes the events of one group; the nth has id ``n`` and time ``1000·n``."""

    source = "test"

    def __init__(self, group_id: str = "g") -> None:
        self.group_id = group_id
        self.count = 0

    def now(self) -> int:
        return 1000 * self.count

    def event(self, kind: type[EventData], **fields: Any) -> Event:
        self.count += 1
        data = kind(group_id=self.group_id, timestamp=self.now(), **fields)
        return Event(self.source, str(self.count), data)

    def topics(self, **counts: int) -> Event:
        topics = {name: TopicMetadata(partitions=count) for name, count in counts.items()}
        return self.event(events.PartitionsChanged, topics=topics)

    def join(self, member_id: str, *topics: str, **fields: Any) -> Event:
        return self.event(events.MemberJoined, member_id=member_id, topics=list(topics or ["t"]), **fields)

    def leave(self, member_id: str, **fields: Any) -> Event:
        return self.event(events.MemberLeft, member_id=member_id, **fields)

    def fence(self, member_id: str, **fields: Any) -> Event:
        return self.event(events.MemberFenced, member_id=member_id, **fields)

    def subscribe(self, member_id: str, *topics: str) -> Event:
        return self.event(events.SubscriptionChanged, member_id=member_id, topics=list(topics))

    def beat(self, member_id: str, **fields: Any) -> Event:
        return self.event(events.MemberHeartbeat, member_id=member_id, **fields)

    def acknowledge(self, member_id: str, **fields: Any) -> Event:
        return self.event(events.AssignmentAcknowledged, member_id=member_id, **fields)

    def delete(self, **fields: Any) -> Event:
        return self.event(events.GroupDeleted, **fields)

    def observe(
        self,
        generation: int,
        assigned: dict[str, Partitions],
        *,
        protocol: str | None = "range",
        instances: dict[str, str] | None = None,
        topics: dict[str, list[str]] | None = None,
        evidence: Iterable[events.Evidence] = (),
        epoch: bool = False,
        owned: dict[str, Partitions] | None = None,
    ) -> Event:
        members = [
            events.ObservedMember(
                member_id=member_id,
                topics=(topics or {}).get(member_id, ["t"]),
                assigned=share,
                group_instance_id=(instances or {}).get(member_id),
                owned=(owned or {}).get(member_id, {}),
            )
            for member_id, share in assigned.items()
        ]
        return self.event(
            events.GroupObserved,
            members=members,
            generation=None if epoch else generation,
            group_epoch=generation if epoch else None,
            group_protocol="consumer" if epoch else "classic",
            protocol=protocol,
            evidence=list(evidence),
        )


def play(
    happened: Iterable[Event], state: GroupState | None = None
) -> tuple[GroupState | None, list[Output]]:
    outputs: list[Output] = []
    for event in happened:
        state, given = apply(state, event)
        outputs += given
    return state, outputs


def diffs(outputs: Iterable[Output]) -> list[Diff]:
    return [output.diff for output in outputs if isinstance(output, DiffOutput)]


def assignments(outputs: Iterable[Output]) -> list[AssignmentOutput]:
    return [output for output in outputs if isinstance(output, AssignmentOutput)]


def change(
    owned: Partitions | None = None,
    revoked: Partitions | None = None,
    assigned: Partitions | None = None,
    kept: Partitions | None = None,
    *,
    present: bool | None = True,
) -> MemberDiff:
    return MemberDiff(
        owned=owned or {}, revoked=revoked or {}, assigned=assigned or {}, kept=kept or {}, present=present
    )


def sample(**changes: Any) -> Diff:
    """The first round of group ``g``, its one member ``c1`` given all three partitions of ``t``; or another."""
    first = Diff(
        group_id="g",
        protocol="classic",
        assignor="range",
        generation=1,
        group_epoch=None,
        round=1,
        cause=Cause(kind="member.joined", member_ids=["c1"]),
        timestamp=2000,
        members={"c1": change(assigned={"t": [0, 1, 2]})},
        unassigned={},
        moved=0,
        violations=[],
    )
    return msgspec.structs.replace(first, **changes)


def holds(diff: Diff) -> dict[str, Partitions]:
    """Who owns what after the round."""
    after: dict[str, Partitions] = {}
    for member_id, member in diff.members.items():
        after[member_id] = {
            topic: sorted(member.kept.get(topic, []) + member.assigned.get(topic, []))
            for topic in sorted({*member.kept, *member.assigned})
        }
    return after


def check_algebra(diff: Diff) -> None:
    """The contract: kept = owned − revoked, revoked ∩ assigned = ∅, no partition in two afters."""
    seen: set[tuple[str, int]] = set()
    for member in diff.members.values():
        sets = {
            name: {(topic, p) for topic, ps in getattr(member, name).items() for p in ps}
            for name in ("owned", "revoked", "assigned", "kept")
        }
        assert sets["kept"] == sets["owned"] - sets["revoked"]
        assert sets["revoked"] <= sets["owned"]
        assert not sets["revoked"] & sets["assigned"]
        assert not sets["kept"] & sets["assigned"]
        after = sets["kept"] | sets["assigned"]
        assert not after & seen
        seen |= after
        for name in ("owned", "revoked", "assigned", "kept"):
            for partitions in getattr(member, name).values():
                assert partitions
                assert partitions == sorted(set(partitions))


class Group(Log):
    """A group whose members join, leave and crash by chance, and the diffs that the monitor gives for it."""

    def __init__(
        self, name: str, topics: dict[str, int], seed: int, assignor: str = "cooperative-sticky"
    ) -> None:
        super().__init__(name)
        self.random = Random(f"{name}/{seed}")
        self.timestamp = 1_700_000_000_000
        self.joining = {"assignors": [assignor]}
        self.subscription = tuple(topics)
        self.state, self.outputs = play([self.topics(**topics)])

    def now(self) -> int:
        return self.timestamp

    def change(self) -> Iterator[Diff]:
        """One change of the membership; later rounds of a cooperative rebalance come a little after the first."""
        self.timestamp += self.random.randrange(5_000, 180_000)
        names = list(self.members)
        kinds = ["join"] * (3 if len(names) < 3 else 1) * (len(names) < 9)
        kind = self.random.choice([*kinds, *["leave", "fence"] * (len(names) > 1)])
        if kind == "join":
            event = self.join(f"{self.group_id}-{self.count}", *self.subscription, **self.joining)
        elif kind == "leave":
            event = self.leave(self.random.choice(names), reason="the member left")
        else:
            event = self.fence(self.random.choice(names), reason="session timeout expired")
        self.state, self.outputs = play([event], self.state)
        for diff in diffs(self.outputs):
            self.timestamp += self.random.randrange(40, 900) * (diff.round > 1)
            yield msgspec.structs.replace(diff, timestamp=self.timestamp)

    def diffs(self, count: int) -> list[Diff]:
        """The next ``count`` diffs; what is left of a rebalance is not given again."""
        found: list[Diff] = []
        while len(found) < count:
            found += self.change()
        return found[:count]

    @property
    def members(self) -> dict[str, Partitions]:
        return {} if self.state is None else {one.member_id: one.owned for one in self.state.members}

    def latest(self) -> events.LatestAssignment:
        """What the compacted topic says of the group now."""
        assignment = assignments(self.outputs)[-1].assignment
        assert assignment is not None
        return assignment


class _AnyGroup(Log):
    """One group of a :func:`membership_log`."""

    def __init__(self, name: str, flavour: dict[str, Any], rng: Random) -> None:
        super().__init__(name)
        self.source = f"/groups/{name}"
        self.flavour, self.rng = flavour, rng
        self.clock = 1_700_000_000_000
        self.members: dict[str, str | None] = {}
        self.born = self.generation = 0
        self.heard: dict[str, int] = {}
        self.history: list[Event] = []

    def now(self) -> int:
        self.clock += self.rng.randrange(-500, 5_000)
        return self.clock

    def event(self, kind: type[EventData], **fields: Any) -> Event:
        event = super().event(kind, **fields)
        self.history = [*self.history[-40:], event]
        return event

    def next(self) -> Event:
        if self.count == 0:
            return self._counts()
        roll = self.rng.random()
        if roll < 0.08 and self.history:
            return self.rng.choice(self.history)
        if roll < 0.12:
            return self._counts()
        if roll < 0.125:
            self.members, self.generation = {}, 0
            forget = self.rng.random() < 0.1
            deleted = self.delete(forget=forget)
            if forget:  # with the group goes the memory of its events: nobody repeats those of a week ago
                self.history = []
            return deleted
        if roll < 0.14:
            return self.acknowledge(self._someone(), owned={"orders": [0]})
        return self._observe() if "observed" in self.flavour else self._member_event(roll)

    def _counts(self) -> Event:
        names = self.rng.sample(TOPICS, self.rng.randint(1, len(TOPICS))) if self.count else TOPICS
        return self.topics(**{name: self.rng.choice((1, 3, 6, 12)) for name in names})

    def _someone(self) -> str:
        return self.rng.choice([*self.members, "nobody"])

    def _subscription(self) -> list[str]:
        return sorted(self.rng.sample(TOPICS, self.rng.randint(1, len(TOPICS))))

    def _join(self, member_id: str, instance_id: str | None) -> Event:
        self.members[member_id] = instance_id
        fields = {name: value for name, value in self.flavour.items() if name != "migrates"}
        if "migrates" in self.flavour:
            modern = self.rng.random() < min(0.9, self.count / 100)
            fields = (
                {"group_protocol": "consumer"} if modern else {"assignors": ["cooperative-sticky", "range"]}
            )
        return self.join(
            member_id,
            *self._subscription(),
            group_instance_id=instance_id,
            owned={"orders": [0]} if self.rng.random() < 0.1 else {},
            generation=self.rng.randint(-1, 5) if self.rng.random() < 0.1 else -1,
            session_timeout_ms=self.rng.choice((None, SESSION_TIMEOUT_MS)),
            **fields,
        )

    def _member_event(self, roll: float) -> Event:
        if not self.members or (roll < 0.45 and len(self.members) < 6):
            self.born += 1
            return self._join(f"c{self.born}", f"i{self.born}" if self.rng.random() < 0.3 else None)
        if roll < 0.55:
            member_id = self._someone()
            beat = self.beat(member_id, generation=self.rng.randint(0, 9))
            self.heard[member_id] = beat.data.timestamp
            return beat
        if roll < 0.58 and self.heard:
            return self._fence()
        if roll < 0.65:
            return self.subscribe(self._someone(), *self._subscription())
        if roll < 0.72:
            old = self.rng.choice(list(self.members))
            instance = self.members.pop(old)
            self.born += 1
            return self._join(f"c{self.born}" if instance else old, instance)
        member_id = self._someone()
        self.members.pop(member_id, None)
        return self.rng.choice((self.leave, self.fence))(member_id, reason="r")

    def _fence(self) -> Event:
        """What the timer writes; now and then it had not read the member's last heartbeat."""
        member_id = self.rng.choice(list(self.heard))
        heard = self.heard[member_id]
        if self.rng.random() < 0.3:
            heard -= 1
        else:
            self.members.pop(member_id, None)
        return self.fence(member_id, reason="session timeout", last_heard=heard)

    def _observe(self) -> Event:
        self.generation += self.rng.choice((0, 1, 1, 1, 2))
        if self.rng.random() < 0.5:
            self.born += 1
            self.members[f"c{self.born}"] = None
        elif self.members:
            self.members.pop(self.rng.choice(list(self.members)))
        ids = list(self.members)
        shares: dict[str, Partitions] = {member_id: {} for member_id in ids}
        for topic in TOPICS if ids else ():
            for partition in range(6):
                shares[self.rng.choice(ids)].setdefault(topic, []).append(partition)
        assignor = self.flavour["observed"]
        topics = {member_id: list(TOPICS) for member_id in ids}
        return self.observe(
            self.generation, shares, protocol=assignor, topics=topics, epoch=assignor == "uniform"
        )


def membership_log(count: int, groups: int, seed: int = 1) -> Iterator[Event]:
    """``count`` events over ``groups`` groups, interleaved: all protocols, assignors and disturbances.

    Derived groups under every assignor and protocol, a migration from one to the other, observed groups (eager,
    cooperative, consumer), static members, duplicates, stale generations, events of unknown members, heartbeats,
    session timeouts (fences of the timer, good and stale), partition counts that grow and shrink, deletions.
    """
    rng = Random(seed)
    known = [
        _AnyGroup(f"group-{number}", FLAVOURS[number % len(FLAVOURS)], Random(f"{seed}/{number}"))
        for number in range(groups)
    ]
    for _ in range(count):
        yield rng.choice(known).next()


#: A topic in memory, as its producer would have written it: records by partition.
Topic = list[list[tuple[bytes, bytes, codec.Headers]]]


def as_topic(log: Iterable[Event], partitions: int) -> Topic:
    """The log as records."""
    topic: Topic = [[] for _ in range(partitions)]
    for event in log:
        key, value, headers = codec.encode_event(event)
        topic[partition_for_key(key, partitions)].append((key, value, headers))
    return topic
