"""Topics, headers and size limits of written records."""

import pytest

from assignors.partitioner import partition_for_key
from streaming.monitor import outputs
from streaming.monitor.group import apply
from streaming.monitor.outputs import AssignmentOutput, DiffOutput, Output, OutputRecord, Sinks, output_id
from streaming.records import codec
from streaming.records.codec import MalformedEvent, Record, RecordTooLarge, record_bytes
from streaming.records.diffs import LatestAssignment, MemberNames
from streaming.records.events import Event, MemberLeft
from tests.support.histories import Log, assignments, play

SINKS = Sinks("m", "d", "a", "dlt", {"m": 4, "d": 5, "a": 3, "dlt": 2})
NAMES = list(codec.HEADER_NAMES)


@pytest.fixture
def joined() -> tuple[Event, list[Output]]:
    """Return the event of a first member's join and the outputs of this event."""
    log = Log("group")
    state, _ = apply(None, log.topics(t=1))
    join = log.join("c1")
    return join, apply(state, join)[1]


def test_diff_and_assignment_are_partitioned_by_murmur2(joined: tuple[Event, list[Output]]) -> None:
    event, made = joined
    assert [type(output) for output in made] == [DiffOutput, AssignmentOutput]
    for output, topic, count, ce_type, part, value in zip(
        made,
        "da",
        (5, 3),
        (b"rebalance.diff", b"rebalance.assignment"),
        (1, "assignment"),
        (made[0].diff, made[1].assignment),
        strict=True,
    ):
        headers = [
            *(b"1.0", ce_type, output_id(event, part).encode(), b"rebalance-monitor/stream"),
            *(b"1970-01-01T00:00:02.000Z", b"application/json"),
        ]
        assert outputs.write(event, output, SINKS) == OutputRecord(
            *(topic, b"group", codec.encode(value), list(zip(NAMES, headers, strict=True))),
            partition_for_key(b"group", count),
        )


def test_diffs_are_written_and_the_assignment_waits(joined: tuple[Event, list[Output]]) -> None:
    event, made = joined
    assert outputs.write_diffs(event, made, SINKS) == [outputs.write(event, made[0], SINKS)]
    assert outputs.write_diffs(event, made[1:], SINKS) == []


def test_timer_event_is_written_under_its_own_name() -> None:
    event = Event("timer", "g/c1/4000", MemberLeft(group_id="g", timestamp=0, member_id="c1"))
    record = outputs.write_event(event, SINKS)
    assert (record.topic, record.key, record.partition) == ("m", b"g", partition_for_key(b"g", 4))
    assert codec.decode_event(record.key, record.value, codec.ce_attributes(record.headers)) == event


@pytest.mark.parametrize("topic", ["d", "a"])
@pytest.mark.parametrize("kept", [slice(None), slice(1, None)], ids=["a diff", "no diff"])
def test_the_longest_record_passes_and_one_byte_more_is_refused(
    joined: tuple[Event, list[Output]], topic: str, kept: slice
) -> None:
    """If the diff or the latest assignment is too large for its topic, both records are left out."""
    event, made = joined[0], joined[1][kept]
    record = outputs.write(event, made[0], SINKS)
    size = record_bytes(record.key, record.value, record.headers)
    outputs.write_diffs(event, made, SINKS._replace(max_bytes={topic: size}))
    with pytest.raises(RecordTooLarge, match=rf"'group': .* would have {size} bytes, .* is {size - 1}"):
        outputs.write_diffs(event, made, SINKS._replace(max_bytes={topic: size - 1}))


def test_assignment_longer_than_the_diff_is_measured_too() -> None:
    """A latest assignment names each member twice, so a long member id makes it larger than the diff."""
    log = Log("group")
    state, _ = play([log.topics(t=1), log.join("c" * 3000)])
    event = log.topics(t=2)
    made = apply(state, event)[1]
    diff, latest = (outputs.write(event, output, SINKS) for output in made)
    size = record_bytes(latest.key, latest.value, latest.headers)
    assert size > 2000 + record_bytes(diff.key, diff.value, diff.headers)
    assert outputs.write_diffs(event, made, SINKS._replace(max_bytes={"a": size})) == [diff]
    with pytest.raises(RecordTooLarge, match=rf"rebalance\.assignment would have {size} bytes"):
        outputs.write_diffs(event, made, SINKS._replace(max_bytes={"a": size - 1}))


def test_assignment_above_the_topic_limit_is_refused() -> None:
    log = Log("group")
    state, _ = play([log.topics(t=1), log.join("c" * 3000), log.join("d")])
    event = log.join("e")
    with pytest.raises(RecordTooLarge, match=r"rebalance\.assignment would have"):
        outputs.write_diffs(event, apply(state, event)[1], SINKS._replace(max_bytes={"a": 5000}, listing="changed"))


@pytest.mark.parametrize(("key", "partition"), [(b"k" * 5000, partition_for_key(b"k" * 5000, 2)), (None, None)])
def test_truncated_dead_letter_goes_where_its_full_key_would(key: bytes | None, partition: int | None) -> None:
    record = Record.of(3, 9, key, b"v" * 5000, [("x", b"1"), ("ce_type", b"member.left")])
    letter = outputs.dead_letter(record, MalformedEvent("why"), SINKS._replace(max_bytes={"dlt": 1000}))
    assert (letter.topic, letter.partition) == ("dlt", partition)
    assert record_bytes(letter.key, letter.value, letter.headers) <= 1000
    reason = dict(letter.headers)
    assert (reason["dlt_exception"], reason["dlt_message"]) == (b"MalformedEvent", b"why")
    assert (reason["dlt_topic"], reason["dlt_partition"], reason["dlt_offset"]) == (b"m", b"3", b"9")


def test_dead_letter_keeps_a_record_of_our_headers_only() -> None:
    record = Record(0, 1, b"g", b"{", b"member.left", b"1", b"s", None, None)
    letter = outputs.dead_letter(record, MalformedEvent("why"), SINKS)
    values = (b"1.0", b"member.left", b"1", b"s", None, b"application/json")
    assert list(letter.headers)[:6] == list(zip(NAMES, values, strict=True))


def test_output_id_depends_on_group_event_and_part() -> None:
    log = Log("g")
    first, second, event_of_h = log.delete(), log.delete(), Log("h").delete()
    ids = {output_id(event, part) for event in (first, second, event_of_h) for part in (1, 2, "assignment")}
    assert len(ids) == 9
    assert output_id(first, 1) == output_id(Log("g").delete(), 1)
    assert len(output_id(first, 1)) == 32


@pytest.mark.parametrize(
    ("protocol", "assignor", "generation", "group_epoch"),
    [("classic", "range", 3, None), ("consumer", "uniform", None, 3)],
)
def test_assignment_record_has_generation_or_group_epoch(
    protocol: str, assignor: str, generation: int | None, group_epoch: int | None
) -> None:
    event = Log().observe(3, {"c1": {"t": [0, 1]}}, epoch=protocol == "consumer", protocol=assignor)
    _, outputs = play([event])
    (latest,) = assignments(outputs)
    assert latest.assignment == LatestAssignment(
        group_id="g",
        protocol=protocol,
        assignor=assignor,
        generation=generation,
        group_epoch=group_epoch,
        timestamp=1000,
        members={"c1": {"t": [0, 1]}},
        names={"c1": MemberNames()},
    )


def test_racks_are_published_for_members_that_declare_them(log: Log) -> None:
    _, outputs = play([log.topics(t=2), log.join("c1", rack_id="r1"), log.join("c2", rack_id="")])
    newest = assignments(outputs)[-1].assignment
    assert newest.racks == {"c1": "r1"}
