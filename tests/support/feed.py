"""Provides the web application over a source in memory, without a broker, and records for that source."""

import threading
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from anyio import CapacityLimiter
from starlette.types import ASGIApp

from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.records.codec import Record, ce_attributes, encode, encode_event, headers
from streaming.records.diffs import Diff
from streaming.records.episodes import Episode, Incident, key
from streaming.records.events import Event
from streaming.serve.app import build
from streaming.serve.archive import Archive
from streaming.serve.board import Board, FeedStatus, Stale
from streaming.serve.clusters import Cluster, ServeOptions
from streaming.serve.feed import Feed, FeedTimes
from streaming.serve.history import STORIES, History
from streaming.serve.records import TopicRecord
from streaming.serve.security import Access
from streaming.serve.source import Source
from streaming.serve.stories import Sort
from tests.support.built_diffs import DiffBuilder
from tests.support.compacted import episode_updates, latest
from tests.support.pure_stream import SINKS

EPISODES = "rebalance.episodes"
INCIDENTS = "rebalance.incidents"
DIFFS = "rebalance.diffs"
ASSIGNMENTS = "rebalance.assignments"


def diff_id(diff: Diff) -> str:
    """Return a diff id computed from group, generation and round alone, as the stream computes it."""
    return f"{diff.group_id}:{diff.generation}:{diff.round}"


def records(diffs: Iterable[Diff], *, start: int = 0, partition: int = 0) -> list[TopicRecord]:
    """Return the diffs as records of one partition of the diff topic."""
    return [
        TopicRecord(DIFFS, partition, offset, diff.group_id.encode(), encode(diff), diff_id(diff))
        for offset, diff in enumerate(diffs, start)
    ]


def message(diff: Diff) -> dict[str, object]:
    """Return key, value and headers of a diff's record, as arguments for ``Producer.produce``."""
    return {
        "key": diff.group_id.encode(),
        "value": encode(diff),
        "headers": headers("rebalance.diff", "/test", diff_id(diff), diff.timestamp),
    }


def story(value: Episode | Incident, *, offset: int = 0) -> TopicRecord:
    """Return the record of an episode or incident, with a record id computed from the content."""
    number, topic = (value.episode, EPISODES) if isinstance(value, Episode) else (value.incident, INCIDENTS)
    body = encode(value)
    made = f"{value.group_id}:{zlib.crc32(body)}"
    return TopicRecord(topic, 0, offset, key(value.group_id, number), body, made)


def stories(builder: DiffBuilder, *, start: int = 0, over: bool = True) -> list[TopicRecord]:
    """Return every update of every episode of a group, as records of the topic."""
    return [story(episode, offset=offset) for offset, episode in enumerate(episode_updates(builder, over=over), start)]


def assignment(builder: DiffBuilder) -> TopicRecord:
    """Return the latest assignment of a group as a record of the topic."""
    return TopicRecord(ASSIGNMENTS, 0, 0, builder.group_id.encode(), encode(latest(builder)), None)


@dataclass
class MemorySource:
    """A source of records in memory: a poll returns the records from the consumer's positions on."""

    log: list[TopicRecord] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=lambda: {DIFFS: "t-1"})
    read: int = 0
    arrived: threading.Event = field(default_factory=threading.Event)
    batch: int = 500
    positions: dict[tuple[str, int], int] = field(default_factory=dict)
    stale: Stale | None = None
    cluster_id: str = "c"
    topics: tuple[str, ...] = (DIFFS, ASSIGNMENTS)
    stories: Mapping[str, Sort] = field(default_factory=lambda: STORIES)

    def open(self, positions: Mapping[tuple[str, int], int], ids: Mapping[str, str]) -> None:
        self.positions = dict(positions) if {**self.ids, **ids} == self.ids else {}
        self.read = 0

    def replace_topic(self, topic_id: str, *records: TopicRecord) -> None:
        """Replace the diff topic by a new one with this topic id and these records."""
        self.log, self.read, self.positions = list(records), 0, {}
        self.ids = {DIFFS: topic_id}

    def put(self, *records: TopicRecord) -> None:
        self.log.extend(records)
        self.arrived.set()

    def poll(self, timeout: float) -> list[TopicRecord]:
        if self.read >= len(self.log):
            self.arrived.wait(timeout)
            self.arrived.clear()
        records = self.log[self.read : self.read + self.batch]
        self.read += len(records)
        return [row for row in records if row.offset >= self.positions.get((row.topic, row.partition), 0)]

    @property
    def caught_up(self) -> bool:
        return self.read >= len(self.log)

    @property
    def whole(self) -> frozenset[Sort]:
        return frozenset({"episode", "incident"} if self.caught_up else ())

    @property
    def lag(self) -> int:
        return len(self.log) - self.read

    def publish(self, event: Event) -> None:
        """Write an annotation (a mark on the timeline) to the incidents topic, as the stream would."""
        for write in process(Bucket(), [Record.of(0, 0, *encode_event(event))], 0, SINKS):
            ce = ce_attributes(write.headers)
            self.put(TopicRecord(INCIDENTS, 0, len(self.log), write.key, write.value, ce["id"], 0, ce["type"]))

    def close(self) -> None:
        self.arrived.set()


@dataclass
class FailingSource(MemorySource):
    """A source whose cluster stops answering, or whose reader fails, while ``error`` is set."""

    error: BaseException | None = None

    def connect(self) -> Source:
        if self.error is not None:
            raise self.error
        return cast("Source", self)

    def poll(self, timeout: float) -> list[TopicRecord]:
        if self.error is not None:
            raise self.error
        return super().poll(timeout)


def connected_cluster(history: History, name: str = "", **options: Any) -> Cluster:
    """Return a :class:`Cluster` whose API serves this history, and which reads no topic."""
    board = Board(history.round_range, history.groups, history.current_stories)
    board.progress(FeedStatus(whole=frozenset(options.pop("whole", ()))))
    board.lags = options.pop("lags", dict)
    feed = Feed(board, Archive(history.path), CapacityLimiter(2), FeedTimes())
    cluster = cluster_of(feed, name)
    cluster.publish = options.pop("publish", lambda _: None)
    return cluster


def cluster_of(feed: Feed | None, name: str = "") -> Cluster:
    """Return a cluster with this feed; None: a cluster without a connection to Kafka."""
    cluster = Cluster(lambda: cast("Source", None), ServeOptions(), name=name)
    cluster.feed, cluster.cluster_id = feed, "c" if feed else None
    return cluster


def service(*histories: History, names: Sequence[str] = ("",), **options: Any) -> ASGIApp:
    """Return the application over the histories of clusters with these names."""
    common = {name: options.pop(name) for name in ("whole", "lags", "publish") if name in options}
    clusters = [connected_cluster(history, name, **common) for history, name in zip(histories, names, strict=True)]
    if (token := options.pop("token", None)) is not None:
        options["access"] = Access(lambda: [token])
    host = "127.0.0.1" if options.pop("loopback_only", True) else "feed.internal"
    access = options.pop("access", Access())
    return build(clusters, ServeOptions(host=host, **{"max_clients": 10} | options), access)
