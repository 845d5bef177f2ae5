"""``python -m tests.support.memory_server``: the feed over generated groups, to look at the page.

``--live RATE`` keeps diffs coming, ``--stories`` tells episodes and incidents of them.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from streaming.records.codec import encode
from streaming.records.diffs import Diff
from streaming.records.events import Event
from streaming.serve.records import TopicRecord
from streaming.serve.server import FeedServer, ServeOptions
from tests.support.feed import ASSIGNMENTS, DIFFS, MemorySource, records
from tests.support.histories import Group
from tests.support.memory_stories import Stories

NAMES = ["orders", "payments", "search-indexer", "fraud-scoring", "email-digest", "clickstream", "ledger", "ml"]
ASSIGNORS = ("cooperative-sticky", "range", "cooperative-sticky")


class Deployed(Group):
    """A group whose members are copies of one program, each on its own host."""

    def join(self, member_id: str, *topics: str, **fields: Any) -> Event:
        names = {"client_id": f"{self.group_id}-app", "client_host": f"/10.1.0.{self.count % 250}"}
        return super().join(member_id, *topics, **names, **fields)


def made(number: int, partitions: int) -> Group:
    """Return the nth generated group, which has two topics."""
    round_, name = divmod(number, len(NAMES))
    group = f"{NAMES[name]}-{round_}" if round_ else NAMES[name]
    topics = {f"{group}.events": partitions, f"{group}.retries": max(1, partitions // 4)}
    return Deployed(group, topics, number, ASSIGNORS[number % len(ASSIGNORS)])


def shown(diff: Diff, timestamp: int) -> Diff:
    """Return the diff with a timestamp of its own; every eighth group is of another kind."""
    kind = "streams" if diff.group_id.startswith("ml") else UNSET
    return msgspec.structs.replace(diff, timestamp=timestamp, kind=kind)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--groups", type=int, default=24)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--live", type=float, default=0.0)
    parser.add_argument("--stories", action="store_true")
    parser.add_argument("--token-file", type=Path)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO)

    now = int(time.time() * 1000)
    groups = [made(number, options.partitions) for number in range(options.groups)]
    found = []
    for group in groups:
        past = group.diffs(options.rounds)
        shift = now - past[-1].timestamp - random.Random(group.group_id).randrange(1_000, 3_600_000)
        group.timestamp += shift
        found += [shown(diff, diff.timestamp + shift) for diff in past]
    source = MemorySource()
    found.sort(key=lambda diff: diff.timestamp)
    source.put(*records(found))
    stories = Stories() if options.stories else None
    if stories is not None:
        for diff in found:
            source.put(*stories.of(diff))
        source.put(*stories.rest(now))
    for group in groups:
        latest = encode(group.latest())
        source.put(TopicRecord(ASSIGNMENTS, 0, len(source.log), group.group_id.encode(), latest, None))
    server = FeedServer(
        source,
        ServeOptions(options.database, DIFFS, port=options.port, token_file=options.token_file),
        cluster_id="memory",
    )
    sys.stdout.write(f"serving {server.address}\n")
    sys.stdout.flush()
    if options.live:
        threading.Thread(target=live, args=(source, groups, options.live, stories), daemon=True).start()
    server.run()


def live(source: MemorySource, groups: list[Group], rate: float, stories: Stories | None) -> None:
    chooser = random.Random(7)
    while True:
        time.sleep(chooser.expovariate(rate))
        if stories is not None:
            source.put(*stories.rest(int(time.time() * 1000)))
        group = chooser.choice(groups)
        for diff in group.change():
            group.timestamp = int(time.time() * 1000)
            told = shown(diff, group.timestamp)
            source.put(*records([told], start=len(source.log)))
            if stories is not None:
                source.put(*stories.of(told))
            time.sleep(0.3)


if __name__ == "__main__":
    main()
