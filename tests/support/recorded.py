"""Random membership logs of many groups with all protocols, assignors and disturbances, determined by a seed."""

from collections.abc import Iterator
from random import Random
from typing import Any

from streaming.records.codec import Record, encode_event
from streaming.records.events import Event, Evidence, Partitions
from tests.support.histories import Log

GROUP_SORTS = ("derived", "observed", "mixed")
ASSIGNORS: tuple[dict[str, Any], ...] = (
    {"assignors": []},
    {"assignors": ["range"]},
    {"assignors": ["roundrobin", "range"]},
    {"assignors": ["sticky"]},
    {"assignors": ["cooperative-sticky"]},
    {"assignors": ["cooperative-sticky", "range"]},
    {"assignors": ["mine", "range"]},
    {"assignors": ["uniform"], "group_protocol": "consumer"},
    {"assignors": ["range"], "group_protocol": "consumer"},
    {"migrates": True},
)
#: Pairs for observed groups: the assignor, and True if the group has epochs.
OBSERVED_PROTOCOLS = (("range", False), ("cooperative-sticky", False), ("uniform", True))
KINDS = ("member.joined", "member.left", "member.fenced", "member.subscription_changed", "topic.partitions_changed")


class RandomGroup(Log):
    """One random group; in a ``plain`` group all members have the same subscription."""

    session_timeout_ms = 45_000

    def __init__(self, name: str, sort: str, number: int, seed: int) -> None:
        super().__init__(name)
        self.source = f"/groups/{name}"
        self.random = Random(f"{seed}/{name}")
        self.sort = sort
        self.fields = ASSIGNORS[number % len(ASSIGNORS)]
        self.assignor, self.epoch = OBSERVED_PROTOCOLS[number % len(OBSERVED_PROTOCOLS)]
        self.plain = self.random.random() < 0.5
        self.names = [f"topic-{index}" for index in range(self.random.choice((1, 1, 2, 3, 5)))]
        self.random.shuffle(self.names)
        self.most = self.random.choice((3, 6, 12, 40))
        self.observed = sort == "observed"
        self.members: dict[str, str | None] = {}
        self.shares: dict[str, Partitions] = {}
        self.groups_created = self.generation = 0
        self.clock = 1_700_000_000_000
        self.last_heartbeats: dict[str, int] = {}
        self.history: list[Event] = []

    def now(self) -> int:
        self.clock += self.random.randrange(-500, 5_000)
        return self.clock

    def next(self) -> Event:
        event = self._next()
        self.history = [*self.history[-40:], event]
        return event

    def _next(self) -> Event:  # noqa: PLR0911 - one return a kind of event
        chance = self.random.random()
        if self.count == 0:
            return self._counts(self.names)
        if chance < 0.06 and self.history:
            return self.random.choice(self.history)
        if chance < 0.09:
            return self._counts(self.random.sample(self.names, self.random.randint(1, len(self.names))))
        if chance < 0.094:
            return self._delete_event()
        if chance < 0.1:
            return self.acknowledge(self._random_member(), owned={"topic-0": [0]})
        if self.sort == "mixed" and chance < 0.11:
            self.observed = True
        if self.observed and (self.sort == "observed" or chance < 0.6):
            return self._leave_fence_or_join(chance) if chance < 0.2 else self._snapshot_event()
        return self._member_event()

    def _counts(self, names: list[str]) -> Event:
        return self.topics(**{name: self.random.choice((0, 1, 3, 12, 40)) for name in names})

    def _delete_event(self) -> Event:
        self.members, self.shares, self.generation = {}, {}, 0
        forget = self.random.random() < 0.1
        if forget:  # deleting a group also drops its stored events
            self.history = []
        return self.delete(forget=forget, reason=self.random.choice((None, "gone")))

    def _random_member(self) -> str:
        return self.random.choice([*self.members, "nobody"])

    def _subscription(self) -> list[str]:
        if self.plain and self.random.random() < 0.98:
            return self.names
        return sorted(self.random.sample(self.names, self.random.randint(1, len(self.names))))

    def _join(self, member_id: str, instance_id: str | None) -> Event:
        self.members[member_id] = instance_id
        fields = dict(self.fields)
        if "migrates" in fields:
            modern = self.random.random() < min(0.9, self.count / 300)
            fields = {"group_protocol": "consumer"} if modern else {"assignors": ["cooperative-sticky", "range"]}
        if self.random.random() < 0.03:
            fields |= self.random.choice(
                ({"rack_id": "r1"}, {"owned": {"topic-0": [0, 99]}}, {"generation": 50}, {"assignors": ["range"]})
            )
        return self.join(
            member_id,
            *self._subscription(),
            group_instance_id=instance_id,
            session_timeout_ms=self.random.choice((None, self.session_timeout_ms)),
            client_id="client",
            **fields,
        )

    def _member_event(self) -> Event:
        chance = self.random.random()
        if not self.members or (chance < 0.4 and len(self.members) < self.most):
            self.groups_created += 1
            kind = "c" if self.plain else self.random.choice(("c", "ç"))
            instance = f"i{self.groups_created}" if self.random.random() < 0.1 else None
            return self._join(f"{kind}-{self.groups_created:03d}", instance)
        if chance < 0.5:
            member_id = self._random_member()
            beat = self.beat(member_id, generation=self.random.randint(0, 9))
            self.last_heartbeats[member_id] = beat.data.timestamp
            return beat
        if chance < 0.53 and self.last_heartbeats:
            member_id = self.random.choice(list(self.last_heartbeats))
            last_heartbeat = self.last_heartbeats[member_id] - (self.random.random() < 0.3)
            return self.fence(member_id, reason="session timeout", last_heartbeat=last_heartbeat)
        if chance < 0.56:
            return self.subscribe(self._random_member(), *self._subscription())
        if chance < 0.62:
            old = self.random.choice(list(self.members))
            instance = self.members.pop(old)
            self.groups_created += 1
            return self._join(f"c-{self.groups_created:03d}" if instance else old, instance)
        member_id = self._random_member()
        instance = self.members.pop(member_id, None)
        leave = self.random.choice((self.leave, self.fence))
        reason = self.random.choice((None, "", 'schläft "tief"'))
        return leave(member_id, reason=reason, group_instance_id=instance)

    def _leave_fence_or_join(self, chance: float) -> Event:
        if chance < 0.15:
            return self.random.choice((self.leave, self.fence))(self._random_member(), reason="told")
        return self.join(self._random_member(), *self.names)

    def _snapshot_event(self) -> Event:
        """Return a snapshot of the group; generation, members and assignments may or may not have changed."""
        chance = self.random.random()
        self.generation += self.random.choice((0, 0, 1) if self.epoch else (0, 1, 1, 1, 2))
        if chance < 0.3 and len(self.members) < self.most:
            self.groups_created += 1
            self.members[f"c-{self.groups_created:03d}"] = (
                f"i{self.groups_created}" if self.random.random() < 0.2 else None
            )
        elif chance < 0.5 and self.members:
            self.members.pop(self.random.choice(list(self.members)))
        elif chance < 0.55 and self.members:
            old = self.random.choice(list(self.members))
            instance = self.members.pop(old)
            self.groups_created += 1
            self.members[f"c-{self.groups_created:03d}"] = instance
        ids = list(self.members)
        self.shares = {member_id: self.shares.get(member_id, {}) for member_id in ids}
        if chance < 0.8 and ids:
            share: dict[str, Partitions] = {member_id: {} for member_id in ids}
            for name in self.names:
                for partition in range(6):
                    if self.random.random() < 0.9:
                        share[self.random.choice(ids)].setdefault(name, []).append(partition)
            self.shares = share
        if chance > 0.97 and ids:
            for share in self.shares.values():
                share.pop("unknown", None)  # a partition has one owner
            self.shares[ids[0]] = {"unknown": [0], **self.shares[ids[0]]}
        evidence = [
            Evidence(source="coordinator-log", reason="said", member_ids=[self._random_member()], kind=kind)
            for kind in (*KINDS, None)
            if self.random.random() < 0.08
        ]
        owned = {member_id: {self.names[0]: [0, 1]} for member_id in ids if self.random.random() < 0.1}
        return self.observe(
            self.generation,
            self.shares,
            protocol=self.assignor,
            instances={member_id: instance for member_id, instance in self.members.items() if instance},
            topics={member_id: self._subscription() for member_id in ids},
            evidence=evidence,
            epoch=self.epoch,
            owned=owned,
        )


def records(sort: str, count: int, seed: int = 1) -> Iterator[Record]:
    """Yield a log of interleaved groups of the kind ``sort``, with 1 % damaged records."""
    rng = Random(f"{seed}/{sort}")
    groups = [RandomGroup(f"{sort}-{number}-ü", sort, number, seed) for number in range(max(12, count // 400))]
    for offset in range(count):
        key, value, headers = encode_event(rng.choice(groups).next())
        chance = rng.random()
        if chance < 0.002:
            value = value[: rng.randrange(len(value))]
        elif chance < 0.004:
            key = rng.choice((b"another", b"\xff"))
        elif chance < 0.006:
            value = value.replace(b'"timestamp":', b'"timestamp":9223372036854775')
        elif chance < 0.008:
            headers = [(name, b"\xff" if name == "ce_id" else data) for name, data in headers]
        elif chance < 0.01:
            headers = [(name, b"member.unknown" if name == "ce_type" else data) for name, data in headers]
        yield Record.of(offset % 4, offset, key, value, headers)


def membership_log(count: int, groups: int, seed: int = 1) -> Iterator[Event]:
    """Return ``count`` interleaved events of ``groups`` groups of all kinds, with session timeouts of an hour."""
    rng = Random(seed)
    random_groups = [
        RandomGroup(f"group-{number}", ("derived", *GROUP_SORTS)[number % 4], number, seed) for number in range(groups)
    ]
    for group in random_groups:
        group.session_timeout_ms = 3_600_000
    for _ in range(count):
        yield rng.choice(random_groups).next()
