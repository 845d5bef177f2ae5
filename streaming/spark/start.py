"""Preparation of the job before its query starts: rights, topics, the checkpoint, records that are gone."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import structs

from assignors.errors import MonitorError, OutsideFailure
from streaming.freshness import MalformedSign, decoded
from streaming.incidents.state import Thresholds
from streaming.kafka.access import require, written
from streaming.kafka.clients import ClusterUnavailable
from streaming.kafka.metadata import Identity, bounds, identify
from streaming.kafka.topic_reader import TopicReader
from streaming.kafka.topics import ensure_topics, longest_records
from streaming.monitor.outputs import Sinks
from streaming.records.codec import UNREADABLE
from streaming.settings.config import Settings
from streaming.spark import checkpoint, failures, state_store
from streaming.spark.checkpoint import Card, CardStore
from streaming.spark.options import StreamOptions
from streaming.spark.session import installed_pyspark
from streaming.spark.ticks import TickTopic

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.2
#: Topics that were just made are known to every broker after so long.
_KNOWN_SECONDS = 10.0


class RecordsLost(OutsideFailure):
    """Records of the membership topic are gone that the job had not read, or stands behind."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Result of :func:`prepare`; ``card`` is what this job wants of its checkpoint, then what it has."""

    settings: Settings
    options: StreamOptions
    topics: Mapping[str, Identity]
    card: Card
    sinks: Sinks
    ticks: TickTopic


def prepare(settings: Settings, options: StreamOptions) -> Prepared:
    """Check rights and topics; the checkpoint is not touched.

    Raises:
        As :func:`streaming.spark.job.run`.
    """
    log.info("PySpark %s", installed_pyspark())
    cluster = require(settings, "stream")
    states = ensure_topics(settings, written(settings))
    ticks = TickTopic(settings)
    topics = _topics(settings)
    names = settings.topics
    sinks = Sinks(
        membership=names.membership,
        diffs=names.diffs,
        assignments=names.assignments,
        dead_letters=names.dead_letters,
        partitions={name: topic.partitions for name, topic in topics.items()},
        max_bytes=longest_records(states),
        forget_after_ms=options.forget_after_ms,
        episodes=names.episodes if settings.stream.episodes else None,
        quiet_ms=settings.stream.episode_quiet_ms,
        storm_turns=settings.stream.episode_storm_turns,
        incidents=names.incidents if settings.stream.episodes else None,
        thresholds=Thresholds(**settings.incidents.model_dump()),
        expected_partitions=settings.stream.expected_partitions,
        listing=settings.stream.diffs,
    )
    topic_id, partitions = topics[names.membership]
    card = Card(
        cluster,
        names.membership,
        topic_id,
        options.buckets or 0,
        partitions=partitions,
        outputs={name: topics[name].partitions for name in written(settings) if name != names.membership},
        state_store=options.state_store,
    )
    return Prepared(settings, options, topics, card, sinks, ticks)


def claim(setup: Prepared, store: CardStore) -> Prepared:
    """Make the checkpoint this job's; the caller holds it.

    Raises:
        CheckpointOfAnotherJob, TopicRecreated, CheckpointDamaged, CheckpointUnusable: it does not fit.
        RecordsLost: the topic has lost records that are to be read.
    """
    options, wanted = setup.options, setup.card
    card = checkpoint.claim(options.checkpoint, store, wanted, options.on_data_loss)
    lost = lost_records(setup.settings, options.checkpoint, card)
    if lost and options.on_data_loss == "stop":
        raise RecordsLost(lost_message(card.topic, lost))
    if lost:
        log.warning("topic %s has lost records: %s", card.topic, lost)
    if lost and options.on_data_loss == "restart":
        store.set_aside()
        again = structs.replace(wanted, buckets=card.buckets, state_store=card.state_store)
        card = checkpoint.claim(options.checkpoint, store, again, options.on_data_loss)
    # Records of a key stay in their partition when a topic gets more.
    sinks = setup.sinks._replace(partitions=dict(setup.sinks.partitions) | card.outputs)
    grown = [name for name, count in card.outputs.items() if setup.topics[name].partitions > count]
    if grown:
        log.warning(
            "%s got more partitions: records go to the first ones alone as before so that a group stays in order",
            ", ".join(f"topic {name}" for name in grown),
        )
    return Prepared(setup.settings, options, setup.topics, card, sinks, setup.ticks)


def listen_for_others(settings: Settings, location: str) -> None:
    """Wait for a heartbeat of another stream: the only guard of a checkpoint behind a URL.

    Raises:
        CheckpointInUse: another stream is alive.
    """
    if identify(settings.kafka, [settings.topics.signs]).get(settings.topics.signs) is None:
        return  # nobody has written one yet
    seconds = min(30.0, 2.5 * settings.signs.every_ms / 1000)
    try:
        reader = TopicReader(settings.kafka, [settings.topics.signs], from_beginning=False)
    except MonitorError as error:
        log.warning("--checkpoint %s: can't tell whether another stream uses it: %s", location, error)
        return
    by = time.monotonic() + seconds
    with reader:
        while time.monotonic() < by:
            for message in reader.poll(_LOOK_SECONDS, 100):
                if _is_running_stream(message.key(), message.value()):
                    raise failures.CheckpointInUse(failures.in_use(location))


def _is_running_stream(key: bytes | None, value: bytes | None) -> bool:
    try:
        sign = decoded(key, value or b"")
    except MalformedSign:
        return False
    return (sign.part, sign.state) == ("stream", "running")


class Span(NamedTuple):
    """Offsets that a start reads of a partition at least: up to ``end``, of a batch that runs again."""

    begin: int
    end: int


def lost_records(settings: Settings, location: str, card: Card) -> str:
    """Return what the topic has lost of the records that a start reads; an empty text where all are there.

    Spark would find out while it runs. Behind a URL it does.

    Raises:
        ClusterUnavailable: no broker answers where the partitions begin and end.
        CheckpointDamaged: an offsets file is not as Spark left it.
    """
    if checkpoint.is_remote(location):
        return ""
    wanted = {
        number: span for number, span in spans(location, card.topic).items() if number < card.partitions
    }
    found = bounds(settings.kafka, [(card.topic, number) for number in wanted])
    return "; ".join(gone(wanted, {number: there for (_, number), there in found.items()}))


def spans(location: str, topic: str) -> dict[int, Span]:
    """Return what a start reads at least, by partition; nothing where no batch was done."""
    folder = Path(location)
    done, begun = state_store.last(folder / "commits"), state_store.last(folder / "offsets")
    if done is None or begun is None:
        return {}
    try:
        begins, ends = (
            _offsets(folder / "offsets" / str(number), topic) for number in (min(done, begun), begun)
        )
    except (OSError, *UNREADABLE) as error:
        raise failures.damaged(location, f"{folder / 'offsets'} is damaged") from error
    # Where Spark found out itself, it has noted a batch that ends before it begins.
    return {number: Span(begin, max(begin, ends.get(number, 0))) for number, begin in begins.items()}


def _offsets(file: Path, topic: str) -> dict[int, int]:
    """Return a batch's ends. Behind a version and metadata the file has a line of JSON a source, ``-`` for none."""
    for line in file.read_bytes().splitlines()[2:]:
        found = {} if line == b"-" else msgspec.json.decode(line, type=dict[str, dict[int, int]])
        if topic in found:
            return found[topic]
    return {}


def gone(wanted: Mapping[int, Span], there: Mapping[int, tuple[int, int]]) -> Iterator[str]:
    """Yield what is gone, a phrase a partition; ``there``: earliest and next offset by partition."""
    for number, (begin, end) in sorted(wanted.items()):
        low, high = there[number]
        if begin < low:
            yield f"partition {number} begins at {low}, and is read from {begin} on"
        elif high < end:
            yield f"partition {number} ends at {high}, and was read to {end}"


def lost_message(topic: str, what: str) -> str:
    """Return the message that names the choice."""
    return (
        f"topic {topic} has lost records, by its retention or with a broker's disk: {what}. Choose: --on-data-loss "
        "continue goes on with what is there, and what is lost is never read; --on-data-loss restart sets the "
        "checkpoint aside and reads what is there from its beginning, without the groups' state"
    )


def _topics(settings: Settings) -> dict[str, Identity]:
    """All topics of the job, once the cluster knows them all."""
    wanted = (*written(settings), settings.topics.ticks)
    by = time.monotonic() + _KNOWN_SECONDS
    while True:
        found = identify(settings.kafka, wanted)
        there = {name: topic for name, topic in found.items() if topic is not None}
        if len(there) == len(wanted):
            return there
        if time.monotonic() > by:
            missing = ", ".join(name for name in wanted if name not in there)
            raise ClusterUnavailable(f"topics {missing}: made, but the cluster does not describe them")
        time.sleep(_LOOK_SECONDS)
