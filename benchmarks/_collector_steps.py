"""What a step of one member of a KIP-848 group costs the collector, and the bytes of a rolling restart."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from benchmarks import _document
from streaming.collect.fold import Fold, Found, Row
from streaming.wire import codec
from tests.support.epoch_log import EpochLog, wave

#: Partitions of each member, in ten topics.
_SHARE = 10
_TOPICS = 10


class Step(NamedTuple):
    """One step: processor time in ms (the median), and the bytes of its event (the mean, as some have none)."""

    ms: float
    event: float


def group(members: int) -> tuple[EpochLog, list[str]]:
    """A group that is about to begin, and its members' ids."""
    topics = {f"topic-{number}": members * _SHARE // _TOPICS for number in range(_TOPICS)}
    return EpochLog(topics), [f"group-member-{number:05d}-0a1b2c3d" for number in range(members)]


def taken(fold: Fold, rows: Iterable[Row]) -> int:
    """The bytes of what follows from these rows, keys and headers with them."""
    found = [item for row in rows for item in fold.add(row)] + fold.settle()
    return sum(
        codec.record_bytes(*codec.encode_event(item.event)) for item in found if isinstance(item, Found)
    )


def step(members: int, changes_from: int, count: int = 200) -> Step:
    """One member after the other hears of an epoch, as after somebody has left."""
    log, ids = group(members)
    fold = Fold("kafka://c/__consumer_offsets", 0, log.names.__getitem__, changes_from=changes_from)
    taken(fold, [*log.join(*ids), *log.leave(ids[-1])])
    spent, sizes = [], []
    for turn in range(count):
        rows = log.beat(ids[turn % (members - 1)])
        if not rows:
            taken(fold, log.join(f"{ids[-1]}-{turn}"))
            rows = log.beat(ids[turn % (members - 1)])
        begun = time.process_time()
        size = taken(fold, rows)
        spent.append((time.process_time() - begun) * 1000)
        sizes.append(size)
    return Step(statistics.median(spent), statistics.fmean(sizes))


def restarted(members: int, waves: int) -> tuple[int, int]:
    """A rolling restart in so many waves, all members heard in each epoch.

    Returns:
        The bytes of the coordinator's own records, and those on the membership topic.
    """
    log, ids = group(members)
    fold = Fold("kafka://c/__consumer_offsets", 0, log.names.__getitem__, changes_from=1)
    taken(fold, [*log.join(*ids), *log.settle()])
    own = told = 0
    for rows in _waves(log, ids, waves):
        own += sum(len(row.key or b"") + len(row.value or b"") for row in rows)
        told += taken(fold, rows)
    return own, told


def _waves(log: EpochLog, ids: list[str], waves: int) -> Iterator[list[Row]]:
    for some in _some(ids, max(1, len(ids) // waves)):
        yield from wave(log, some)


def _some(ids: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(ids), size):
        yield ids[start : start + size]


def table() -> str:
    """Both tables."""
    rows = []
    for members in (20, 200, 2000):
        full, changed = step(members, 0), step(members, 1)
        rows.append(
            [
                str(members),
                f"{full.ms:.3f}",
                f"{changed.ms:.3f}",
                f"{full.ms / changed.ms:.0f}",
                f"{full.event:,.0f}",
                f"{changed.event:,.0f}",
                f"{full.event / changed.event:.0f}",
            ]
        )
    steps = _document.table(
        ["members", "full, ms", "changed, ms", "ratio", "full, bytes", "changed, bytes", "ratio"], rows
    )
    restarts = _document.table(
        ["members", "waves", "coordinator's own bytes", "of the row above", "bytes told", "of the row above"],
        [*_restarts((250, 500, 1000), 10), *_restarts((125, 250, 500), None)],
    )
    return (
        "One member of a KIP-848 group of 10 partitions a member hears of an epoch: processor time of its record "
        f"to the event's bytes (median of 200), and the bytes a record (mean).\n\n{steps}\n\n"
        "A rolling restart of such a group, in ten waves or member by member, every member heard in each of its "
        "epochs. Each tells the coordinator that it has reached each epoch: member by member that is a record of "
        "every member for every other in the coordinator's own log; what is told names those that are late, if "
        f"few.\n\n{restarts}"
    )


def _restarts(sizes: Iterable[int], waves: int | None) -> Iterator[list[str]]:
    """A row a size; ``waves`` None: member by member."""
    before: tuple[int, int] | None = None
    for members in sizes:
        found = restarted(members, waves or members)
        growth = (
            ("–", "–")
            if before is None
            else tuple(f"{now / was:.2f}" for now, was in zip(found, before, strict=True))
        )
        yield [str(members), str(waves or members), f"{found[0]:,}", growth[0], f"{found[1]:,}", growth[1]]
        before = found
