"""The demo's consumers, and the times at which each consumer starts, leaves or crashes."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

Action = Literal["start", "leave", "crash"]


class Actor(NamedTuple):
    """One consumer of the demo; ``name`` is its client id."""

    name: str
    group: str
    topic: str
    #: Client library: ``confluent`` or ``kafka-python``; rebalance protocol: ``eager`` or ``cooperative``.
    client: str
    protocol: str


class ScheduledStep(NamedTuple):
    """A start, leave or crash of one consumer, ``at`` seconds after the first consumers start."""

    at: float
    action: Action
    name: str


TOPICS: dict[str, int] = {"orders": 6, "payments": 6}

_EAGER_GROUP = ("orders-eager", "orders", "eager")
_COOPERATIVE_GROUP = ("payments-cooperative", "payments", "cooperative")


def make_actors(prefix: str = "") -> dict[str, Actor]:
    """Return the demo's consumers by name; names of groups and topics begin with the prefix."""
    return {
        (name := f"{topic}-app-{number}"): Actor(name, f"{prefix}{group}", f"{prefix}{topic}", client, protocol)
        for group, topic, protocol in (_EAGER_GROUP, _COOPERATIVE_GROUP)
        for number, client in enumerate(("confluent", "kafka-python", "confluent"), 1)
    }


#: Session timeout, short enough that crashes are detected during the demo; Kafka's default is 45 s.
SESSION_TIMEOUT_MS = 6000

#: Steps in the first minute of the demo: scale-out, a crash, a graceful leave, and the rejoin of all consumers.
_FIRST_MINUTE_STEPS: tuple[ScheduledStep, ...] = (
    *(ScheduledStep(0, "start", f"{name}-app-{number}") for name in TOPICS for number in (1, 2)),
    ScheduledStep(6, "start", "orders-app-3"),
    ScheduledStep(12, "crash", "payments-app-1"),
    ScheduledStep(16, "leave", "orders-app-2"),
    ScheduledStep(20, "start", "payments-app-3"),
    ScheduledStep(22, "crash", "orders-app-1"),
    ScheduledStep(26, "leave", "payments-app-2"),
    ScheduledStep(39, "start", "payments-app-1"),
    ScheduledStep(42, "start", "orders-app-1"),
    ScheduledStep(47, "start", "payments-app-2"),
    ScheduledStep(50, "start", "orders-app-2"),
)
#: Steps in later minutes, which begin with all consumers: consumers that started late in the first minute leave.
_LATER_MINUTE_STEPS: tuple[ScheduledStep, ...] = (
    ScheduledStep(0, "leave", "payments-app-3"),
    ScheduledStep(3, "leave", "orders-app-3"),
    *(step for step in _FIRST_MINUTE_STEPS if step.at > 0),
)
_MINUTE_SECONDS = 60.0


def scheduled_steps(duration: float) -> Iterator[ScheduledStep]:
    """Yield the actions of a demo of ``duration`` seconds, ordered by time; they repeat every minute."""
    start = 0.0
    while start < duration:
        for step in _FIRST_MINUTE_STEPS if start == 0 else _LATER_MINUTE_STEPS:
            if start + step.at < duration:
                yield ScheduledStep(start + step.at, step.action, step.name)
        start += _MINUTE_SECONDS
