"""Fuzzes the input of the collector: records of the offsets topic, and coordinators' logs."""

from collections.abc import Iterator
from struct import pack, unpack

from hypothesis import strategies as st

from streaming.collect.broker_log.group_reasons import GroupReasons
from streaming.collect.broker_log.log import BrokerLog
from streaming.collect.coordinator.records import RawRecord
from streaming.collect.coordinator.schema import MalformedRecord
from streaming.collect.evidence import unexplained_evidence
from streaming.collect.fold import CollectedEvent, Fold
from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.records import codec
from streaming.records.codec import Record
from streaming.records.events import Event, GroupObserved
from tests.fuzz.case import Case, FuzzTarget
from tests.fuzz.targets.embedded import assignments, numbers, subscriptions
from tests.fuzz.targets.split_groups import split_group_records
from tests.fuzz.targets.topics import SINKS, check_output_record
from tests.support import offsets_topic

_FUZZ_WORDS = (
    *(pack(">h", number) for number in range(-1, 27)),
    *(pack(">i", number) for number in (-1, 0, 1, 2, 2**31 - 1)),
    offsets_topic.string("consumer"),
    offsets_topic.string(None),
    b"\x00",
    b"\x01",
    b"\xff\xff\xff\xff\x0f",
)


def _records(case: Case) -> None:
    fold = Fold("kafka://c/__consumer_offsets", 4, lambda topic_id: topic_id, max_silence_ms=5_000)
    rows = [
        RawRecord(4, offset, unpack(">q", (at or b"")[:8].rjust(8, b"\0"))[0], key, value)
        for offset, (at, key, value) in enumerate(zip(*[iter(case)] * 3, strict=False))
    ]
    out = [item for row in rows for item in fold.add(row)] + fold.settle()
    fold.snapshots()
    bucket = Bucket()
    for item in out:
        assert item.record in rows
        if not isinstance(item, CollectedEvent):
            assert isinstance(item.error, MalformedRecord)
            continue
        key, value, headers = codec.encode_event(item.event)
        assert codec.decode_event(key, value, codec.ce_attributes(headers)) == item.event
        record = Record.of(4, item.record.offset, key, value, headers)
        for write in process(bucket, [record], 0, SINKS):
            check_output_record(write)


def _record_seeds() -> Iterator[Case]:
    for rows in offsets_topic.captured_records().values():
        yield [part for row in rows[:24] for part in (pack(">q", row.timestamp), row.key, row.value)]
        for row in rows:
            yield [pack(">q", row.timestamp), row.key, row.value]
    for kind in offsets_topic.KINDS:
        rows = offsets_topic.captured_records_of_kind(kind)
        yield [part for row in rows for part in (pack(">q", row.timestamp), row.key, row.value)]


@st.composite
def _generations(draw: st.DrawFn) -> Case:
    """Return generations of one classic group, and offset commits of its members."""
    case: Case = []
    for number in range(draw(st.integers(1, 5))):
        at = pack(">q", 1_700_000_000_000 + number * draw(st.sampled_from([0, 1, 10_000, 2**40])))
        if draw(st.booleans()):
            members = draw(
                st.dictionaries(st.sampled_from(["a", "b", "c"]), st.tuples(subscriptions, assignments), max_size=3)
            )
            value = offsets_topic.group_bytes(
                draw(numbers),
                members,
                version=draw(st.integers(0, 4)),
                protocol=draw(st.sampled_from(["range", "sticky", "cooperative-sticky", None])),
                instances=draw(st.dictionaries(st.sampled_from(["a", "b"]), st.just("i"), max_size=2)),
            )
            case += [at, offsets_topic.group_key("g"), draw(st.sampled_from([value, value, None]))]
        else:
            key = offsets_topic.commit_key("g", "t", draw(numbers))
            case += [at, key, offsets_topic.commit_value(draw(st.integers(-(2**63), 2**63 - 2)))]
    return case


def _log(case: Case) -> None:
    """Assert that the stream accepts every event that the log reader finds in any log lines."""
    log, reasons = BrokerLog(), GroupReasons()
    for line in case:
        for event in log.read((line or b"") + b"\n"):
            reasons.add(event)
    for group, number in list(reasons._evidence_by_round)[-20:]:
        evidence = reasons.evidence(group, number)
        data = GroupObserved(
            group_id="g",
            timestamp=1,
            members=[],
            generation=1,
            evidence=[*evidence, *unexplained_evidence([], evidence)],
        )
        key, value, headers = codec.encode_event(Event("s", "1", data))
        assert codec.decode_event(key, value, codec.ce_attributes(headers)).data == data


def _coordinator_log_seeds() -> Iterator[Case]:
    lines = (offsets_topic.GOLDEN / "coordinator-4.3.1.log").read_bytes().splitlines()
    yield from ([line] for line in lines)
    yield from (lines[at : at + 12] for at in range(0, len(lines), 6))


_LOG_WORDS = (
    *(b"[GroupId ", b"] Member ", b" group ", b" generation ", b"(reason: ", b" with group instance id "),
    *(b"removed dynamic members who haven't joined: Set(", b"explicit `LeaveGroup` request for (", b") members"),
    *(b"Preparing to rebalance group ", b" in state Stable with old generation ", b"with group instance id a "),
)
TARGETS = (
    FuzzTarget("offsets-topic", _records, _record_seeds, 3, _generations() | split_group_records(), _FUZZ_WORDS),
    FuzzTarget("coordinator-log", _log, _coordinator_log_seeds, words=_LOG_WORDS),
)
