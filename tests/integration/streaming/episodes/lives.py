"""The lives that groups lead in the suite: what happens to each, and what it is to be called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.integration.streaming.episodes.life import POLL_MS, Life, Speaks

EAGER = Speaks("java", "eager", poll_ms=POLL_MS)
COOPERATIVE = Speaks("java", "cooperative", poll_ms=POLL_MS)
CONSUMER = Speaks("java", "consumer", poll_ms=POLL_MS)


def _beginning(life: Life) -> None:
    with life.step("first-start", came=("a", "b")):
        life.start("a", "b")
    with life.step("scale-out", came=("c",)):
        life.start("c")


def _end(life: Life) -> None:
    gone = tuple(life.subscribed)
    with life.step("shutdown", went=gone):
        life.leave(*gone)


def _crash(life: Life) -> None:
    with life.step("crash", went=("c",)):
        life.crash("c")


def _everything(life: Life) -> None:
    """All that can happen to a group of Java's consumers, but what its protocol does not have."""
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
    _end(life)


def _usual(life: Life) -> None:
    """What happens to any group."""
    _beginning(life)
    with life.step("rolling-restart", back=("a", "b")):
        life.roll("a", "b")
    with life.step("scale-in", went=("b",)):
        life.leave("b")
    _crash(life)
    _end(life)


def new_assignor(life: Life) -> None:
    """Members that prefer another assignor: the group uses it once most of them do."""
    _beginning(life)
    other = replace(life.speaks, assignors=tuple(reversed(life.speaks.assignors)))
    with life.step("assignor-change", back=("a", "b", "c")):
        life.roll("a", "b", "c", speaks=other)
    _end(life)


def migration(life: Life) -> None:
    """From the classic protocol to KIP-848, one member after the other."""
    _beginning(life)
    with life.step("protocol-migration", back=("a", "b", "c")):
        life.roll("a", "b", "c", speaks=replace(life.speaks, protocol="consumer"))
    _end(life)


def static(life: Life) -> None:
    """Members with instance ids: back in time nothing moves."""
    _beginning(life)
    with life.step("static-bounce", back=("b",)):
        life.roll("b")
    with life.step("static-bounce", back=("a", "b", "c")):
        life.roll("a", "b", "c")
    _crash(life)
    _end(life)


#: By name: how its members are made, and what happens.
LIVES: dict[str, tuple[Speaks, Callable[[Life], None]]] = {
    "java eager": (EAGER, _everything),
    "java cooperative": (COOPERATIVE, _everything),
    "java kip-848": (CONSUMER, _everything),
    "java static eager": (replace(EAGER, static=True), static),
    "java static kip-848": (replace(CONSUMER, static=True), static),
    "java new assignor": (replace(EAGER, assignors=("range", "roundrobin")), new_assignor),
    "java migration": (EAGER, migration),
}
