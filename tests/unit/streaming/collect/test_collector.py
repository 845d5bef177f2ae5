"""The complete collector over a cluster in memory: from the recorded offsets topic to the membership topic."""

import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from streaming.collect import source
from streaming.collect.collector import Collector
from streaming.collect.coordinator.records import OFFSETS_TOPIC
from streaming.collect.metrics import CollectMetrics
from streaming.collect.progress import ProgressSampler
from streaming.collect.publisher import ReplacedByOtherCollector
from streaming.kafka.access import NoPermission
from streaming.kafka.clients import ClusterUnavailable
from streaming.settings.config import CollectSettings, Settings
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import Log, MemoryKafka
from tests.support.offsets_topic import GOLDEN, captured_records
from tests.support.polling import CollectorThread
from tests.support.wait import eventually

TOPIC_IDS = {"t": "5a0scAsoRdS8Ki4XL0hedw", "u": "OKMdhzJ5TU2q1sqNLVf-kQ"}
SESSION_LIMITS = {"group.consumer.min.session.timeout.ms": "45000", "group.consumer.max.heartbeat.interval.ms": "15000"}
TOPIC = "rebalance.membership"
#: Events that depend on the clock.
STATE_EVENT_TYPES = ("group.progress", "group.rebalancing")


@pytest.fixture
def kafka(kafka: MemoryKafka) -> MemoryKafka:
    kafka.cluster_id = "c"
    kafka.create("t", 6).id = TOPIC_IDS["t"] + "=="  # the client pads topic ids with ==
    kafka.create("u", 3).id = TOPIC_IDS["u"].replace("-", "+")
    rows = captured_records()
    kafka.create(OFFSETS_TOPIC, max(rows) + 1)
    for partition, numbers in rows.items():
        log = kafka.topics[OFFSETS_TOPIC].logs[partition]
        for row in numbers:
            while log.end < row.offset:
                kafka.mark(OFFSETS_TOPIC, partition)
            kafka.append(OFFSETS_TOPIC, row.value, key=row.key, partition=partition, timestamp=row.timestamp)
    return kafka


def settings(**collect: Any) -> Settings:
    return Settings(kafka=KafkaSettings(bootstrap_servers="memory:1"), collect=CollectSettings(**collect))


class OffsetsCollectorThread(CollectorThread):
    """A collector of the offsets topic, and of the coordinator's logs, in a thread."""

    def __init__(self, settings: Settings, *logs: Path) -> None:
        settings.collect.coordinator_logs += logs
        super().__init__(lambda stop, registry: Collector(settings, stop, CollectMetrics(registry)))

    def has_read(self, kafka: MemoryKafka) -> bool:
        records = len(kafka.records(OFFSETS_TOPIC))
        return (self.figure("records_total"), self.figure("partitions_behind")) == (records, 0)


def published(kafka: MemoryKafka, *without: str) -> list[tuple[bytes, bytes, dict[str, str]]]:
    """Return key, value and headers of each membership event, by group and in order of publication."""
    records = []
    for message in kafka.records(TOPIC) if TOPIC in kafka.topics else []:
        headers = {name: (data or b"").decode() for name, data in message.headers() or []}
        if headers["ce_type"] not in (*STATE_EVENT_TYPES, *without):
            records.append((message.key() or b"", message.value() or b"", headers))
    return sorted(records, key=lambda record: record[0])


@pytest.mark.parametrize("logged", [False, True])
@pytest.mark.parametrize("alive", [None, 30_000])
def test_collector_publishes_the_recorded_events(kafka: MemoryKafka, logged: bool, alive: int | None) -> None:
    kafka.brokers = {1: SESSION_LIMITS if alive else {}, 2: SESSION_LIMITS if alive else {}}
    logs = [GOLDEN / "coordinator-4.3.1.log"] if logged else []
    with OffsetsCollectorThread(settings(), *logs) as collector:
        eventually(lambda: collector.has_read(kafka))
    recorded = [
        (line["key"].encode(), line["value"].encode(), line["headers"])
        for line in map(json.loads, (GOLDEN / "events-4.3.1.jsonl").read_text().splitlines())
        if (line["logged"], line["surelyAliveMs"]) == (logged, alive)
    ]
    assert published(kafka, "topic.partitions_changed") == sorted(recorded, key=lambda record: record[0])


def test_second_start_continues_without_repeats(kafka: MemoryKafka) -> None:
    with OffsetsCollectorThread(settings()) as collector:
        eventually(lambda: collector.has_read(kafka))
    before, ends = published(kafka), [log.end for log in kafka.topics[OFFSETS_TOPIC].logs]
    group = settings().topics.prefix + settings().collect.group_id
    assert {key: ends[key[2]] for key in kafka.committed} == kafka.committed
    assert {name for name, *_ in kafka.committed} == {group}
    with OffsetsCollectorThread(settings()) as collector:
        eventually(lambda: collector.has_read(kafka))
    assert published(kafka) == before


def keep_first_join(kafka: MemoryKafka) -> None:
    """Cut the recorded offsets topic after member A of ``g-classic`` has joined; no other group has records."""
    for log in kafka.topics[OFFSETS_TOPIC].logs:
        del log.entries[2 if any(entry and b"g-classic" in (entry.key() or b"") for entry in log.entries) else 0 :]


def test_position_beyond_a_truncated_end_hides_no_record(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    logs = kafka.topics[OFFSETS_TOPIC].logs
    whole = [[*log.entries] for log in logs]
    keep_first_join(kafka)
    group = settings().topics.prefix + settings().collect.group_id
    kafka.committed = {(group, OFFSETS_TOPIC, number): len(log) for number, log in enumerate(whole)}
    with OffsetsCollectorThread(settings()) as collector:
        eventually(lambda: collector.has_read(kafka))
        for log, entries in zip(logs, whole, strict=True):
            log.entries += entries[log.end :]
        eventually(lambda: collector.has_read(kafka) and published(kafka))
    assert "records were lost; going on at its end" in caplog.text


def test_partition_losing_records_while_read_is_reread(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    logs = kafka.topics[OFFSETS_TOPIC].logs
    number = max(range(len(logs)), key=lambda log: logs[log].end)
    with OffsetsCollectorThread(settings()) as collector:
        eventually(lambda: collector.has_read(kafka))
        read = logs[number].end
        kafka.truncate(OFFSETS_TOPIC, number, 1)
        lost = f"{OFFSETS_TOPIC} partition {number}: was read to {read} and has lost records; read again from 0"
        eventually(lambda: lost in caplog.messages)


def counts(kafka: MemoryKafka) -> list[int]:
    """Return the partition count of ``t`` in each published event with partition counts."""
    events = [json.loads(value) for _, value, headers in published(kafka) if "partitions" in headers["ce_type"]]
    return [event["topics"]["t"]["partitions"] for event in events]


def test_recreated_topic_gets_partition_counts_again(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    keep_first_join(kafka)
    with OffsetsCollectorThread(settings(metadata_interval_ms=100)) as collector:
        eventually(lambda: collector.has_read(kafka) and counts(kafka) == [6])
        kafka.delete(TOPIC)
        kafka.create(TOPIC, 3)
        eventually(lambda: counts(kafka) == [6])
    assert f"topic {TOPIC} was created again: its groups get new partition counts" in caplog.messages


def test_snapshots_are_published_without_topic_metadata(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    keep_first_join(kafka)
    away = KafkaError(KafkaError._TRANSPORT, "broker is away")
    with OffsetsCollectorThread(settings(metadata_interval_ms=100)) as collector:
        eventually(lambda: collector.has_read(kafka) and len(published(kafka)) == 2)
        kafka.topics["t"].logs.append(Log())
        kafka.fail("list_topics", *[away] * 3)
        eventually(lambda: len(published(kafka)) == 3)
    assert "topic metadata: broker is away" in caplog.messages


def test_absent_cluster_receives_few_requests(
    kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(source, "_IDENTITY_CHECK_SECONDS", 0.05)
    monkeypatch.setattr(ProgressSampler, "sample", lambda *_: [])  # so that no transaction coincides with the outage
    keep_first_join(kafka)
    with OffsetsCollectorThread(settings(metadata_interval_ms=100)) as collector:
        eventually(lambda: collector.has_read(kafka) and published(kafka))
        commits = kafka.requests.count("commit")
        kafka.away = True
        eventually(lambda: "no contact with Kafka" in caplog.text)
        listed, description_count = kafka.requests.count("list_topics"), kafka.requests.count("describe_topics")
        eventually(lambda: kafka.requests.count("describe_topics") > description_count + 10)
        assert kafka.requests.count("commit") == commits
        assert kafka.requests.count("list_topics") <= listed + 1
        kafka.away = False
        kafka.topics["t"].logs.append(Log())
        eventually(lambda: counts(kafka) == [6, 7])


@pytest.mark.parametrize(
    ("include", "exclude", "groups"),
    [
        ([".*"], [], {b"g-classic", b"g-consumer"}),
        (["g-c.*"], [".*classic"], {b"g-consumer"}),
        (["g-classic"], [], {b"g-classic"}),
        ([".*"], ["g-.*"], set()),
    ],
)
def test_events_of_included_groups_only_are_published(
    kafka: MemoryKafka, include: list[str], exclude: list[str], groups: set[bytes]
) -> None:
    filter_settings = settings(include_groups=include, exclude_groups=exclude)
    with OffsetsCollectorThread(filter_settings) as collector:
        eventually(lambda: collector.has_read(kafka))
    assert {message.key() for message in kafka.records(TOPIC)} == groups


def test_unreadable_record_is_dead_lettered_and_skipped(kafka: MemoryKafka) -> None:
    place = kafka.append(OFFSETS_TOPIC, b"\0\3\xff", key=b"\0\2\0\1g", partition=4, timestamp=5)
    with OffsetsCollectorThread(settings()) as collector:
        eventually(lambda: collector.has_read(kafka))
    (letter,) = kafka.records("rebalance.membership-dlt")
    assert letter.record[:2] == (b"\0\2\0\1g", b"\0\3\xff")
    assert dict(letter.headers() or [])["dlt_offset"] == str(place).encode()


def test_records_of_a_newer_kafka_are_counted_and_skipped(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(30):
        kafka.append(OFFSETS_TOPIC, b"?", key=b"\0\x63?", partition=0, timestamp=number)
    kafka.append(OFFSETS_TOPIC, b"\0\5", key=b"\0\2\0\1g", partition=0, timestamp=99)
    with OffsetsCollectorThread(settings()) as collector:
        eventually(lambda: collector.has_read(kafka))
        eventually(lambda: collector.figure("newer_records_total") == 31)
    assert "rebalance.membership-dlt" not in kafka.topics or not kafka.records("rebalance.membership-dlt")
    assert caplog.text.count("is newer than this collector and skipped") == 2


def test_missing_permission_is_named(kafka: MemoryKafka) -> None:
    kafka.deny(OFFSETS_TOPIC, "READ")
    with pytest.raises(NoPermission, match="may not read topic __consumer_offsets, which collect must"):
        Collector(settings(), threading.Event()).run()
    assert TOPIC not in kafka.topics


def test_cluster_lost_during_start_is_reported_in_one_line(kafka: MemoryKafka) -> None:
    kafka.fail("committed", KafkaError(KafkaError._TIMED_OUT, "timed out"))
    with pytest.raises(
        ClusterUnavailable,
        match="bootstrap_servers memory:1: timed out; started again, the collector goes on where it stopped",
    ):
        Collector(settings(), threading.Event()).run()
    assert all(consumer.closed for consumer in kafka.consumers)


def test_collector_stopped_before_the_first_record_stops(kafka: MemoryKafka) -> None:
    stop = threading.Event()
    stop.set()
    Collector(settings(), stop).run()
    assert all(consumer.closed for consumer in kafka.consumers)


def test_replaced_collector_ends_with_its_next_heartbeat(kafka: MemoryKafka) -> None:
    settings_with_heartbeats = settings()
    settings_with_heartbeats.signs.every_ms = 100
    collector = OffsetsCollectorThread(settings_with_heartbeats)
    collector.start()
    eventually(lambda: kafka.committed)
    kafka.epochs["rebalance-monitor-collector"] += 1  # another member joined, and maybe left; no group has changed
    assert isinstance(collector.ended(), ReplacedByOtherCollector)


def test_rebalances_in_the_log_of_other_groups_are_not_published(kafka: MemoryKafka, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.touch()
    keep_first_join(kafka)

    def rebalancing() -> list[tuple[bytes | None, str]]:
        return [
            (message.key(), json.loads(message.value() or b"")["reason"])
            for message in kafka.records(TOPIC)
            if b"group.rebalancing" in dict(message.headers() or []).values()
        ]

    with OffsetsCollectorThread(settings(exclude_groups=["other"]), log) as collector:
        eventually(lambda: collector.has_read(kafka))
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
        for group in ("other", "g-classic"):
            with log.open("a") as file:
                file.write(
                    f"[{now}] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=4] Preparing to "
                    f"rebalance group {group} in state PreparingRebalance with old generation 99 (reason: any).\n"
                )
        eventually(rebalancing)
    assert rebalancing() == [(b"g-classic", "any")]
