"""Whether the events of a scenario can happen to their members, in this order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assignors.model import Topic
from streaming.simulate.scenario import Happening, InvalidScenario


@dataclass(slots=True)
class _Life:
    """What a process does: ``up``, ``left``, ``crashed``; and until when it is down."""

    state: str
    since: int
    back: int = 0


def check(events: Sequence[Happening], topics: Mapping[str, Topic], there: Iterable[str] = ()) -> None:
    """Every event is possible where it stands; members of ``there`` are in the group from the start.

    Raises:
        InvalidScenario: time goes backwards, or a member can't do what it is told to.
    """
    lives = {name: _Life("up", 0) for name in there}
    counts = {name: topic.partitions for name, topic in topics.items()}
    now = 0
    for event in events:
        if event.at < now:
            raise InvalidScenario(
                f"{event}: at: {event.at} is before {now} of the event above it; sort them by time"
            )
        now = event.at
        if event.kind == "partitions":
            for name, count in event.partitions.items():
                if count < counts[name]:
                    raise InvalidScenario(
                        f"{event}: partitions.{name}: {count} is fewer than its {counts[name]}; "
                        "Kafka takes no partition away"
                    )
                counts[name] = count
        elif event.member:
            _live(event, lives)


def _live(event: Happening, lives: dict[str, _Life]) -> None:
    name, kind = event.member, event.kind
    life = lives.get(name)
    if kind == "join":
        if life is not None and life.state == "up":
            raise InvalidScenario(
                f"{event}: join: {name!r} is a member since {life.since} ms; let it leave or crash first"
            )
        lives[name] = _Life("up", event.at)
        return
    if life is None:
        raise InvalidScenario(
            f"{event}: {kind}: {name!r} has not joined; a join with an earlier or equal at is needed"
        )
    if kind == "subscribe" and life.state == "left":
        lives[name] = _Life("up", event.at)  # as a consumer that unsubscribed and subscribes again
        return
    if life.state != "up":
        raise InvalidScenario(
            f"{event}: {kind}: {name!r} {life.state} at {life.since} ms; let it join again first"
        )
    if event.at < life.back and kind not in ("crash", "leave", "subscribe"):
        raise InvalidScenario(f"{event}: {kind}: {name!r} is down until {life.back} ms")
    if kind in ("bounce", "pause"):
        life.back = event.at + event.down_ms
    elif kind in ("crash", "leave"):
        lives[name] = _Life("crashed" if kind == "crash" else "left", event.at)
