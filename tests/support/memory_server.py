"""``python -m tests.support.memory_server``: the feed over made-up groups, to look at the page while writing it.

``--live RATE`` keeps diffs coming.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import random
import sys
import threading
import time
from pathlib import Path

import msgspec

from streaming.serve.history import Record
from streaming.serve.server import FeedServer, ServeOptions
from streaming.wire.codec import encode
from streaming.wire.events import Diff
from tests.support.feed import ASSIGNMENTS, MemorySource, records
from tests.support.histories import Group

NAMES = (
    "orders",
    "payments",
    "search-indexer",
    "fraud-scoring",
    "email-digest",
    "clickstream",
    "ledger",
    "ml",
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--groups", type=int, default=24)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--large", type=int, nargs=2, metavar=("PARTITIONS", "ROUNDS"))
    parser.add_argument("--live", type=float, default=0.0)
    parser.add_argument("--token-file", type=Path)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO)

    now = int(time.time() * 1000)
    groups = []
    for index in range(options.groups):
        name = f"{NAMES[index % len(NAMES)]}-{index // len(NAMES)}" if index >= len(NAMES) else NAMES[index]
        topics = {f"{name}.events": options.partitions, f"{name}.retries": max(1, options.partitions // 4)}
        assignor = ("cooperative-sticky", "range", "cooperative-sticky")[index % 3]
        groups.append(Group(name, topics, index, assignor))
    made = [group.diffs(options.rounds) for group in groups]
    if options.large:
        partitions, rounds = options.large
        large = Group("large", {"large.events": partitions}, 1)
        made.append(large.diffs(rounds))
        groups.append(large)
    for group, found in zip(groups, made, strict=True):
        shift = now - found[-1].timestamp - random.Random(group.group_id).randrange(1_000, 3_600_000)
        group.timestamp += shift
        made[groups.index(group)] = [_at(diff, diff.timestamp + shift) for diff in found]
    source = MemorySource()
    merged = sorted(itertools.chain(*made), key=lambda diff: diff.timestamp)
    source.put(*records(merged))
    for group in groups:
        source.put(
            Record(ASSIGNMENTS, 0, len(source.log), group.group_id.encode(), encode(group.latest()), None)
        )
    server = FeedServer(
        source,
        ServeOptions(options.database, "rebalance.diffs", port=options.port, token_file=options.token_file),
        cluster_id="memory",
    )
    sys.stdout.write(f"serving {server.address}\n")
    sys.stdout.flush()
    if options.live:
        threading.Thread(target=_live, args=(source, groups, options.live), daemon=True).start()
    server.run()


def _at(diff: Diff, timestamp: int) -> Diff:
    return msgspec.structs.replace(diff, timestamp=timestamp)


def _live(source: MemorySource, groups: list[Group], rate: float) -> None:
    chooser = random.Random(7)
    while True:
        time.sleep(chooser.expovariate(rate))
        group = chooser.choice(groups)
        for diff in group.change():
            late = _at(diff, int(time.time() * 1000))
            group.timestamp = late.timestamp
            source.put(*records([late], start=len(source.log)))
            time.sleep(0.3)


if __name__ == "__main__":
    main()
