"""Episodes exported as spans, received by the in-memory receivers of the OpenTelemetry SDK."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from streaming.integrations.traces import EpisodeTraces, TraceFollower
from streaming.kafka.producer import EventProducer
from streaming.kafka.topics import ensure_topics
from streaming.records.codec import encode
from streaming.records.episodes import Cost, Downtime, Episode, key
from streaming.settings.config import Settings, load
from tests.support.built_diffs import IdentifiedDiff
from tests.support.compacted import ENDED_MS, RESTARTED_MS, checkout_group, episode_updates
from tests.support.kafka import Kafka, eventually, unique_name

NS_PER_MS = 1_000_000


class FailingSpanExporter(InMemorySpanExporter):
    """A receiver that rejects as many of the first requests as configured."""

    refusals = 0

    def export(self, spans: object) -> SpanExportResult:
        if self.refusals:
            self.refusals -= 1
            return SpanExportResult.FAILURE
        return super().export(spans)


def restart() -> tuple[Episode, list[IdentifiedDiff]]:
    builder = checkout_group("shop")
    episode = episode_updates(builder)[-1]
    downtime = Downtime(lower_ms=900, upper_ms=None, longest_ms=(300, None))
    cost = Cost(delayed_messages=(5, 9), worst_delay_ms=(200, 1500))
    return msgspec.structs.replace(episode, downtime=downtime, cost=cost, sure=True), builder.diffs


def data_points(reader: InMemoryMetricReader) -> dict[tuple[str, str], tuple[int, float]]:
    """Return the count and sum of the data points, by metric and histogram bound."""
    data = reader.get_metrics_data()
    metrics = [] if data is None else data.resource_metrics[0].scope_metrics[0].metrics
    return {
        (metric.name, str(data_point.attributes["bound"])): (data_point.count, data_point.sum)
        for metric in metrics
        for data_point in metric.data.data_points
    }


def test_an_episode_is_one_span_with_its_rounds() -> None:
    episode, diffs = restart()
    receiver, reader = FailingSpanExporter(), InMemoryMetricReader()
    traces = EpisodeTraces(receiver, MeterProvider([reader]))
    rounds = [diff for ce_id, diff in diffs if ce_id in episode.rounds]
    receiver.refusals = 1
    assert not traces.export(episode, rounds)
    assert data_points(reader) == {}
    assert traces.export(episode, rounds)
    assert traces.export(episode, rounds)
    first, again = receiver.get_finished_spans()
    assert first.context == again.context
    assert (first.name, first.start_time, first.status.status_code) == (
        *("rebalance rolling-restart", RESTARTED_MS * NS_PER_MS),
        StatusCode.UNSET,
    )
    assert (first.end_time or 0) >= ENDED_MS * NS_PER_MS
    assert [event.timestamp for event in first.events] == [diff.timestamp * NS_PER_MS for diff in rounds]
    assert [event.attributes["rebalance.generation"] for event in first.events] == [2, 3, 4, 5]
    attributes = dict(first.attributes or {})
    assert attributes["messaging.consumer.group.name"] == "shop"
    assert attributes["rebalance.downtime.longest_ms.at_least"] == 300
    assert "rebalance.downtime.longest_ms.at_most" not in attributes
    assert data_points(reader) == {
        ("kafka.rebalance.downtime", "at_least"): (1, 0.3),
        ("kafka.rebalance.delay", "at_least"): (1, 0.2),
        ("kafka.rebalance.delay", "at_most"): (1, 1.5),
    }


def test_span_of_a_failure_has_the_status_error() -> None:
    episode, _ = restart()
    receiver = FailingSpanExporter()
    EpisodeTraces(receiver, MeterProvider()).export(msgspec.structs.replace(episode, kind="crash"), [])
    (span,) = receiver.get_finished_spans()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, episode.story)


def write(settings: Settings, *records: tuple[str, bytes, bytes, str]) -> None:
    with EventProducer(settings) as producer:
        for topic, name, value, ce_id in records:
            producer.send_record(topic, name, value, [("ce_id", ce_id.encode())])


GROUP = "messaging.consumer.group.name"


@contextmanager
def run_export(settings: Settings, receiver: FailingSpanExporter) -> Iterator[TraceFollower]:
    """Run the export of episodes until the end of the block."""
    stop = threading.Event()
    follower = TraceFollower(settings, EpisodeTraces(receiver, MeterProvider()), stop)
    thread = threading.Thread(target=follower.run)
    thread.start()
    try:
        yield follower
    finally:
        stop.set()
        thread.join()


def rounds_by_span(receiver: FailingSpanExporter, group_id: str) -> list[int]:
    """Return the number of rounds in each of a group's OpenTelemetry spans (one per episode), in order."""
    spans = receiver.get_finished_spans()
    return [len(span.events) for span in spans if (span.attributes or {}).get(GROUP) == group_id]


@pytest.mark.broker
def test_closed_episodes_are_exported_also_over_a_restart(broker: Kafka) -> None:
    settings = load(bootstrap_servers=broker.bootstrap_servers, topic_prefix=f"{unique_name('otlp')}.")
    ensure_topics(settings, settings.topics.made)
    episode, diffs = restart()
    receiver = FailingSpanExporter()

    def put(*episodes: Episode) -> None:
        topic = settings.topics.episodes
        write(settings, *((topic, key(item.group_id, item.episode), encode(item), "e") for item in episodes))

    with run_export(settings, receiver) as follower:
        number = 10

        def has_received_next() -> bool:
            nonlocal number
            number += 1
            put(msgspec.structs.replace(episode, group_id="ready", episode=number))
            return bool(receiver.get_finished_spans())

        eventually(has_received_next, every=0.5)
        write(settings, *((settings.topics.diffs, b"shop", encode(diff), ce_id) for ce_id, diff in diffs))
        eventually(lambda: len(follower._rounds) == len(diffs))
        write(settings, (settings.topics.episodes, b"shop/1", b"{", "bad"))
        # The group is settled, but further rounds within the quiet time still belong to the episode.
        put(msgspec.structs.replace(episode, closed_at=None), episode)
        eventually(lambda: rounds_by_span(receiver, "shop"))
        assert rounds_by_span(receiver, "shop") == [4]
        receiver.refusals = 1_000_000
        put(msgspec.structs.replace(episode, group_id="late"))
        eventually(lambda: receiver.refusals < 1_000_000)
    receiver.refusals = 0
    with run_export(settings, receiver):
        eventually(lambda: rounds_by_span(receiver, "late"))
    assert (rounds_by_span(receiver, "late"), rounds_by_span(receiver, "shop")) == ([0], [4])
