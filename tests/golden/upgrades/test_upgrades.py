"""This release reads the data of an earlier release: a bucket's state, and the records of the topics.

``python -m tests.golden.upgrades.test_upgrades`` records this release in place of the recorded release. Run it once
per release. If a change requires a new recording at another time, it cannot read the state of existing installations.
"""

import lzma
from itertools import islice
from pathlib import Path

import msgspec

from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import OutputRecord
from streaming.records.codec import Record, ce_attributes, encode_event
from streaming.serve.records import TopicRecord, parse_assignment, parse_round
from streaming.serve.stories import story_key
from tests.support.pure_stream import SINKS, by_key
from tests.support.recorded import membership_log

RECORDING_FILE = Path(__file__).with_name("recording.json.xz")
GROUPS = 11


class Recording(msgspec.Struct):
    """The data of a release's bucket, recorded in the middle of a membership log.

    Attributes:
        before: records that the bucket has applied.
        state: the bucket's packed state after these records.
        written: records that the bucket has written.
        later: the rest of the membership log.
    """

    before: list[Record]
    state: bytes
    written: list[OutputRecord]
    later: list[Record]


def recording() -> Recording:
    """Return what an earlier release recorded: the state of a bucket, and records before and after that state."""
    return msgspec.json.decode(lzma.decompress(RECORDING_FILE.read_bytes()), type=Recording)


def record() -> Recording:
    """Return a recording of this release: records of a log, and the bucket state and output computed from them."""
    log = (
        Record.of(0, offset, *encode_event(event)) for offset, event in enumerate(membership_log(200, GROUPS, seed=9))
    )
    bucket, before = Bucket(), list(islice(log, 100))
    written = process(bucket, before, 0, SINKS)
    return Recording(before, bucket.pack(), written, list(log))


def test_state_of_an_earlier_release_gives_the_same_output() -> None:
    """The earlier release's state and the log's later records give the same output as the whole log."""
    earlier_recording = recording()
    bucket = Bucket(earlier_recording.state)
    assert len(bucket) == GROUPS
    whole = by_key(process(Bucket(), [*earlier_recording.before, *earlier_recording.later], 0, SINKS))
    later = by_key(process(bucket, earlier_recording.later, 0, SINKS))
    assert sum(topic == SINKS.diffs for topic, _ in later) == GROUPS
    assert {place: whole[place][-len(rows) :] for place, rows in later.items()} == later


def test_log_of_the_earlier_release_has_the_same_diffs() -> None:
    """Diff ids and their order stay the same in a new release, because readers skip records with ids that they know."""
    earlier_recording = recording()
    again = process(Bucket(), earlier_recording.before, 0, SINKS)
    assert diff_ids(again) == diff_ids(earlier_recording.written)


def diff_ids(writes: list[OutputRecord]) -> list[tuple[bytes | None, str]]:
    """Return record key and diff id of each diff among the written records."""
    return [(write.key, ce_attributes(write.headers)["id"]) for write in writes if write.topic == SINKS.diffs]


def test_records_of_an_earlier_release_can_be_decoded() -> None:
    for offset, write in enumerate(recording().written):
        ce_id = ce_attributes(write.headers).get("id")
        row = TopicRecord(write.topic, write.partition, offset, write.key, write.value, ce_id)
        if write.topic == SINKS.diffs:
            assert parse_round(row).group_id == (write.key or b"").decode()
        elif write.topic == SINKS.assignments:
            assert parse_assignment(row)[0] == (write.key or b"").decode()
        else:
            key = story_key(row, "episode" if write.topic == SINKS.episodes else "incident")
            assert f"{key.group_id}/{key.number}".encode() == write.key


if __name__ == "__main__":
    RECORDING_FILE.write_bytes(lzma.compress(msgspec.json.encode(record()), preset=9 | lzma.PRESET_EXTREME))
