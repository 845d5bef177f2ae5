"""Serves the page over generated groups, without a broker: ``python -m tests.support.memory_server``.

``--live RATE`` adds RATE new diffs per second; ``--stories`` adds their episodes and incidents.
"""

import argparse
import logging
import random
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from streaming.episodes.fold import QUIET_TIME_MS
from streaming.episodes.story import partition_list
from streaming.records.codec import encode
from streaming.records.diffs import Diff
from streaming.records.episodes import Episode, Incident
from streaming.records.events import Event
from streaming.serve.clusters import ServeOptions
from streaming.serve.records import TopicRecord
from streaming.serve.server import FeedServer
from tests.support.diff_episodes import QuietNote, updates
from tests.support.feed import ASSIGNMENTS, MemorySource, diff_id, records, story
from tests.support.feed_server import served_cluster
from tests.support.histories import Group
from tests.support.incidents import incident


class StoryBuilder:
    """Builds the records of one group: its newest episodes, and an incident for unassigned partitions."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self._diffs_and_notes: list[tuple[str, Diff] | QuietNote] = []
        self._published = 0
        self._last: Diff
        self._open_diff: Diff | None = None
        self._incidents = 0

    def add(self, diff: Diff) -> Iterator[Episode | Incident]:
        """Return the records of episodes and incidents that change when this diff is added."""
        self._diffs_and_notes.append((diff_id(diff), diff))
        self._last = diff
        yield from self._episodes()
        if self._open_diff is not None and not diff.unassigned:
            yield self._incident(closed_at=diff.timestamp)
            self._open_diff = None

    def rest(self, now: int) -> Iterator[Episode | Incident]:
        """Yield the records that follow once no round has come for the quiet time."""
        last = self._last
        if now - last.timestamp <= QUIET_TIME_MS or isinstance(self._diffs_and_notes[-1], QuietNote):
            return
        self._diffs_and_notes.append(QuietNote(diff_id(last)))
        yield from self._episodes()
        # An empty group is quiet.
        if last.unassigned and any(member.present for member in last.members.values()):
            self._incidents += 1
            self._open_diff = last
            yield self._incident()

    def _episodes(self) -> Iterator[Episode]:
        episodes = list(updates(self.group_id, self._diffs_and_notes))
        yield from episodes[self._published :]
        self._published = len(episodes)

    def _incident(self, closed_at: int | None = None) -> Incident:
        assert self._open_diff is not None
        text = f"{partition_list(self._open_diff.unassigned)} of {self.group_id}: nobody owns them."
        return incident(
            self.group_id,
            self._incidents,
            kind="partition-without-owner",
            opened_at=self._open_diff.timestamp,
            closed_at=closed_at,
            partitions=self._open_diff.unassigned,
            story=text if closed_at is None else f"{text} Over.",
        )


class StoryTable:
    """Builds the episodes and incidents of all groups from their diffs, as topic records with offsets."""

    def __init__(self) -> None:
        self._story_builders: dict[str, StoryBuilder] = {}
        self._offset = 0

    def add(self, diff: Diff) -> list[TopicRecord]:
        """Return the records of episodes and incidents that change when this diff is added."""
        builder = self._story_builders.setdefault(diff.group_id, StoryBuilder(diff.group_id))
        return self._records(builder.add(diff))

    def rest(self, now: int) -> list[TopicRecord]:
        """Return the records that the stream writes for groups whose quiet time has passed at ``now``."""
        return [record for builder in self._story_builders.values() for record in self._records(builder.rest(now))]

    def _records(self, stories: Iterator[Episode | Incident]) -> list[TopicRecord]:
        records = []
        for value in stories:
            records.append(story(value, offset=self._offset))
            self._offset += 1
        return records


NAMES = ["orders", "payments", "search-indexer", "fraud-scoring", "email-digest", "clickstream", "ledger", "ml"]
ASSIGNORS = ("cooperative-sticky", "range", "cooperative-sticky")


class ReplicatedGroup(Group):
    """A group whose members are copies of one program, each copy on its own host."""

    def join(self, member_id: str, *topics: str, **fields: Any) -> Event:
        names = {"client_id": f"{self.group_id}-app", "client_host": f"/10.1.0.{self.count % 250}"}
        return super().join(member_id, *topics, **names, **fields)


def generated_group(number: int, partitions: int) -> Group:
    """Return the nth generated group, which consumes two topics."""
    round_, name = divmod(number, len(NAMES))
    group = f"{NAMES[name]}-{round_}" if round_ else NAMES[name]
    topics = {f"{group}.events": partitions, f"{group}.retries": max(1, partitions // 4)}
    return ReplicatedGroup(group, topics, number, ASSIGNORS[number % len(ASSIGNORS)])


def replace_timestamp(diff: Diff, timestamp: int) -> Diff:
    """Return a copy of the diff with this timestamp; groups named ``ml…`` become Streams groups."""
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
    groups = [generated_group(number, options.partitions) for number in range(options.groups)]
    diffs = []
    for group in groups:
        past = group.diffs(options.rounds)
        shift = now - past[-1].timestamp - random.Random(group.group_id).randrange(1_000, 3_600_000)
        group.timestamp += shift
        diffs += [replace_timestamp(diff, diff.timestamp + shift) for diff in past]
    source = MemorySource(cluster_id="memory")
    diffs.sort(key=lambda diff: diff.timestamp)
    source.put(*records(diffs))
    stories = StoryTable() if options.stories else None
    if stories is not None:
        for diff in diffs:
            source.put(*stories.add(diff))
        source.put(*stories.rest(now))
    for group in groups:
        latest = encode(group.latest())
        source.put(TopicRecord(ASSIGNMENTS, 0, len(source.log), group.group_id.encode(), latest, None))
    settings = ServeOptions(options.database, port=options.port, token_file=options.token_file)
    server = FeedServer([served_cluster(source, settings)], settings)
    sys.stdout.write(f"serving {server.address}\n")
    sys.stdout.flush()
    if options.live:
        threading.Thread(target=live, args=(source, groups, options.live, stories), daemon=True).start()
    server.run()


def live(source: MemorySource, groups: list[Group], rate: float, stories: StoryTable | None) -> None:
    rng = random.Random(7)
    while True:
        time.sleep(rng.expovariate(rate))
        if stories is not None:
            source.put(*stories.rest(int(time.time() * 1000)))
        group = rng.choice(groups)
        for diff in group.change():
            group.timestamp = int(time.time() * 1000)
            current = replace_timestamp(diff, group.timestamp)
            source.put(*records([current], start=len(source.log)))
            if stories is not None:
                source.put(*stories.add(current))
            time.sleep(0.3)


if __name__ == "__main__":
    main()
