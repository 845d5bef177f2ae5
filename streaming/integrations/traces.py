"""Export to OpenTelemetry: episodes as spans, rounds as events of their span, downtime and delay as histograms.

A span's ids are derived from the group and the episode's number, so an episode that is exported again has the same ids.
"""

import hashlib
import logging
import threading
from collections import OrderedDict
from typing import Any, Final

import msgspec
from confluent_kafka import Message
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import Status, StatusCode

from assignors import __version__
from streaming.kafka.topic_follower import TopicFollower
from streaming.records.codec import DECODE_ERRORS, ce_attributes, decode
from streaming.records.diffs import Diff
from streaming.records.episodes import Bounds, Episode
from streaming.settings.config import Settings

_log = logging.getLogger(__name__)

OTLP_RESOURCE: Final = Resource.create({"service.name": "kafka-rebalance-monitor", "service.version": __version__})
_NS_IN_MS: Final = 1_000_000
_RETRY_SECONDS: Final = 5.0
#: The most rounds of unfinished episodes in memory; the oldest are dropped first.
_MAX_KEPT_ROUNDS: Final = 10_000
#: Kinds of episodes whose span has the status ERROR.
_SPAN_ERROR_KINDS: Final = frozenset({"crash", "poll-timeout", "storm", "zone-lost", "duplicate-instance-id"})

_diffs = msgspec.json.Decoder(Diff)
_episodes = msgspec.json.Decoder(Episode)


class _EpisodeIds(IdGenerator):
    """Generator of span ids, which returns the ids of the episode that is being exported."""

    digest = b""

    def generate_trace_id(self) -> int:
        return int.from_bytes(self.digest[:16])

    def generate_span_id(self) -> int:
        return int.from_bytes(self.digest[16:24])


class _LastEndedSpan(SpanProcessor):
    """OpenTelemetry span processor that stores the last span that ended."""

    span: ReadableSpan

    def on_end(self, span: ReadableSpan) -> None:
        self.span = span


class EpisodeTraces:
    """Exports episodes as spans to ``exporter``, and as histograms to ``meters``."""

    def __init__(self, exporter: SpanExporter, meter_provider: MeterProvider) -> None:
        self._exporter = exporter
        self._id_generator, self._last_ended_span = _EpisodeIds(), _LastEndedSpan()
        #: The newest episode of each group in the histograms, so that an episode that is exported again counts once.
        self._last_measured_episode: dict[str, int] = {}
        tracer_provider = TracerProvider(resource=OTLP_RESOURCE, id_generator=self._id_generator)
        tracer_provider.add_span_processor(self._last_ended_span)
        self._tracer = tracer_provider.get_tracer("kafka-rebalance-monitor", __version__)
        meter = meter_provider.get_meter("kafka-rebalance-monitor", __version__)
        self._downtime = meter.create_histogram(
            "kafka.rebalance.downtime", "s", "The longest time of a partition without a consumer, by episode and bound."
        )
        self._delay_histogram = meter.create_histogram(
            "kafka.rebalance.delay", "s", "The age of the oldest delayed message, by episode and bound."
        )

    def export(self, episode: Episode, rounds: list[Diff]) -> bool:
        """Export an episode with its known rounds; return True if the receiver accepted the span."""
        self._id_generator.digest = hashlib.sha256(f"{episode.group_id}/{episode.episode}".encode()).digest()
        span = self._tracer.start_span(
            f"rebalance {episode.kind}", start_time=episode.opened_at * _NS_IN_MS, attributes=_span_attributes(episode)
        )
        for diff in rounds:
            span.add_event("round", _round_attributes(diff), diff.timestamp * _NS_IN_MS)
        if episode.kind in _SPAN_ERROR_KINDS:
            span.set_status(Status(StatusCode.ERROR, episode.story))
        span.end((episode.closed_at or episode.updated_at) * _NS_IN_MS)
        if self._exporter.export([self._last_ended_span.span]) is not SpanExportResult.SUCCESS:
            return False
        if self._last_measured_episode.get(episode.group_id, 0) >= episode.episode:
            return True
        self._last_measured_episode[episode.group_id] = episode.episode
        labels = {"messaging.consumer.group.name": episode.group_id, "rebalance.kind": episode.kind}
        if episode.downtime is not None:
            _record_bounds(self._downtime, episode.downtime.longest_ms, labels)
        if episode.cost is not None:
            _record_bounds(self._delay_histogram, episode.cost.worst_delay_ms, labels)
        return True


def _record_bounds(histogram: Any, bounds: Bounds, labels: dict[str, str]) -> None:
    """Record the lower and the upper bound of a time (ms) in the histogram; an unknown upper bound is left out."""
    for bound_name, value in zip(("at_least", "at_most"), bounds, strict=True):
        if value is not None:
            histogram.record(value / 1000, labels | {"bound": bound_name})


def _span_attributes(episode: Episode) -> dict[str, Any]:
    """Return the attributes of an episode's span; attributes without a value are left out."""
    downtime, cost = episode.downtime, episode.cost
    values = {
        "messaging.system": "kafka",
        "messaging.consumer.group.name": episode.group_id,
        "rebalance.episode": episode.episode,
        "rebalance.kind": episode.kind,
        "rebalance.sure": episode.sure,
        "rebalance.protocol": episode.protocol,
        "rebalance.assignor": episode.assignor,
        "rebalance.story": episode.story,
        "rebalance.rounds": episode.round_count,
        "rebalance.moved": episode.moved,
        "rebalance.cause": episode.cause,
        "rebalance.downtime.longest_ms.at_least": downtime and downtime.longest_ms[0],
        "rebalance.downtime.longest_ms.at_most": downtime and downtime.longest_ms[1],
        "rebalance.delayed_messages.at_least": cost and cost.delayed_messages[0],
        "rebalance.delayed_messages.at_most": cost and cost.delayed_messages[1],
    }
    return {name: value for name, value in values.items() if value is not None}


def _round_attributes(diff: Diff) -> dict[str, Any]:
    values = {
        "generation": diff.generation if diff.generation is not None else diff.group_epoch,
        "round": diff.round,
        "cause": diff.cause.kind,
        "cause.members": diff.cause.member_ids,
        "moved": diff.moved,
    }
    return {f"rebalance.{name}": value for name, value in values.items() if value is not None}


class TraceFollower:
    """Follows diffs and episodes, and exports each closed episode at least once.

    Rounds that were published before this process started are missing from the events of their episode's span.
    ``stop`` ends :meth:`run` when it is set.
    """

    def __init__(self, settings: Settings, traces: EpisodeTraces, stop: threading.Event) -> None:
        self._topics, self._traces = settings.topics, traces
        followed = (self._topics.diffs, self._topics.episodes)
        self._follower = TopicFollower(settings.kafka, f"{self._topics.prefix}rebalance-monitor-otlp", followed, stop)
        self._rounds: OrderedDict[str, Diff] = OrderedDict()

    def run(self) -> None:
        """Follow the topics and export closed episodes until ``stop`` is set."""
        self._follower.follow(self._handle_record)

    def _handle_record(self, message: Message) -> None:
        value = message.value()
        if value is None:
            return
        try:
            if message.topic() == self._topics.diffs:
                self._rounds[ce_attributes(message.headers()).get("id", "")] = decode(_diffs, value)
                if len(self._rounds) > _MAX_KEPT_ROUNDS:
                    self._rounds.popitem(last=False)
                return
            episode = decode(_episodes, value)
        except DECODE_ERRORS as malformed:
            place = f"{message.topic()} partition {message.partition()} offset {message.offset()}"
            _log.warning("%s: %s", place, malformed)
            return
        if episode.closed_at is None:
            return
        rounds = [self._rounds[diff_id] for diff_id in episode.rounds if diff_id in self._rounds]
        while not self._traces.export(episode, rounds):
            _log.warning("%s/%d was not exported; trying again", episode.group_id, episode.episode)
            self._follower.wait(_RETRY_SECONDS)
