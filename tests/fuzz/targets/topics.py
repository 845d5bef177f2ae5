"""Fuzzes the readers of the topics: events in the stream, and diffs, assignments and dead letters in clients."""

import io
import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
from hypothesis import strategies as st
from rich.console import Console

from assignors.errors import MonitorError
from streaming.cli.administration import dead_letter_table
from streaming.cli.diff_lines import diff_lines
from streaming.kafka import dead_letters as dlt
from streaming.kafka.diff_reader import DiffReader, MalformedDiff
from streaming.monitor.bucket import expire, process
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import ASSIGNMENT_TYPE, DIFF_TYPE, OutputRecord, Sinks
from streaming.records import codec, diffs, events
from streaming.records.codec import Record
from streaming.records.dead_letters import dead_letter_headers, shorten_dead_letter
from streaming.serve import records
from streaming.serve.records import TopicRecord, UnusableRecord
from tests.fuzz.case import Case, FuzzTarget
from tests.fuzz.shapes import of
from tests.support.histories import check_diff_algebra
from tests.support.recorded import GROUP_SORTS
from tests.support.recorded import records as recorded

SINKS = Sinks("m", "d", "a", "dlt", {"m": 4, "d": 4, "a": 4, "dlt": 4})
#: Parts of membership events.
_FUZZ_WORDS = (b"ce_type", b"member.joined", b"group.observed", b'"owned":{"t0":[0]}', b"null", b"group-0")


def _work_balances(error: type[MonitorError]) -> Iterator[str]:
    yield error.__name__
    for kind in error.__subclasses__():
        yield from _work_balances(kind)


def _check_dead_letter(key: bytes | None, value: bytes | None, headers: Any) -> dlt.DeadLetter:
    """Assert that a dead letter has a reason in this project's words."""
    letter = _read_dead_letter(key, value, list(headers))
    assert letter.exception in set(_work_balances(MonitorError)), letter
    assert letter.message
    return letter


def _read_dead_letter(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> dlt.DeadLetter:
    letter = dlt._parse_dead_letter(_message(key, value, headers))
    msgspec.json.encode(letter)
    return letter


def _message(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]) -> Any:
    return SimpleNamespace(
        key=lambda: key, value=lambda: value, headers=lambda: headers, partition=lambda: 0, offset=lambda: 7
    )


def check_output_record(write: OutputRecord) -> None:
    """Assert that every reader of the topic accepts the written record."""
    ce = codec.ce_attributes(write.headers)
    if write.topic == SINKS.dead_letters:
        _check_dead_letter(write.key, write.value, write.headers)
    elif ce["type"] == DIFF_TYPE:
        diff = msgspec.json.decode(write.value or b"", type=diffs.Diff)
        if not diff.violations:  # a partition with two owners is reported
            check_diff_algebra(diff)
        records.parse_round(TopicRecord("d", 0, 0, write.key, write.value, ce["id"]))
        list(diff_lines(diff))
    elif ce["type"] == ASSIGNMENT_TYPE:
        records.parse_assignment(TopicRecord("a", 0, 0, write.key, write.value, ce["id"]))
    else:
        event = codec.decode_event(write.key, write.value, ce)
        assert codec.encode_event(event) == (write.key, write.value, write.headers)


def _membership_records(case: Case) -> Iterator[Record]:
    for offset, (key, value, *attributes, header) in enumerate(zip(*[iter(case)] * 6, strict=False)):
        headers = list(zip(codec.HEADER_NAMES[1:4], attributes, strict=True))
        yield Record.of(0, offset, key, value, headers if header is None else [*headers, ("other", header)])


def _check_event(record: Record) -> None:
    try:
        event = codec.read(record)
    except MonitorError:
        return
    key, value, headers = codec.encode_event(event)
    assert codec.decode_event(key, value, codec.ce_attributes(headers)) == event


def _membership(case: Case) -> None:
    bucket = Bucket()
    now = 1_000
    for record in _membership_records(case):
        _check_event(record)
        now += 20_000
        writes = process(bucket, [record], now, SINKS)
        writes += expire(bucket, now + 5_000, SINKS)
        for write in writes:
            check_output_record(write)
        packed = bucket.pack()
        again = Bucket(packed)
        assert {name: again.get(name) for name in again} == {name: bucket.get(name) for name in bucket}
        bucket = again


def _membership_seeds() -> Iterator[Case]:
    for sort in GROUP_SORTS:
        log = list(recorded(sort, 300))
        groups = itertools.groupby(sorted(log, key=lambda record: record.key or b""), lambda record: record.key)
        for _, group in groups:
            yield [
                part
                for record in itertools.islice(group, 8)
                for part in (record.key, record.value, record.type, record.id, record.source, None)
            ]


def _make_event_case(event: events.EventData, kind: str) -> Case:
    return [event.group_id.encode(errors="replace"), codec.encode(event), kind.encode(), b"1", b"/s", None]


def _in_one_group(made: list[Case]) -> Case:
    """Return the records as records of one group, each of which has its own id."""
    case: Case = []
    for number, (_, value, kind, _, source, header) in enumerate(made):
        document = msgspec.json.decode(value or b"") | {"groupId": "g"}
        case += [b"g", msgspec.json.encode(document), kind, b"%d" % number, source, header]
    return case


_event_cases = [
    of(type_).map(lambda event, kind=kind: _make_event_case(event, kind)) for kind, type_ in events.EVENT_TYPES.items()
]
membership_shape = st.lists(st.one_of(_event_cases), max_size=8).map(_in_one_group)


def _output_seeds(kind: str) -> Iterator[Case]:
    """Return real diffs, or latest assignments, of all kinds of groups."""
    for sort in GROUP_SORTS:
        bucket, case = Bucket(), []
        for record in recorded(sort, 250):
            for write in process(bucket, [record], 0, SINKS):
                ce = codec.ce_attributes(write.headers)
                if ce.get("type") == kind and write.topic != SINKS.dead_letters:
                    case += [write.key, write.value, ce["id"].encode()]
        yield from (case[at : at + 12] for at in range(0, len(case), 12))


def _diffs(case: Case) -> None:
    """Check that the parsers of ``watch`` and ``serve`` refuse or accept each diff without an unexpected error."""
    group = None
    reader: Any = SimpleNamespace(_seen_ids={}, _group=None, _topic="d")
    for offset, (key, value, ce_id) in enumerate(zip(*[iter(case)] * 3, strict=False)):
        text = codec.ce_attributes([("ce_id", ce_id)]).get("id")
        message = _message(key, value, [("ce_id", ce_id)])
        try:
            shown = DiffReader._parse_record(reader, message)
        except MalformedDiff:
            shown = None
        for line in [] if shown is None else diff_lines(shown.diff):
            Console(file=io.StringIO(), width=100).print(line)
        try:
            round_ = records.parse_round(TopicRecord("d", 0, offset, key, value, text))
        except UnusableRecord:
            continue
        group = records.advance(group, offset + 1, round_)
        msgspec.json.decode(codec.encode(group), type=records.GroupSummary)
        assert msgspec.json.decode(codec.encode(round_), type=records.RoundSummary) == round_
        codec.encode(records.changes(msgspec.json.decode(value or b"", type=diffs.Diff)))


def _assignments(case: Case) -> None:
    group = None
    for offset, (key, value, ce_id) in enumerate(zip(*[iter(case)] * 3, strict=False)):
        del ce_id
        try:
            _, latest = records.parse_assignment(TopicRecord("a", 0, offset, key, value, None))
        except UnusableRecord:
            continue
        if latest is not None:
            group = records.apply_assignment(group, latest)
            codec.encode(group)


def _dead_letters(case: Case) -> None:
    """Show arbitrary records as dead letters, and assert that shortened dead letters fit the size limit."""
    key, value, *headers = case or [None, None]
    names = itertools.cycle(("dlt_exception", "dlt_message", "dlt_topic", "dlt_partition", "dlt_offset", "a"))
    pairs = list(zip(names, headers, strict=False))
    Console(file=io.StringIO(), width=100).print(dead_letter_table([_read_dead_letter(key, value, pairs)]))
    made = dead_letter_headers(pairs, codec.MalformedEvent("x"), topic="t", partition=0, offset=0)
    for limit in (600, 5_000):
        shortened_letter = shorten_dead_letter(key, value, made, limit)
        assert codec.record_bytes(*shortened_letter) <= max(limit, codec.record_bytes(None, None, shortened_letter[2]))
        _check_dead_letter(*shortened_letter)


def _dead_letter_seeds() -> Iterator[Case]:
    for record in recorded("derived", 2_000):
        for write in process(Bucket(), [record], 0, SINKS):
            if write.topic == SINKS.dead_letters:
                values = dict(write.headers)
                names = ("dlt_exception", "dlt_message", "dlt_topic", "dlt_partition", "dlt_offset", "ce_id")
                yield [write.key, write.value, *map(values.get, names)]


TARGETS = (
    FuzzTarget("membership", _membership, _membership_seeds, 6, membership_shape, _FUZZ_WORDS),
    FuzzTarget(
        "diffs",
        _diffs,
        lambda: _output_seeds(DIFF_TYPE),
        3,
        of(diffs.Diff).map(lambda diff: [diff.group_id.encode(errors="replace"), codec.encode(diff), b"1"]),
    ),
    FuzzTarget(
        "assignments",
        _assignments,
        lambda: _output_seeds(ASSIGNMENT_TYPE),
        3,
        of(diffs.LatestAssignment).map(
            lambda snapshot: [snapshot.group_id.encode(errors="replace"), codec.encode(snapshot), None]
        ),
    ),
    FuzzTarget("dead-letters", _dead_letters, _dead_letter_seeds, 8),
)
