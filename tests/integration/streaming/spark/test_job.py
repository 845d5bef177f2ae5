"""The Spark job on a real broker writes the same diffs as the pure functions."""

from pathlib import Path

import pytest

from streaming.records.codec import encode_event
from streaming.records.events import Annotation, Event
from tests.support.histories import Topic, log_by_partition
from tests.support.kafka import Kafka
from tests.support.recorded import membership_log
from tests.support.stream_job import Job, expected, newest_records_by_key

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def log_with_unusable_records(log: Topic) -> Topic:
    """Return the membership log with additional records that the Spark job cannot use."""
    log[0].insert(1, (b"g", b'{"groupId":"g","timest', [("ce_type", b"member.joined")]))
    log[1].insert(1, (b"g", b"{}", [("ce_type", b"made.up"), ("ce_id", b"1"), ("ce_source", b"s")]))
    log[2].append((b"g", b"{}", []))
    log[2].append((b"g", b"{}", [("ce_type", b"group.changed"), ("ce_id", b"2"), ("ce_source", b"s")]))
    log[3].insert(5, (b"g", None, [("ü", b"\xff"), ("ce_id", b"")]))
    log[3].append((None, b"\x00\xff", [("only", None)]))
    return log


@pytest.mark.cluster
def test_the_same_log_gives_the_same_bytes_in_any_batches(broker: Kafka, tmp_path: Path) -> None:
    job = Job(broker, tmp_path)
    log = log_with_unusable_records(log_by_partition(membership_log(30, 9, seed=7), 4))
    log[1].append(encode_event(Event("/ci", "7", Annotation(timestamp=1_700_000_000_000, groups="g*", text="deploy"))))
    job.feed(log)
    done = job.drain("--max-offsets-per-trigger", "1")
    assert "Traceback" not in done.stderr
    assert "\tat " not in done.stderr
    wanted = expected(job, log)
    topics = job.settings.topics
    assert job.rows(topics.diffs) == wanted[topics.diffs]
    assert newest_records_by_key(job.rows(topics.assignments)) == wanted[topics.assignments]
    (mark,) = [key for key in wanted[topics.incidents] if (key or b"").startswith(b"annotation/")]
    assert job.rows(topics.incidents)[mark] == wanted[topics.incidents][mark]
    # Unusable records of one key from several partitions have no order among themselves.
    letters = job.rows(topics.dead_letters)
    assert sorted(letters[b"g"], key=repr) == sorted(wanted[topics.dead_letters][b"g"], key=repr)
    ((value, headers),) = letters[None]
    assert value == b"\x00\xff"
    assert headers[0] == ("only", None)
    assert dict(headers)["dlt_exception"] == b"MissingKey"
    place = dict(headers)["dlt_topic"], dict(headers)["dlt_partition"], dict(headers)["dlt_offset"]
    last = str(len(log[3]) - 1).encode()
    assert place == (topics.membership.encode(), b"3", last)
