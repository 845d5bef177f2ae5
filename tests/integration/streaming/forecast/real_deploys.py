"""Rolling restarts of real groups, several at once: what came of them by the members' own callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic, sleep, time

from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.streaming.protocols.java_members import JavaMembers
from tests.support.kafka import Kafka, unique
from tests.support.members import Share
from tests.support.wait import eventually

PARTITIONS = 12
MEMBERS = 6
SESSION_MS = 30_000
_JAVA = "org.apache.kafka.clients.consumer."


@dataclass
class Deploy:
    """One group, and how its members are restarted."""

    kind: str  # eager, cooperative, static, consumer
    down_ms: int
    between_ms: int
    restarted: int = MEMBERS
    heartbeat_ms: int = 3000
    group: str = field(default_factory=lambda: unique("deploy"))

    @property
    def names(self) -> list[str]:
        return [f"{self.group}-m{number}" for number in range(1, MEMBERS + 1)]

    def config(self, servers: str, name: str) -> dict[str, object]:
        """The settings of a member."""
        config: dict[str, object] = {
            "bootstrap.servers": servers,
            "group.id": self.group,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
        }
        if self.kind == "consumer":
            return config | {"group.protocol": "consumer", "group.remote.assignor": "uniform"}
        if self.kind == "static":
            config["group.instance.id"] = name
        assignor = "CooperativeStickyAssignor" if self.kind == "cooperative" else "RangeAssignor"
        return config | {
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": self.heartbeat_ms,
            "partition.assignment.strategy": _JAVA + assignor,
        }


@dataclass
class Happened:
    """What came of a deploy. ``start``: what each member held before; ``waited_ms``: since its last callback."""

    start: dict[str, Share]
    waited_ms: int
    at: list[tuple[str, int]]
    downtime: dict[int, int]
    worst_gap: int
    moved: int

    @property
    def total(self) -> int:
        return sum(self.downtime.values())


def play(kafka: Kafka, java: JavaMembers, deploys: Sequence[Deploy]) -> list[Happened]:
    """Every deploy, all at the same time."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for future in admin.create_topics([NewTopic(one.group, PARTITIONS, 1) for one in deploys]).values():
        future.result(30)
    for one in deploys:
        for name in one.names:
            java.start(name, one.config(kafka.bootstrap_servers, name), [one.group])
    eventually(lambda: all(_spread(java, one) for one in deploys), timeout=90)
    sleep(4)  # a heartbeat interval: whatever else is to come has come
    eventually(lambda: all(_spread(java, one) for one in deploys), timeout=90)
    starts = {one.group: {name: dict(java.owned[name] or {}) for name in one.names} for one in deploys}
    since = len(java.told)
    last = {one.group: max(at for name, at, _ in java.told if name in one.names) for one in deploys}
    begun = int(time() * 1000)
    clock = monotonic()
    actions = (
        sorted(
            (at, what, one, name)
            for number, one in enumerate(deploys)
            for turn, name in enumerate(one.names[: one.restarted])
            for what, at in (
                ("stop", turn * (one.down_ms + one.between_ms)),
                ("start", turn * (one.down_ms + one.between_ms) + one.down_ms),
            )
            for one in (deploys[number],)
        )
        if False
        else []
    )
    for one in deploys:
        for turn, name in enumerate(one.names[: one.restarted]):
            at = turn * (one.down_ms + one.between_ms)
            actions.append((at, "stop", name, one))
            actions.append((at + one.down_ms, "start", name, one))
    actions.sort(key=lambda action: action[0])
    for at, what, name, one in actions:
        sleep(max(clock + at / 1000 - monotonic(), 0))
        if what == "stop":
            java.begin_close(name, "DEFAULT")
        else:
            eventually(lambda name=name: java.owned[name] is None)
            java.start(name, one.config(kafka.bootstrap_servers, name), [one.group])
    sleep(6)
    eventually(lambda: all(_spread(java, one) for one in deploys), timeout=90)
    sleep(6)
    told = java.told[since:]
    for one in deploys:
        for name in one.names:
            java.begin_close(name, "LEAVE_GROUP")
    eventually(lambda: all(java.owned[name] is None for one in deploys for name in one.names), timeout=60)
    assert not java.failures, java.failures
    return [_happened(one, starts[one.group], begun, begun - last[one.group], told) for one in deploys]


def _spread(java: JavaMembers, one: Deploy) -> bool:
    owned = [java.owned[name] or {} for name in one.names]
    given = [p for share in owned for p in share.get(one.group, [])]
    return all(owned) and sorted(given) == list(range(PARTITIONS))


def _happened(
    one: Deploy, start: dict[str, Share], begun: int, waited: int, told: Sequence[tuple[str, int, Share]]
) -> Happened:
    shares = {name: set(share.get(one.group, [])) for name, share in start.items()}
    last = {p: name for name, share in shares.items() for p in share}
    since: dict[int, int] = {}
    downtime = dict.fromkeys(range(PARTITIONS), 0)
    worst = moved = 0
    at_lines = []
    for name, at, owned in told:
        if name not in shares:
            continue
        now = set(owned.get(one.group, []))
        at_lines.append((name, at - begun, sorted(now)))
        for p in shares[name] - now:
            since[p] = at
        for p in now - shares[name]:
            gap = at - since.pop(p, at)
            downtime[p] += gap
            worst = max(worst, gap)
            moved += last[p] != name
            last[p] = name
        shares[name] = now
    return Happened(start, waited, at_lines, downtime, worst, moved)
