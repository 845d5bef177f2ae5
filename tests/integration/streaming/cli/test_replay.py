"""The diff reader and `replay` on a real broker, with a diff topic that contains every diff twice."""

from pathlib import Path

import msgspec
import pytest

from streaming.cli.replay import differences, replayed_diffs
from streaming.kafka.diff_reader import DiffReader, DiffRecord, read_diffs
from streaming.kafka.producer import EventProducer
from streaming.kafka.topic_reader import TopicUnreadable
from tests.support.command import run
from tests.support.histories import log_by_partition
from tests.support.kafka import Kafka
from tests.support.recorded import membership_log
from tests.support.stream_job import Job

pytestmark = pytest.mark.broker


def write(job: Job, records: list[DiffRecord]) -> None:
    with EventProducer(job.settings) as producer:
        for record in records:
            key = record.diff.group_id.encode()
            headers = [("ce_id", record.id.encode()), ("ce_type", b"rebalance.diff")]
            producer.send_record(job.settings.topics.diffs, key, record.value, headers)


@pytest.fixture
def job(broker: Kafka, tmp_path: Path) -> Job:
    made = Job(broker, tmp_path)
    made.feed(log_by_partition(membership_log(400, 12, seed=7), partitions=4))
    return made


def test_written_diffs_equal_the_replay(job: Job) -> None:
    replayed = list(replayed_diffs(job.settings))
    assert len({record.id for record in replayed}) == len(replayed) > 100
    write(job, [*replayed, *replayed[:50]])
    assert list(differences(job.settings)) == []
    written_diffs = list(read_diffs(job.settings, from_beginning=True, exit_at_end=True))
    assert sorted(record.id for record in written_diffs) == sorted(record.id for record in replayed)


def test_missing_changed_and_surplus_diffs_are_named(job: Job) -> None:
    missing, changed, *rest = replayed_diffs(job.settings)
    changed_diff = msgspec.structs.replace(changed.diff, moved=changed.diff.moved + 1)
    changed_record = DiffRecord(changed.id, changed_diff, msgspec.json.encode(changed_diff), 0, 0)
    extra_record = DiffRecord("extra", changed_diff, msgspec.json.encode(changed_diff), 0, 0)
    write(job, [changed_record, *rest, extra_record])
    lines = list(differences(job.settings))
    assert len(lines) == 3
    assert lines[0].endswith(f"the diff {missing.id} is not in the topic")
    assert lines[1].endswith(f"the diff {changed.id} has other content in the topic")
    assert lines[2].endswith("no event explains the diff extra in the topic")


def test_reader_continues_where_another_stopped(job: Job) -> None:
    records = list(replayed_diffs(job.settings))
    write(job, records)
    read_ids: list[str] = []
    positions: dict[int, int] | None = None
    while len(read_ids) < len(records):
        stop = min(len(read_ids) + len(records) // 8, len(records))
        with DiffReader(job.settings, from_beginning=True, positions=positions) as reader:
            while len(read_ids) < stop:
                record = reader.poll(5)
                assert record is not None or not reader.at_end
                if record is not None:
                    read_ids.append(record.id)
            positions = reader.positions
    assert sorted(read_ids) == sorted(record.id for record in records)


def test_missing_topic_is_reported(broker: Kafka, job: Job) -> None:
    job.settings.topics.prefix = "nobody-made-this."
    with pytest.raises(TopicUnreadable, match=r"nobody-made-this\.rebalance\.diffs: does not exist"):
        DiffReader(job.settings)


def test_a_recording_of_a_real_topic_replays_without_a_cluster(job: Job, tmp_path: Path) -> None:
    file = tmp_path / "a.rmlog"
    at = ("--bootstrap-servers", job.settings.kafka.bootstrap_servers, "--topic-prefix", job.settings.topics.prefix)
    live = run("replay", *at, "--group", "group-3", "--json")
    made = run("record", "group-3", *at, "-o", str(file))
    assert (live.returncode, made.returncode, made.stdout.count("events")) == (0, 0, 1)
    replayed = run("replay", str(file), "--json")
    assert (replayed.returncode, replayed.stdout) == (0, live.stdout)
    assert len(live.stdout.splitlines()) > 10
    assert run("replay", str(file), "--check").stderr == "no differences\n"
