"""Runs the stream without Spark: the pure monitor follows a real membership topic, with timers."""

import threading
import time
from collections import defaultdict
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Self

import msgspec
from confluent_kafka import Consumer, TopicPartition

from streaming.episodes.fold import cost_of_episode
from streaming.episodes.state import EpisodeState
from streaming.kafka.topics import ensure_topics
from streaming.monitor import episodes
from streaming.monitor.bucket import expire, process
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import OutputRecord, Sinks, write_event
from streaming.records import codec
from streaming.records.codec import Record
from streaming.records.diffs import Diff, LatestAssignment
from streaming.records.episodes import Episode, Incident, decode_episode, decode_incident
from streaming.records.events import Event, GroupObserved, MemberJoined
from streaming.settings.config import Settings
from tests.support.members import Share
from tests.support.pure_stream import SINKS
from tests.support.wait import TIMEOUT_SECONDS

#: Protects the decoders: msgspec builds a decoder on first use, which is not thread-safe.
_decoding_lock = threading.Lock()
_diffs = msgspec.json.Decoder(Diff)
_assignment_decoder = msgspec.json.Decoder(LatestAssignment)


def _can_end(state: EpisodeState) -> bool:
    """Return true if the quiet time ends the episode: the group does not wait and has caught up."""
    return not (state.waiting or state.awaited or state.rebalancing or cost_of_episode(state)[1])


class LiveStream:
    """A context manager that reads a membership topic from its beginning in a thread, as the stream does.

    It creates the monitor's topics if they are missing. Session timers count from the time when a heartbeat was read.

    Attributes:
        events: all events that were read, and all that the session timers wrote.
        diffs: the resulting diffs.
        by_id: the same diffs by id.
        assignments: the latest assignment of each group.
        names: client id of each member id.
        batch_seconds: how long each batch waits for events.
    """

    batch_seconds = 0.1

    def __init__(self, settings: Settings, sinks: Sinks = SINKS) -> None:
        self._sinks = sinks
        self.events: list[Event] = []
        self.diffs: list[Diff] = []
        self.by_id: dict[str, Diff] = {}
        self.assignments: dict[str, LatestAssignment] = {}
        self.names: dict[str, str] = {}
        self._episodes: dict[str, dict[int, Episode]] = defaultdict(dict)
        self._incidents: dict[str, dict[int, Incident]] = defaultdict(dict)
        self._rest_queries: SimpleQueue[tuple[str, Future[bool]]] = SimpleQueue()
        self._bucket = Bucket()
        self._consumer = Consumer(
            {"bootstrap.servers": settings.kafka.bootstrap_servers, "group.id": "unused", "log_level": 0}
        )
        topic = settings.topics.membership
        ensure_topics(settings)
        partitions = self._consumer.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        self._ends = threading.Event()
        self._reader_pool = ThreadPoolExecutor(1)
        self._read = self._reader_pool.submit(self._follow)

    def _follow(self) -> None:
        while not self._ends.is_set():
            self._round()

    def _round(self) -> None:
        """Apply the membership events that have arrived since the last call."""
        now = time.time_ns() // 1_000_000
        records = [
            Record.of(message.partition(), message.offset(), message.key(), message.value(), message.headers())
            for message in self._consumer.consume(1000, self.batch_seconds)
            if message.error() is None
        ]
        self._apply(records, now)
        self._bucket = Bucket(self._bucket.pack())  # packed and unpacked as between two batches
        written = expire(self._bucket, now, self._sinks)
        results: list[tuple[Future[bool], bool]] = []
        with suppress(Empty):
            while True:
                group, future = self._rest_queries.get_nowait()
                tracked = self._bucket.get(group)
                state = tracked.episode
                is_quiet = state is not None and _can_end(state)
                quiet = episodes.due_quiet_events(group, tracked, tracked.quiet_at, self._sinks) if is_quiet else []
                written += [write_event(event, self._sinks) for event in quiet]
                results.append((future, is_quiet))
        self._apply([Record.of(-1, -1, write.key, write.value, write.headers) for write in written], now)
        for future, is_quiet in results:
            future.set_result(is_quiet)

    def _apply(self, records: list[Record], now: int) -> None:
        if records:
            with _decoding_lock:
                self._process(records, now)

    def _process(self, records: list[Record], now: int) -> None:
        events = [codec.read(record) for record in records]
        for event in events:
            self._name(event)
        self.events += events
        for write in process(self._bucket, records, now, self._sinks):
            self.publish(write)
            if write.value is None:
                continue
            if write.topic == self._sinks.diffs:
                self.diffs.append(_diffs.decode(write.value))
                self.by_id[codec.ce_attributes(write.headers)["id"]] = self.diffs[-1]
            elif write.topic == self._sinks.assignments:
                latest = _assignment_decoder.decode(write.value)
                self.assignments[latest.group_id] = latest
            elif write.topic == self._sinks.episodes:
                episode = decode_episode(write.value)
                self._episodes[episode.group_id][episode.episode] = episode
            elif write.topic == self._sinks.incidents:
                incident = decode_incident(write.value)
                self._incidents[incident.group_id][incident.incident] = incident

    def _name(self, event: Event) -> None:
        data = event.data
        for member in data.members if isinstance(data, GroupObserved) else ():
            self.names[member.member_id] = member.client_id or ""
        if isinstance(data, MemberJoined):
            self.names[data.member_id] = data.client_id or ""

    def publish(self, write: OutputRecord) -> None:
        """Publish an output; this class only keeps it."""

    def rounds(self, group: str) -> list[Diff]:
        """Return the group's diffs that the stream has already computed."""
        return [diff for diff in [*self.diffs] if diff.group_id == group]

    def current_partitions(self, group: str) -> dict[str, Share]:
        """Return a group's current partitions by member id."""
        if self._read.done():
            self._read.result()  # the thread ends early only after an error
        latest = self.assignments.get(group)
        return {} if latest is None else latest.members

    def shares(self, group: str) -> dict[str, Share]:
        """Return a group's current partitions by client id."""
        return {self.names.get(member, member): share for member, share in self.current_partitions(group).items()}

    def ids(self, group: str) -> dict[str, str]:
        """Return the member ids of a group's current members by client id."""
        return {self.names.get(member_id, member_id): member_id for member_id in self.current_partitions(group)}

    def episodes(self, group: str) -> list[Episode]:
        """Return the latest update of each episode of a group."""
        return [*self._episodes[group].values()]

    def incidents(self, group: str) -> list[Incident]:
        """Return the latest update of each incident of a group."""
        return [*self._incidents[group].values()]

    def rest(self, group: str) -> bool:
        """Let a group's quiet time pass and write the timer's records; return false if the group is still waiting."""
        future: Future[bool] = Future()
        self._rest_queries.put((group, future))
        return future.result(TIMEOUT_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._reader_pool.shutdown()
        self._consumer.close()
