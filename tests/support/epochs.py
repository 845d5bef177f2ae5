"""Random snapshots of one KIP-848 group as its collector observes it.

Mostly as the coordinator does it, and now and then against its rules, as nothing that comes over a topic can be
trusted: partitions that two own, that nobody announced, or of topics that the member does not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from msgspec import structs

from streaming.records.events import (
    Event,
    EventData,
    GroupObserved,
    Holding,
    MemberLeft,
    ObservedMember,
    PartitionsChanged,
    PartitionsStopped,
    Stop,
    TopicMetadata,
)

SOURCE = "collector"


class Epochs:
    """One group with random steps.

    Args:
        members: how many it has at first.
        seed: of the chance.
        rules: whether nothing happens that a coordinator does not do.
    """

    def __init__(self, members: int, seed: int, *, rules: bool = False, partitions: int = 4) -> None:
        self.random, self.rules = Random(seed), rules
        self.topics = {f"t{number}": members * partitions // 2 for number in range(2)}
        self.members: dict[str, ObservedMember] = {}
        self.epoch = 1
        self.stamp = 1_000_000
        self.count = 0
        for _ in range(members):
            self.join()
        self.assign()

    def log(self, steps: int) -> Iterator[Event]:
        """Return its collector's events, with a snapshot of the group after each step."""
        yield self.announced()
        yield self.event(self.view())
        for _ in range(steps):
            self.stamp += self.random.choice((0, 10, 500, 60_000))
            chance = self.random.random()
            if chance < 0.04 and self.members:
                yield self.beside()
            self.step()
            yield self.event(self.view())

    def event(self, data: EventData) -> Event:
        self.count += 1
        return Event(SOURCE, f"0:{self.count}", data)

    def announced(self) -> Event:
        topics = {name: TopicMetadata(partitions=count) for name, count in self.topics.items()}
        return self.event(PartitionsChanged(group_id="g", timestamp=self.stamp, topics=topics))

    def beside(self) -> Event:
        some = self.random.choice([*self.members])
        match self.random.randrange(3):
            case 0:
                self.topics["t0"] += 1
                return self.announced()
            case 1:
                left = MemberLeft(group_id="g", timestamp=self.stamp, member_id=some, reason="closed")
                return structs.replace(self.event(left), source="listener")
            case _:
                stop = Stop(partitions=self.members[some].assigned, stopped_after=self.stamp - 50)
                return self.event(
                    PartitionsStopped(
                        group_id="g", timestamp=self.stamp, source="commits", stops=[stop], group_epoch=self.epoch
                    )
                )

    def view(self) -> GroupObserved:
        """Return a snapshot of the group."""
        behind = any(
            member.member_epoch != self.epoch or member.pending_revocation or member.target != member.assigned
            for member in self.members.values()
        )
        return GroupObserved(
            group_id="g",
            timestamp=self.stamp,
            members=[self.members[member] for member in sorted(self.members)],
            group_epoch=self.epoch,
            group_protocol="consumer",
            protocol="uniform",
            state="Reconciling" if behind else "Stable" if self.members else "Empty",
        )

    def step(self) -> None:
        """Apply the next random step."""
        chance = self.random.random()
        if chance < 0.08 or not self.members:
            self.join()
            self.assign()
        elif chance < 0.15:
            del self.members[self.random.choice([*self.members])]
            self.assign()
        elif chance < 0.18:
            self.rename()
        elif chance < 0.2:
            self.subscribe()
        elif chance < 0.22 and not self.rules:
            self.violate_a_protocol_rule()
        elif chance < 0.25:
            self.come_back()
        else:
            late = [one for one, member in self.members.items() if self.is_behind(member)]
            self.beat(self.random.choice(late or [*self.members]))

    def is_behind(self, member: ObservedMember) -> bool:
        return member.member_epoch != self.epoch or member.target != member.assigned

    def join(self) -> None:
        name = f"m-{self.random.getrandbits(40):010x}"
        self.members[name] = ObservedMember(
            member_id=name,
            topics=sorted(self.topics),
            assigned={},
            target={},
            client_id=f"app-{self.random.randrange(5)}",
            client_host="/10.0.0.1",
            group_instance_id=f"i-{name}" if self.random.random() < 0.1 else None,
            rack_id=self.random.choice((None, "r1")),
            member_epoch=0,
            previous_member_epoch=0,
            state="STABLE",
            rebalance_timeout_ms=300_000,
        )

    def assign(self) -> None:
        """Start a new epoch: assign unowned partitions, and some others, to other members."""
        self.epoch += 1
        names = sorted(self.members)
        left = [(topic, number) for topic, count in self.topics.items() for number in range(count)]
        target: dict[str, set[tuple[str, int]]] = {name: set() for name in names}
        most = -(-len(left) // max(1, len(names)))
        for name in names:
            had = {(topic, p) for topic, ps in (self.members[name].target or {}).items() for p in ps}
            target[name] = {*sorted(had & {*left})[:most]}
            left = [one for one in left if one not in target[name]]
        for one in left:
            if names:
                target[min(names, key=lambda name: len(target[name]))].add(one)
        for name in names:
            self.change(name, target=_share(target[name]))

    def change(self, name: str, **changes: object) -> None:
        self.members[name] = structs.replace(self.members[name], **changes)

    def beat(self, name: str) -> None:
        """Move a member one step towards its target."""
        member = self.members[name]
        target, now, pending = _set(member.target), _set(member.assigned), _set(member.pending_revocation)
        if pending:
            self.change(name, pending_revocation={})
        elif now - target:
            self.change(name, assigned=_share(now & target), pending_revocation=_share(now - target))
        else:
            others = {
                place
                for other, one in self.members.items()
                if other != name
                for place in _set(one.assigned) | _set(one.pending_revocation)
            }
            self.change(
                name,
                assigned=_share(now | target - others),
                previous_member_epoch=member.member_epoch,
                member_epoch=self.epoch,
            )

    def rename(self) -> None:
        self.change(self.random.choice([*self.members]), client_host="/10.0.0.2")

    def subscribe(self) -> None:
        name = self.random.choice([*self.members])
        more = ["t0", "t1", "t2"] if self.rules else ["t1", "t2"]
        self.change(name, topics=self.random.choice((["t0", "t1"], more)))
        self.epoch += self.random.random() < 0.8

    def come_back(self) -> None:
        """Let a static member rejoin under another id and keep its partitions."""
        static = [member for member in self.members.values() if member.group_instance_id is not None]
        if static:
            old = self.random.choice(static)
            del self.members[old.member_id]
            name = f"m-{self.random.getrandbits(40):010x}"
            self.members[name] = structs.replace(old, member_id=name)

    def violate_a_protocol_rule(self) -> None:
        name = self.random.choice([*self.members])
        match self.random.randrange(4):
            case 0:
                self.change(name, assigned={"t0": [0, 1]})
            case 1:
                self.change(name, assigned={"never": [3]}, target={"never": [3]})
            case 2:
                self.change(name, assigned={"t0": [self.topics["t0"] + 3]})
            case _:
                self.change(name, owned={"t0": [1]})


def _set(share: Holding | None) -> set[tuple[str, int]]:
    return {(topic, number) for topic, numbers in (share or {}).items() for number in numbers}


def _share(places: set[tuple[str, int]]) -> Holding:
    found: Holding = {}
    for topic, number in sorted(places):
        found.setdefault(topic, []).append(number)
    return found
