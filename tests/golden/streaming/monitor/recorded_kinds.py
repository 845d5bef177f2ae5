"""Membership logs of groups that are told of, by chance; the same for the same seed, as in ``recorded.py``.

Collectors tell of Connect, of Streams, of share groups, two of them of one group; members tell of themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from random import Random
from typing import Any

from msgspec import UNSET

from streaming.wire.codec import Record, encode_event
from streaming.wire.events import PROBING, Event, Evidence, GroupObserved, Holding, ObservedMember
from tests.support.histories import Log
from tests.support.recorded import KINDS

SORTS = ("seen", "reported")
POLLED = Evidence(source="polling", reason="asked for")
#: What is told of every generation of a group: its kind, protocol, and how its rounds follow each other.
SEEN: tuple[dict[str, Any], ...] = (
    {"kind": "connect", "protocol_type": "connect", "protocol": "sessioned"},
    {"kind": "connect", "protocol_type": "connect", "protocol": "default"},
    {"kind": "streams", "protocol": "stream"},
    {"kind": "streams", "group_protocol": "streams", "protocol_type": "streams"},
    {"kind": "share", "group_protocol": "share", "protocol_type": "share"},
    {"protocol": "cooperative-sticky"},
    {"protocol": "range"},
    {"protocol": "uniform", "group_protocol": "consumer"},
)
#: What members that report themselves say of how they were made.
REPORTING: tuple[dict[str, Any], ...] = (
    {"assignors": ["cooperative-sticky"]},
    {"assignors": ["range"]},
    {"assignors": []},
    {"assignors": ["cooperative-sticky", "range"]},
    {"group_protocol": "consumer"},
    {"group_protocol": "consumer", "assignors": ["range"]},
)
#: On either side of every time that :mod:`streaming.monitor.reported` waits for.
HELD_MS = (UNSET, 0, 1_999, 2_000, 2_000, 2_001, 9_999, 10_000, 10_001, 60_000)


#: Partitions, and tasks: a connector itself is −1. A set of them has another order than they have.
NUMBERS = (-1, 0, 1, 9, 17)


class _Group(Log, ABC):
    """One group by chance: who is in it, and which topics or connectors there are."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(name)
        self.source = f"/groups/{name}"
        self.random = Random(f"{seed}/{name}")
        self.names = [f"t{number}" for number in range(self.random.choice((1, 2, 3)))]
        self.members: dict[str, str | None] = {}
        self.shares: dict[str, Holding] = {}
        self.born = self.generation = 0
        self.clock = 1_700_000_000_000
        self.history: list[Event] = []

    def now(self) -> int:
        self.clock += self.random.randrange(-200, 4_000)
        return self.clock

    def next(self) -> Event:
        """The next event; now and then one of before once more."""
        if self.history and self.random.random() < 0.05:
            return self.random.choice(self.history)
        event = self._next()
        self.history = [*self.history[-20:], event]
        return event

    @abstractmethod
    def _next(self) -> Event:
        """The next event that was not before."""

    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    def _someone(self) -> str:
        return self.random.choice([*self.members, "nobody"])

    def _born(self) -> str:
        self.born += 1
        name = f"c{self.born:02d}"
        self.members[name] = f"i{self.born}" if self._chance(0.25) else None
        return name

    def _comes_back(self) -> str | None:
        """A static member under a new id."""
        static = [name for name, instance in self.members.items() if instance]
        if not static:
            return None
        instance = self.members.pop(self.random.choice(static))
        self.born += 1
        self.members[f"c{self.born:02d}"] = instance
        return f"c{self.born:02d}"

    def _subscription(self) -> list[str]:
        if self._chance(0.9):
            return self.names
        return self.random.sample(self.names, self.random.randint(1, len(self.names)))

    def _counts(self) -> Event:
        names = self.random.sample(self.names, self.random.randint(1, len(self.names)))
        return self.topics(**{name: self.random.choice((0, 2, 18, 18, 30)) for name in names})

    def _deal(self, *, connect: bool = False, shared: bool = False) -> dict[str, Holding]:
        """Who holds what from now on: most of it as before, some with nobody, and hardly anything twice."""
        ids = list(self.members)
        holder = {
            (topic, number): name
            for name, share in self.shares.items()
            if name in self.members
            for topic, numbers in share.items()
            for number in numbers
        }
        dealt: dict[str, Holding] = {name: {} for name in ids}
        stays = self.random.choice((0.4, 0.9, 1.0))
        for topic in self.names:
            for number in NUMBERS if connect else NUMBERS[1:]:
                chosen = [holder.get((topic, number), "")] if self._chance(stays) else [""]
                if chosen == [""] and self._chance(0.8):
                    chosen = [self.random.choice([*ids, ""])]
                if ids and self._chance(0.4 if shared else 0.004):
                    chosen.append(self.random.choice(ids))
                for name in filter(None, dict.fromkeys(chosen)):
                    dealt[name].setdefault(topic, []).append(number)
        if ids and self._chance(0.03):
            dealt[ids[0]]["unknown"] = [0, 9]
        self.shares = dealt
        return dealt

    def _part(self, share: Holding) -> Holding:
        """Some of a share."""
        some = {
            topic: [number for number in numbers if self._chance(0.5)] for topic, numbers in share.items()
        }
        return {topic: numbers for topic, numbers in some.items() if numbers}


class SeenGroup(_Group):
    """A group of which a collector tells, or two do, and of which members say what they do."""

    def __init__(self, name: str, number: int, seed: int) -> None:
        super().__init__(name, seed)
        self.fixed = SEEN[number % len(SEEN)]
        self.polling = (0.0, 0.3, 0.95)[number // len(SEEN) % 3]

    def _next(self) -> Event:
        roll = self.random.random()
        if roll < 0.05 and self.fixed.get("kind") != "connect":
            return self._counts()
        if roll < 0.065:
            self.members, self.shares, self.generation = {}, {}, 0
            return self.delete(reason=self.random.choice((None, "gone")))
        if roll < 0.17:
            return self._said()
        return self._view()

    def _said(self) -> Event:
        says = self.random.choice(({}, {}, {"acknowledges": True}))
        roll = self.random.random()
        if roll < 0.6:
            end = self.random.choice((self.leave, self.fence))
            return end(self._someone(), reason=self.random.choice((None, "told")), **says)
        if roll < 0.8:
            return self.join(self._someone(), *self.names, **says)
        return self.subscribe(self._someone(), *self._subscription())

    def _move(self) -> None:
        """The group as it is at the next view: a generation, a step, nothing new, or another life."""
        self.generation += self.random.choice((0, 0, 1, 1, 1, 1, 2, 5))
        roll = self.random.random()
        if roll < 0.03:
            self.members, self.shares, self.generation = {}, {}, self.random.randrange(3)
            self._born()
        elif (roll < 0.3 and len(self.members) < 5) or not self.generation:
            self._born()
        elif roll < 0.45 and self.members:
            del self.members[self.random.choice(list(self.members))]
        elif roll < 0.55:
            self._comes_back()

    def _view(self) -> Event:
        self._move()
        kind = self.fixed.get("kind")
        dealt = self.shares
        if self._chance(0.7) or dealt.keys() != self.members.keys():
            dealt = self._deal(connect=kind == "connect", shared=kind == "share")
        told = [
            Evidence(
                source="coordinator-log",
                reason=self.random.choice(("said", "said again")),
                member_ids=[self._someone()] if self._chance(0.8) else [],
                kind=name,
            )
            for name in (*KINDS, PROBING, "group.observed", None)
            if self._chance(0.06)
        ]
        if self._chance(self.polling):
            told.append(POLLED)
        epochs = "group_protocol" in self.fixed
        return self.event(
            GroupObserved,
            members=[self._member(name, share) for name, share in dealt.items()],
            delay_ms=self.random.choice((UNSET, 0, 5_000)) if kind == "connect" else UNSET,
            state=self.random.choice(("Stable", "Assigning", "Reconciling", None)) if dealt else "Empty",
            evidence=told,
            **{"group_epoch" if epochs else "generation": self.generation},
            **self.fixed,
        )

    def _member(self, name: str, share: Holding) -> ObservedMember:
        kind, fields = self.fixed.get("kind"), dict[str, Any]()
        if kind == "streams":
            for role in ("standby", "warmup"):
                fields[role] = {"0": [self.random.randrange(3)]} if self._chance(0.5) else UNSET
        if self._chance(0.2):
            fields["target"] = self._part(share) | {self.names[0]: [self.random.choice((0, 2, 9, 33))]}
        if self._chance(0.15):
            fields["pending_revocation"] = self._part(share)
        if self._chance(0.1):
            fields["owned"] = {self.names[0]: [0, 1]}
        if self._chance(0.05):
            share = {topic: [*reversed(numbers), *numbers[:1]] for topic, numbers in share.items()}
        return ObservedMember(
            member_id=name,
            topics=[] if kind == "connect" or self._chance(0.05) else self._subscription(),
            assigned=share,
            group_instance_id=self.members[name],
            rack_id=self.random.choice((None, "r1")),
            session_timeout_ms=self.random.choice((None, 45_000)),
            **fields,
        )


class ReportedGroup(_Group):
    """A group whose members say what they hold, in any order, late and more than once."""

    def __init__(self, name: str, number: int, seed: int) -> None:
        super().__init__(name, seed)
        self.fields = REPORTING[number % len(REPORTING)]
        self.calm = self.random.choice((0.6, 0.85))

    def _next(self) -> Event:  # noqa: PLR0911 - one return a kind of event
        if self.members and self._chance(self.calm):
            return self._told()
        if not self.members and self._chance(0.5):  # Kafka may count from 1 again
            self.generation = 0
        roll = self.random.random()
        if roll < 0.45 or not self.members:
            return self._joined(self._born() if len(self.members) < 4 else self._someone())
        if roll < 0.55:
            return self._joined(self._comes_back() or self._someone())
        if roll < 0.8:
            return self._gone()
        if roll < 0.86:
            return self.subscribe(self._someone(), *self._subscription())
        if roll < 0.92:
            return self._counts()
        if roll < 0.95:
            return self.beat(self._someone(), generation=self.generation)
        if roll < 0.97:
            self.members, self.shares, self.generation = {}, {}, 0
            return self.delete()
        return self.observe(
            self.generation + self.random.choice((-1, 0, 1)),
            self.shares,
            protocol="cooperative-sticky",
            epoch="group_protocol" in self.fields,
            evidence=self.random.choice(([], [POLLED], [POLLED], [POLLED])),
        )

    def _joined(self, name: str) -> Event:
        self._rebalanced()
        says = {} if self._chance(0.04) else {"acknowledges": True}
        rack = self.random.choice((None, None, "r1"))
        timeout = self.random.choice((None, 45_000))
        return self.join(
            name,
            *self._subscription(),
            group_instance_id=self.members.get(name),
            rack_id=rack,
            session_timeout_ms=timeout,
            **says,
            **self.fields,
        )

    def _gone(self) -> Event:
        name = self._someone()
        instance = self.members.pop(name, None) if self._chance(0.9) else None
        self._rebalanced()
        end = self.random.choice((self.leave, self.fence))
        return end(name, reason=self.random.choice((None, "told")), group_instance_id=instance)

    def _rebalanced(self) -> None:
        self.generation += self.random.choice((1, 1, 1, 2))
        self._deal()

    def _told(self) -> Event:
        roll, name = self.random.random(), self._someone()
        if roll < 0.06:
            self._rebalanced()
        late = self.random.choice((0, 0, 0, 0, 0, 0, 1, 2)) if roll < 0.7 else 0
        generation = -1 if roll > 0.985 else max(self.generation - late, 0)
        owned = self.shares.get(name, {})
        if self._chance(0.08):
            owned = self._part(owned)
        if self._chance(0.05):
            owned = {topic: [*reversed(numbers), *numbers[:1]] for topic, numbers in owned.items()} | {
                "z": []
            }
        return self.acknowledge(name, generation=generation, owned=owned, held_ms=self.random.choice(HELD_MS))


def records(sort: str, count: int, seed: int = 1) -> Iterator[Record]:
    """The log of a sort, its groups interleaved."""
    chance = Random(f"{seed}/{sort}")
    make = SeenGroup if sort == "seen" else ReportedGroup
    groups = [make(f"{sort}-{number}", number, seed) for number in range(max(24, count // 200))]
    for offset in range(count):
        yield Record.of(offset % 4, offset, *encode_event(chance.choice(groups).next()))
