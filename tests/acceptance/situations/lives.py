"""The group histories of the suite: changes of each group, and the expected kind of each episode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic

from tests.acceptance.situations import operations
from tests.acceptance.situations.applications import Connect, Streams
from tests.acceptance.situations.life import POLL_MS, MemberKind, RealGroup
from tests.support.wait import eventually

EAGER = MemberKind("java", "eager", poll_ms=POLL_MS)
COOPERATIVE = replace(EAGER, protocol="cooperative")
CONSUMER = replace(EAGER, protocol="consumer")
STATIC = replace(EAGER, static=True)
PLACED = MemberKind("kafka-python", "eager", placed=True)
RACKS = (("a", "z1"), ("b", "z1"), ("c", "z2"), ("d", "z2"))
TEN = tuple(f"m{number}" for number in range(10))


def _beginning(life: RealGroup) -> None:
    with life.step("first-start", came=("a", "b")):
        life.start("a", "b")
    with life.step("scale-out", came=("c",)):
        life.start("c")


def _crash(life: RealGroup) -> None:
    with life.step("crash", went=("c",)):
        life.crash("c")


def _apply_all_changes(life: RealGroup) -> None:
    """Apply every change that a group of Java consumers supports under its protocol."""
    _beginning(life)
    with life.step("subscription-change"):
        first, more = next(iter(life.topics)), life.topic(4)
        life.subscribe("b", first, more)
    with life.step("partition-growth"):
        life.grow(9)
    with life.step("rolling-restart", back=("a", "b", "c")):
        life.roll("a", "b", "c")
    with life.step("poll-timeout", back=("b",), may=("crash", "restart")):
        life.stall("b")
    with life.step("scale-in", went=("a",)):
        life.leave("a")
    with life.step("restart", back=("b", "c")):
        life.leave("b", "c")
        life.start("b")
        life.start("c", speaks=replace(life.speaks, client="confluent"))
    _crash(life)
    operations.end(life)


def _apply_usual_changes(life: RealGroup) -> None:
    """Apply the changes that every group supports."""
    _beginning(life)
    with life.step("rolling-restart", back=("a", "b"), may=("restart",)):
        life.roll("a", "b")
    with life.step("scale-in", went=("b",)):
        life.leave("b")
    _crash(life)
    operations.end(life)


def new_assignor(life: RealGroup) -> None:
    """Replace members by ones that prefer another assignor; the group uses it once most of them do."""
    _beginning(life)
    other = replace(life.speaks, assignors=tuple(reversed(life.speaks.assignors)))
    with life.step("assignor-change", back=("a", "b", "c")):
        life.roll("a", "b", "c", speaks=other)
    operations.end(life)


def migration(life: RealGroup) -> None:
    """Migrate from the classic protocol to KIP-848, one member after the other."""
    _beginning(life)
    with life.step("protocol-migration", back=("a", "b", "c")):
        life.roll("a", "b", "c", speaks=replace(life.speaks, protocol="consumer"))
    operations.end(life)


def static(life: RealGroup) -> None:
    """Restart members with instance ids: if they rejoin in time, no partition moves."""
    _beginning(life)
    with life.step("static-bounce", back=("b",)):
        life.roll("b")
    with life.step("static-bounce", back=("a", "b", "c")):
        life.roll("a", "b", "c")
    _crash(life)
    operations.end(life)


def static_rollouts(life: RealGroup) -> None:
    """Run three rollouts of static members."""
    with life.step("first-start", came=("a", "b", "c")):
        life.start("a", "b", "c")
    for _ in range(3):
        with life.step("static-bounce", back=("a", "b", "c")):
            life.roll("a", "b", "c")
    operations.end(life)


def ten(life: RealGroup) -> None:
    """Restart ten members one by one."""
    with life.step("first-start", came=TEN):
        life.start(*TEN)
    with life.step("static-bounce" if life.speaks.static else "rolling-restart", back=TEN):
        life.roll(*TEN)
    operations.end(life)


def scales_twice(life: RealGroup) -> None:
    """Scale a healthy group out and in."""
    with life.step("first-start", came=("a", "b")):
        life.start("a", "b")
    with life.step("scale-out", came=("c", "d")):
        life.start("c", "d")
    with life.step("scale-in", went=("a", "d")):
        life.leave("a", "d")
    operations.end(life)


def one_join(life: RealGroup) -> None:
    """Let one member join another."""
    with life.step("first-start", came=("a",)):
        life.start("a")
    with life.step("scale-out", came=("b",)):
        life.start("b")
    operations.end(life)


def storm(life: RealGroup, kills: int = 3, every: float = 0) -> None:
    """Kill a member repeatedly; ``every``: minimum seconds between two kills."""
    with life.step("first-start", came=("a", "b")):
        life.start("a", "b")
    with life.step("storm", back=("b",)):
        for _ in range(kills):
            killed = monotonic()
            life.kills.append(killed)
            life.crash("b")
            life.whole()
            life.start("b")
            life.whole()
            eventually(lambda: monotonic() >= killed + every)  # noqa: B023 - called at once
    operations.end(life)


def long_storm(life: RealGroup) -> None:
    """Run a storm of three minutes."""
    storm(life, kills=9, every=20)


def connectors(life: RealGroup) -> None:
    """Create and delete connectors of a worker."""
    assert isinstance(life, Connect)
    with life.step("first-start", came=("w1",)):
        life.start("w1")
    with life.step("connector-change"):
        life.configure("one", 2)
    with life.step("connector-change"):
        life.configure("two", 1)
    with life.step("connector-change"):
        life.delete("one")
    operations.end(life)


def streams(life: RealGroup) -> None:
    """Run a Kafka Streams application; under the classic protocol its threads send no LeaveGroup."""
    a, b, c = map(Streams.thread, "abc")
    with life.step("first-start", came=(a, b)):
        life.start(a, b)
    with life.step("scale-out", came=(c,)):
        life.start(c)
    with life.step("rolling-restart", back=(a, b, c)):
        life.roll(a, b, c)
    goodbye = life.speaks.protocol == "streams"
    with life.step("crash", went=(c,), provable=goodbye):
        life.crash(c)
    with life.step("scale-in" if goodbye else "crash", went=(b,), provable=goodbye):
        life.leave(b)
    with life.step("shutdown" if goodbye else "crash", went=(a,), provable=goodbye):
        life.leave(a)


@dataclass(frozen=True)
class GroupCase:
    """A group history: the clients of its members, and its changes."""

    speaks: MemberKind
    happens: Callable[[RealGroup], None]
    partitions: int = 6
    life: type[RealGroup] = RealGroup


def _python(client: str, protocol: str) -> GroupCase:
    return GroupCase(MemberKind(client, protocol, listened=protocol != "consumer"), _apply_usual_changes)


LIVES: dict[str, GroupCase] = {
    "java eager": GroupCase(EAGER, _apply_all_changes),
    "java cooperative": GroupCase(COOPERATIVE, _apply_all_changes),
    "java kip-848": GroupCase(CONSUMER, _apply_all_changes),
    "java static eager": GroupCase(STATIC, static),
    "java static kip-848": GroupCase(replace(STATIC, protocol="consumer"), static),
    "java new assignor": GroupCase(replace(EAGER, assignors=("range", "roundrobin")), new_assignor),
    "java migration": GroupCase(EAGER, migration),
    "java scales twice": GroupCase(EAGER, scales_twice),
    "java kip-848, one join": GroupCase(CONSUMER, one_join),
    "confluent kip-848, one join": GroupCase(MemberKind("confluent", "consumer"), one_join),
    "ten eager": GroupCase(EAGER, ten, partitions=20),
    "ten cooperative": GroupCase(COOPERATIVE, ten, partitions=20),
    "ten static": GroupCase(STATIC, ten, partitions=20),
    "ten kip-848": GroupCase(CONSUMER, ten, partitions=20),
    "confluent eager": _python("confluent", "eager"),
    "confluent cooperative": _python("confluent", "cooperative"),
    "confluent kip-848": _python("confluent", "consumer"),
    "kafka-python eager": _python("kafka-python", "eager"),
    "kafka-python cooperative": _python("kafka-python", "cooperative"),
    "storm eager": GroupCase(MemberKind("confluent", "eager"), storm),
    "storm kip-848": GroupCase(MemberKind("confluent", "consumer"), storm),
    "storm for three minutes": GroupCase(MemberKind("confluent", "cooperative"), long_storm),
    "connect": GroupCase(MemberKind("connect", "sessioned"), connectors, life=Connect),
    "streams classic": GroupCase(MemberKind("streams", "classic"), streams, life=Streams),
    "streams kip-1071": GroupCase(MemberKind("streams", "streams"), streams, life=Streams),
    "three rollouts eager": GroupCase(EAGER, operations.rollouts),
    "three rollouts cooperative": GroupCase(COOPERATIVE, operations.rollouts),
    "three rollouts kip-848": GroupCase(CONSUMER, operations.rollouts),
    "three rollouts static": GroupCase(STATIC, static_rollouts),
    "twenty cooperative": GroupCase(COOPERATIVE, operations.rollout_of_twenty, partitions=40),
    "twenty kip-848": GroupCase(CONSUMER, operations.rollout_of_twenty, partitions=40),
    "shared instance id": GroupCase(STATIC, operations.shared_instance),
    "rejoins eager": GroupCase(EAGER, operations.rejoins),
    "rejoins cooperative": GroupCase(COOPERATIVE, operations.rejoins),
    "one requested rebalance": GroupCase(EAGER, operations.one_request),
    "overtaken start eager": GroupCase(EAGER, operations.join_during_first_rebalance, partitions=16),
    "overtaken start cooperative": GroupCase(COOPERATIVE, operations.join_during_first_rebalance, partitions=16),
    "overtaken start kip-848": GroupCase(CONSUMER, operations.join_during_first_rebalance, partitions=16),
    "visitors eager": GroupCase(EAGER, operations.short_visits),
    "visitors kip-848": GroupCase(CONSUMER, operations.short_visits),
    "start and leave eager": GroupCase(EAGER, operations.start_and_leave),
    "start and leave kip-848": GroupCase(CONSUMER, operations.start_and_leave),
    "killed eager": GroupCase(EAGER, operations.kill_all),
    "killed cooperative": GroupCase(COOPERATIVE, operations.kill_all),
    "killed kip-848": GroupCase(MemberKind("confluent", "consumer"), operations.kill_all),
    "recreated eager": GroupCase(EAGER, operations.recreated),
    "recreated cooperative": GroupCase(COOPERATIVE, operations.recreated),
    "recreated kip-848": GroupCase(CONSUMER, operations.recreated),
    "recreated elsewhere": GroupCase(PLACED, operations.recreated_elsewhere),
    "surge": GroupCase(PLACED, operations.surge),
    "fleet replaced": GroupCase(PLACED, operations.fleet_replaced),
    "zone lost": GroupCase(MemberKind("confluent", "consumer", racks=RACKS), operations.zone_lost),
    "topic added eager": GroupCase(MemberKind("confluent", "eager"), operations.topic_added),
    "topic added kip-848": GroupCase(CONSUMER, operations.topic_added),
    "topic matches eager": GroupCase(MemberKind("confluent", "eager", pattern=True), operations.topic_matches),
    "topic matches kip-848": GroupCase(MemberKind("confluent", "consumer", pattern=True), operations.topic_matches),
    "offsets reset": GroupCase(MemberKind("confluent", "eager"), operations.offsets_reset),
    "overrun librdkafka": GroupCase(MemberKind("poller", "eager", poll_ms=POLL_MS), operations.exceed_poll_interval),
    "deployment eager": GroupCase(EAGER, operations.surge),
    "deployment kip-848": GroupCase(CONSUMER, operations.surge),
    # Java retries its commit to the deleted topic for max.poll.interval.ms before it rejoins: first the leader, which
    # notices the change, and then the others, which the leader's JoinGroup makes rejoin.
    "deleted topic eager": GroupCase(replace(EAGER, poll_ms=30_000), operations.deleted_topic),
    "deleted topic kip-848": GroupCase(CONSUMER, operations.deleted_topic),
    "migration from cooperative": GroupCase(COOPERATIVE, migration),
    "console-consumer-1": GroupCase(EAGER, operations.console),
    "console-consumer-2": GroupCase(MemberKind("confluent", "eager"), operations.console),
    "connect, worker restart": GroupCase(MemberKind("connect", "sessioned"), operations.worker_restart, life=Connect),
}
