"""The group histories of the suite: changes of each group, and the expected kind of each episode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic

from tests.acceptance.situations import operations
from tests.acceptance.situations.applications import Connect, Streams
from tests.acceptance.situations.life import POLL_MS, Life, Speaks
from tests.support.wait import eventually

EAGER = Speaks("java", "eager", poll_ms=POLL_MS)
COOPERATIVE = replace(EAGER, protocol="cooperative")
CONSUMER = replace(EAGER, protocol="consumer")
STATIC = replace(EAGER, static=True)
PLACED = Speaks("kafka-python", "eager", placed=True)
RACKS = (("a", "z1"), ("b", "z1"), ("c", "z2"), ("d", "z2"))
TEN = tuple(f"m{number}" for number in range(10))


def _beginning(life: Life) -> None:
    with life.step("first-start", came=("a", "b")):
        life.start("a", "b")
    with life.step("scale-out", came=("c",)):
        life.start("c")


def _crash(life: Life) -> None:
    with life.step("crash", went=("c",)):
        life.crash("c")


def _everything(life: Life) -> None:
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


def _usual(life: Life) -> None:
    """Apply the changes that every group supports."""
    _beginning(life)
    with life.step("rolling-restart", back=("a", "b"), may=("restart",)):
        life.roll("a", "b")
    with life.step("scale-in", went=("b",)):
        life.leave("b")
    _crash(life)
    operations.end(life)


def new_assignor(life: Life) -> None:
    """Replace members by ones that prefer another assignor; the group uses it once most of them do."""
    _beginning(life)
    other = replace(life.speaks, assignors=tuple(reversed(life.speaks.assignors)))
    with life.step("assignor-change", back=("a", "b", "c")):
        life.roll("a", "b", "c", speaks=other)
    operations.end(life)


def migration(life: Life) -> None:
    """Migrate from the classic protocol to KIP-848, one member after the other."""
    _beginning(life)
    with life.step("protocol-migration", back=("a", "b", "c")):
        life.roll("a", "b", "c", speaks=replace(life.speaks, protocol="consumer"))
    operations.end(life)


def static(life: Life) -> None:
    """Restart members with instance ids: if they rejoin in time, no partition moves."""
    _beginning(life)
    with life.step("static-bounce", back=("b",)):
        life.roll("b")
    with life.step("static-bounce", back=("a", "b", "c")):
        life.roll("a", "b", "c")
    _crash(life)
    operations.end(life)


def static_rollouts(life: Life) -> None:
    """Run three rollouts of static members."""
    with life.step("first-start", came=("a", "b", "c")):
        life.start("a", "b", "c")
    for _ in range(3):
        with life.step("static-bounce", back=("a", "b", "c")):
            life.roll("a", "b", "c")
    operations.end(life)


def ten(life: Life) -> None:
    """Restart ten members one by one."""
    with life.step("first-start", came=TEN):
        life.start(*TEN)
    with life.step("static-bounce" if life.speaks.static else "rolling-restart", back=TEN):
        life.roll(*TEN)
    operations.end(life)


def scales_twice(life: Life) -> None:
    """Scale a healthy group out and in."""
    with life.step("first-start", came=("a", "b")):
        life.start("a", "b")
    with life.step("scale-out", came=("c", "d")):
        life.start("c", "d")
    with life.step("scale-in", went=("a", "d")):
        life.leave("a", "d")
    operations.end(life)


def one_join(life: Life) -> None:
    """Let one member join another."""
    with life.step("first-start", came=("a",)):
        life.start("a")
    with life.step("scale-out", came=("b",)):
        life.start("b")
    operations.end(life)


def storm(life: Life, kills: int = 3, every: float = 0) -> None:
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


def long_storm(life: Life) -> None:
    """Run a storm of three minutes."""
    storm(life, kills=9, every=20)


def connectors(life: Life) -> None:
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


def streams(life: Life) -> None:
    """Run a Kafka Streams application; under the classic protocol its threads send no LeaveGroup."""
    a, b, c = map(Streams.thread, "abc")
    with life.step("first-start", came=(a, b)):
        life.start(a, b)
    with life.step("scale-out", came=(c,)):
        life.start(c)
    with life.step("rolling-restart", back=(a, b, c)):
        life.roll(a, b, c)
    with life.step("crash", went=(c,)):
        life.crash(c)
    goodbye = life.speaks.protocol == "streams"
    with life.step("scale-in" if goodbye else "crash", went=(b,)):
        life.leave(b)
    with life.step("shutdown" if goodbye else "crash", went=(a,)):
        life.leave(a)


@dataclass(frozen=True)
class Led:
    """A group history: the clients of its members, and its changes."""

    speaks: Speaks
    happens: Callable[[Life], None]
    partitions: int = 6
    life: type[Life] = Life


def _python(client: str, protocol: str) -> Led:
    return Led(Speaks(client, protocol, listened=protocol != "consumer"), _usual)


LIVES: dict[str, Led] = {
    "java eager": Led(EAGER, _everything),
    "java cooperative": Led(COOPERATIVE, _everything),
    "java kip-848": Led(CONSUMER, _everything),
    "java static eager": Led(STATIC, static),
    "java static kip-848": Led(replace(STATIC, protocol="consumer"), static),
    "java new assignor": Led(replace(EAGER, assignors=("range", "roundrobin")), new_assignor),
    "java migration": Led(EAGER, migration),
    "java scales twice": Led(EAGER, scales_twice),
    "java kip-848, one join": Led(CONSUMER, one_join),
    "confluent kip-848, one join": Led(Speaks("confluent", "consumer"), one_join),
    "ten eager": Led(EAGER, ten, partitions=20),
    "ten cooperative": Led(COOPERATIVE, ten, partitions=20),
    "ten static": Led(STATIC, ten, partitions=20),
    "ten kip-848": Led(CONSUMER, ten, partitions=20),
    "confluent eager": _python("confluent", "eager"),
    "confluent cooperative": _python("confluent", "cooperative"),
    "confluent kip-848": _python("confluent", "consumer"),
    "kafka-python eager": _python("kafka-python", "eager"),
    "kafka-python cooperative": _python("kafka-python", "cooperative"),
    "storm eager": Led(Speaks("confluent", "eager"), storm),
    "storm kip-848": Led(Speaks("confluent", "consumer"), storm),
    "storm for three minutes": Led(Speaks("confluent", "cooperative"), long_storm),
    "connect": Led(Speaks("connect", "sessioned"), connectors, life=Connect),
    "streams classic": Led(Speaks("streams", "classic"), streams, life=Streams),
    "streams kip-1071": Led(Speaks("streams", "streams"), streams, life=Streams),
    "three rollouts eager": Led(EAGER, operations.rollouts),
    "three rollouts cooperative": Led(COOPERATIVE, operations.rollouts),
    "three rollouts kip-848": Led(CONSUMER, operations.rollouts),
    "three rollouts static": Led(STATIC, static_rollouts),
    "twenty cooperative": Led(COOPERATIVE, operations.twenty, partitions=40),
    "twenty kip-848": Led(CONSUMER, operations.twenty, partitions=40),
    "shared instance id": Led(STATIC, operations.shared_instance),
    "rejoins eager": Led(EAGER, operations.rejoins),
    "rejoins cooperative": Led(COOPERATIVE, operations.rejoins),
    "one requested rebalance": Led(EAGER, operations.one_request),
    "overtaken start eager": Led(EAGER, operations.overtaken, partitions=16),
    "overtaken start cooperative": Led(COOPERATIVE, operations.overtaken, partitions=16),
    "overtaken start kip-848": Led(CONSUMER, operations.overtaken, partitions=16),
    "visitors eager": Led(EAGER, operations.visitors),
    "visitors kip-848": Led(CONSUMER, operations.visitors),
    "start and leave eager": Led(EAGER, operations.start_and_leave),
    "start and leave kip-848": Led(CONSUMER, operations.start_and_leave),
    "killed eager": Led(EAGER, operations.killed),
    "killed cooperative": Led(COOPERATIVE, operations.killed),
    "killed kip-848": Led(Speaks("confluent", "consumer"), operations.killed),
    "recreated eager": Led(EAGER, operations.recreated),
    "recreated cooperative": Led(COOPERATIVE, operations.recreated),
    "recreated kip-848": Led(CONSUMER, operations.recreated),
    "recreated elsewhere": Led(PLACED, operations.recreated_elsewhere),
    "surge": Led(PLACED, operations.surge),
    "fleet replaced": Led(PLACED, operations.fleet_replaced),
    "zone lost": Led(Speaks("confluent", "consumer", racks=RACKS), operations.zone_lost),
    "topic added eager": Led(Speaks("confluent", "eager"), operations.topic_added),
    "topic added kip-848": Led(CONSUMER, operations.topic_added),
    "topic matches eager": Led(Speaks("confluent", "eager", pattern=True), operations.topic_matches),
    "topic matches kip-848": Led(Speaks("confluent", "consumer", pattern=True), operations.topic_matches),
    "offsets reset": Led(Speaks("confluent", "eager"), operations.offsets_reset),
    "overrun librdkafka": Led(Speaks("poller", "eager", poll_ms=POLL_MS), operations.overrun),
    "deployment eager": Led(EAGER, operations.surge),
    "deployment kip-848": Led(CONSUMER, operations.surge),
    # Java retries its commit to the deleted topic for max.poll.interval.ms before it rejoins: first the leader, which
    # notices the change, and then the others, which the leader's JoinGroup makes rejoin.
    "deleted topic eager": Led(replace(EAGER, poll_ms=30_000), operations.deleted_topic),
    "deleted topic kip-848": Led(CONSUMER, operations.deleted_topic),
    "migration from cooperative": Led(COOPERATIVE, migration),
    "console-consumer-1": Led(EAGER, operations.console),
    "console-consumer-2": Led(Speaks("confluent", "eager"), operations.console),
    "connect, worker restart": Led(Speaks("connect", "sessioned"), operations.worker_restart, life=Connect),
}
