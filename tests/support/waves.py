"""A large group whose members go and come back many at once, as its collector tells it."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from streaming.collect.fold import Fold, Found, Row
from streaming.wire.events import Event, PartitionsChanged, TopicMetadata
from tests.support.epoch_log import EpochLog

_TOPICS = {"t0": 90, "t1": 60}
_MEMBERS = 50


def waves(seed: int, count: int = 3, *, grow: float = 0.01) -> list[Event]:
    """Events of group ``g``: so many waves by chance; ``grow``: how likely a topic grows before a step."""
    chance, log = Random(seed), EpochLog(_TOPICS)
    fold = Fold("kafka://c/__consumer_offsets", 0, log.names.__getitem__, changes_from=1)
    events = [_topics(0, _TOPICS)]
    for number, rows in enumerate(_waves(chance, log, count)):
        if chance.random() < grow:
            events.append(_topics(number + 1, _TOPICS | {"t1": 60 + number}))
        told = [item for row in rows for item in fold.add(row)] + fold.settle()
        events += [item.event for item in told if isinstance(item, Found)]
    return events


def _waves(chance: Random, log: EpochLog, count: int) -> Iterator[list[Row]]:
    yield log.join(*(f"m{number:02d}" for number in range(_MEMBERS)))
    yield from log.beats()
    for number in range(count):
        some = chance.sample(sorted(log.members), chance.randint(3, 30))
        yield log.leave(*some)
        yield from _heard(chance, log)
        yield log.join(*(f"{one[:3]}-{number}" for one in some))
        yield from _heard(chance, log)
    yield from log.beats()


def _heard(chance: Random, log: EpochLog) -> Iterator[list[Row]]:
    """Members are heard in any order; what comes next may come before all have arrived."""
    for _ in range(chance.randint(20, 120)):
        if rows := log.beat(chance.choice(sorted(log.members))):
            yield rows


def _topics(number: int, counts: dict[str, int]) -> Event:
    topics = {name: TopicMetadata(partitions=count) for name, count in counts.items()}
    return Event("topics", str(number), PartitionsChanged(group_id="g", timestamp=0, topics=topics))
