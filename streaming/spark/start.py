"""The job's options, and its preparation before the query starts: permissions, topics, checkpoint, lost records."""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import structs

from assignors.errors import BadInput, MonitorError, OutsideFailure
from streaming.freshness import STREAM_ID
from streaming.kafka.access import require_permissions, stream_topics
from streaming.kafka.clients import ClusterUnavailable
from streaming.kafka.heartbeats import last_heartbeat
from streaming.kafka.metadata import Identity, bounds, request_identities
from streaming.kafka.topics import configured_sinks, ensure_topics
from streaming.monitor.heartbeats import FORGET_AFTER_MS
from streaming.monitor.outputs import Sinks
from streaming.settings.config import Settings
from streaming.spark import checkpoint, failures
from streaming.spark.archives import require_python
from streaming.spark.checkpoint import Checkpoint, DataLossPolicy, Metadata, OffsetsFile, is_remote, last_batch
from streaming.spark.session import SessionOptions, installed_pyspark, jvm_path
from streaming.spark.topics import TickTopic

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options of the Spark job.

    ``checkpoint`` is a folder or URL. ``trigger_interval_ms`` None: batches follow each other at once. ``buckets``
    None: the number in the checkpoint.
    """

    checkpoint: str
    available_now: bool = False
    max_offsets_per_trigger: int = 50_000
    trigger_interval_ms: int | None = None
    buckets: int | None = None
    forget_after_ms: int = FORGET_AFTER_MS
    session: SessionOptions = field(default_factory=SessionOptions)
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    on_data_loss: DataLossPolicy = "stop"

    def __post_init__(self) -> None:
        archive, master = self.session.archive, self.session.master
        if archive is not None and master.startswith("local"):
            raise BadInput(f"--archive {archive}: is only for executors of a cluster, not for --master {master}")
        if archive is not None:
            require_python("--archive", archive, exists=True)

    @property
    def location(self) -> str:
        """The checkpoint as an absolute path or URL, for the JVM."""
        return jvm_path(self.checkpoint)


@dataclass(frozen=True, slots=True)
class PreparedStream:
    """A prepared job; ``metadata`` describes a new checkpoint until :func:`claim` replaces it with the stored one."""

    settings: Settings
    options: StreamOptions
    topics: Mapping[str, Identity]
    metadata: Metadata
    sinks: Sinks
    ticks: TickTopic


def prepare(settings: Settings, options: StreamOptions) -> PreparedStream:
    """Check permissions and topics, and return the prepared job; the checkpoint stays unchanged."""
    log.info("PySpark %s", installed_pyspark())
    cluster = require_permissions(settings, "stream")
    states = ensure_topics(settings, stream_topics(settings))
    ticks = TickTopic(settings)
    topics = _describe_topics(settings)
    partitions = {name: topic.partitions for name, topic in topics.items()}
    sinks = configured_sinks(settings, states, partitions)._replace(forget_after_ms=options.forget_after_ms)
    membership = settings.topics.membership
    outputs = {name: partitions[name] for name in stream_topics(settings) if name != membership}
    topic_id, count = topics[membership]
    metadata = Metadata(cluster, membership, topic_id, options.buckets or 0, partitions=count, outputs=outputs)
    return PreparedStream(settings, options, topics, metadata, sinks, ticks)


def claim(setup: PreparedStream, store: Checkpoint) -> PreparedStream:
    """Return the job with the metadata of its locked checkpoint; raise an error if the checkpoint can't continue."""
    options, wanted = setup.options, setup.metadata
    metadata = checkpoint.claim(options.checkpoint, store, wanted, options.on_data_loss)
    if lost := check_lost_records(setup.settings, options.checkpoint, metadata):
        if options.on_data_loss == "stop":
            raise OutsideFailure(lost_records_text(metadata.topic, lost))
        log.warning("topic %s has lost records: %s", metadata.topic, lost)
        if options.on_data_loss == "restart":
            store.replace()
            again = structs.replace(wanted, buckets=metadata.buckets)
            metadata = checkpoint.claim(options.checkpoint, store, again, options.on_data_loss)
    repeated = count_repeated_records(setup.settings, options.checkpoint, metadata.topic)
    if repeated and options.on_data_loss == "stop":  # otherwise the topic may have been created again
        log.warning(
            "--checkpoint %s: is older than the last heartbeat of the stream. %d records are read again: the same "
            "diffs come out, with the same ids",
            options.checkpoint,
            repeated,
        )
    # A key's records stay in their partition when a topic gets more partitions.
    sinks = setup.sinks._replace(partitions=dict(setup.sinks.partitions) | metadata.outputs)
    if grown_topics := [name for name, count in metadata.outputs.items() if setup.topics[name].partitions > count]:
        log.warning(
            "topics %s got more partitions: records go to the old ones alone, so that a group stays in order",
            ", ".join(grown_topics),
        )
    return replace(setup, metadata=metadata, sinks=sinks)


class OffsetSpan(NamedTuple):
    """The offsets of one partition in the checkpoint's unfinished batch, which the job reads again when it starts."""

    begin: int
    end: int


def check_lost_records(settings: Settings, location: str, metadata: Metadata) -> str:
    """Return a text about unread records that the topic no longer has; an empty string if there are none.

    With a checkpoint behind a URL, Spark itself detects lost records while it runs.
    """
    if is_remote(location):
        return ""
    read = {number: span for number, span in spans(location, metadata.topic).items() if number < metadata.partitions}
    ends = bounds(settings.kafka, [(metadata.topic, number) for number in read])
    return "; ".join(missing_ranges(read, {number: end for (_, number), end in ends.items()}))


def count_repeated_records(settings: Settings, location: str, topic: str) -> int:
    """Return how many records beyond the checkpoint's offsets the stream had read, according to its last heartbeat.

    The number is above 0 if the checkpoint was replaced by an older copy.
    """
    begun = {} if is_remote(location) else spans(location, topic)
    read: Mapping[int, int] = {}
    with suppress(MonitorError):  # this user may not read heartbeats
        if begun and (heartbeat := last_heartbeat(settings, f"stream/{STREAM_ID}")[0]) is not None:
            read = heartbeat.positions
    return sum(max(0, read.get(number, 0) - span.end) for number, span in begun.items())


def spans(location: str, topic: str) -> dict[int, OffsetSpan]:
    """Return the offsets that the checkpoint's last batch read, by partition; empty before a batch is committed."""
    folder = Path(location)
    done, begun = last_batch(folder / "commits"), last_batch(folder / "offsets")
    if done is None or begun is None:
        return {}
    try:
        batch_begins, ends = (OffsetsFile.read(folder, batch).end_offsets(topic) for batch in (min(done, begun), begun))
    except msgspec.MsgspecError as error:
        raise failures.damaged_checkpoint(location, f"{folder / 'offsets'} is damaged") from error
    # After a loss of records, the end of Spark's batch may be before its beginning.
    return {number: OffsetSpan(begin, max(begin, ends.get(number, 0))) for number, begin in batch_begins.items()}


def missing_ranges(read: Mapping[int, OffsetSpan], ends: Mapping[int, tuple[int, int]]) -> Iterator[str]:
    """Yield a phrase for each partition that lost records; ``ends``: the earliest and next offset by partition."""
    for number, (begin, end) in sorted(read.items()):
        low, high = ends[number]
        if begin < low:
            yield f"partition {number} begins at {low}, and is read from {begin} on"
        elif high < end:
            yield f"partition {number} ends at {high}, and was read to {end}"


def lost_records_text(topic: str, what: str) -> str:
    """Return the error message for lost records of a topic, with the options that let the job continue."""
    return (
        f"topic {topic} has lost records, by its retention or with a broker's disk: {what}. Choose: --on-data-loss "
        "continue reads what is there, and what is lost is never read; --on-data-loss restart sets the checkpoint "
        "aside and reads what is there from its beginning, without the groups' state"
    )


def _describe_topics(settings: Settings) -> dict[str, Identity]:
    names = (*stream_topics(settings), settings.topics.ticks)
    by = time.monotonic() + 10.0  # by then every broker describes a new topic
    while True:
        topics = {name: topic for name, topic in request_identities(settings.kafka, names).items() if topic is not None}
        if len(topics) == len(names):
            return topics
        if time.monotonic() > by:
            missing = ", ".join(name for name in names if name not in topics)
            raise ClusterUnavailable(f"topics {missing}: created, but the cluster does not describe them")
        time.sleep(0.2)
