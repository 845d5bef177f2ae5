"""The demo's consumers, and the times at which each consumer starts, leaves or crashes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Action = Literal["start", "leave", "crash"]


@dataclass(frozen=True, slots=True)
class Actor:
    """One consumer of the demo; ``name`` is its client id."""

    name: str
    group: str
    topic: str
    #: Client library: ``confluent`` or ``kafka-python``; rebalance protocol: ``eager`` or ``cooperative``.
    client: str
    protocol: str


@dataclass(frozen=True, slots=True)
class Scene:
    """One step of the story, ``at`` seconds after the first consumers start."""

    at: float
    action: Action
    name: str


TOPICS: dict[str, int] = {"orders": 6, "payments": 6}

_EAGER = ("orders-eager", "orders", "eager")
_COOPERATIVE = ("payments-cooperative", "payments", "cooperative")


def cast(prefix: str = "") -> dict[str, Actor]:
    """Return the consumers by name; their groups and topics have the prefix."""
    return {
        f"{topic}-{number}": Actor(f"{topic}-{number}", f"{prefix}{group}", f"{prefix}{topic}", client, protocol)
        for group, topic, protocol in (_EAGER, _COOPERATIVE)
        for number, client in enumerate(("confluent", "kafka-python", "confluent"), 1)
    }


#: Session timeout, short enough that crashes are detected during the demo; Kafka's default is 45 s.
SESSION_TIMEOUT_MS = 6000

#: Steps in the first minute of the story: scale-out, a graceful leave, a crash, and the rejoin of all consumers.
_ROUND: tuple[Scene, ...] = (
    *(Scene(0, "start", name) for name in ("orders-1", "orders-2", "payments-1", "payments-2")),
    Scene(8, "start", "payments-3"),
    Scene(11, "start", "orders-3"),
    Scene(16, "leave", "orders-2"),
    Scene(20, "leave", "payments-2"),
    Scene(25, "crash", "payments-3"),
    Scene(27, "crash", "orders-1"),
    Scene(39, "start", "payments-2"),
    Scene(42, "start", "orders-1"),
    Scene(47, "start", "payments-3"),
    Scene(50, "start", "orders-2"),
)
#: Steps in later minutes, which begin with all consumers: consumers that started late in the first minute leave.
_AGAIN: tuple[Scene, ...] = (
    Scene(0, "leave", "payments-3"),
    Scene(3, "leave", "orders-3"),
    *(step for step in _ROUND if step.at > 0),
)
ROUND_SECONDS = 60.0


def steps(duration: float) -> Iterator[Scene]:
    """Yield the steps of a demo that lasts ``duration`` seconds, in order of time; the story repeats every minute."""
    start = 0.0
    while start < duration:
        for step in _ROUND if start == 0 else _AGAIN:
            if start + step.at < duration:
                yield Scene(start + step.at, step.action, step.name)
        start += ROUND_SECONDS
