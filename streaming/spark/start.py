"""What is settled before the job's query starts: rights, topics, the checkpoint."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from streaming.incidents.state import Thresholds
from streaming.kafka.access import require, written
from streaming.kafka.clients import ClusterUnavailable
from streaming.kafka.identity import Identity, identify
from streaming.kafka.topics import ensure_topics, longest_records
from streaming.monitor.envelope import Sinks
from streaming.settings.config import Settings
from streaming.spark import checkpoint, damage, losses
from streaming.spark.checkpoint import Card
from streaming.spark.options import StreamOptions
from streaming.spark.pyspark import survey
from streaming.spark.ticks import TickTopic

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.2
#: Topics that were just made are known to every broker after so long.
_KNOWN_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is settled before the query starts."""

    settings: Settings
    options: StreamOptions
    topics: Mapping[str, Identity]
    card: Card
    sinks: Sinks
    ticks: TickTopic


def prepare(settings: Settings, options: StreamOptions) -> Prepared:
    """What is refused here needs no JVM.

    Raises:
        As :func:`streaming.spark.job.run`.
    """
    fit = survey(public=options.session.public)
    log.log(logging.INFO if fit.tried else logging.WARNING, "%s", fit)
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
        naming=settings.stream.diffs,
    )
    topic_id, partitions = topics[names.membership]
    card = Card(
        cluster,
        names.membership,
        topic_id,
        options.buckets or 0,
        partitions=partitions,
        state_store=options.state_store,
    )
    return Prepared(settings, options, topics, _claimed(settings, options, card), sinks, ticks)


def _claimed(settings: Settings, options: StreamOptions, wanted: Card) -> Card:
    """The checkpoint's card, of one that can be used with what the topic holds."""
    card = checkpoint.claim(options.checkpoint, wanted, options.on_data_loss)
    damage.look(options.checkpoint)
    lost = losses.look(settings.kafka, options.checkpoint, card)
    if not lost:
        return card
    if options.on_data_loss == "stop":
        raise losses.RecordsLost(losses.message(card.topic, lost))
    log.warning("topic %s has lost records: %s", card.topic, lost)
    if options.on_data_loss == "continue":
        return card
    aside = checkpoint.set_aside(Path(options.checkpoint))
    log.warning("the checkpoint was set aside as %s: the topic is read from its beginning", aside)
    again = structs.replace(wanted, buckets=card.buckets, state_store=card.state_store)
    return checkpoint.claim(options.checkpoint, again, options.on_data_loss)


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
