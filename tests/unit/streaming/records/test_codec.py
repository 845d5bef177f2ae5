"""Values of membership events as other programs write them."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, structs

from streaming.records.codec import MalformedEvent, Record, ce_attributes, decode_event, encode_event, headers, read
from streaming.records.events import MAX_TIMESTAMP, Event, GroupObserved, MemberHeartbeat, MemberJoined, ObservedMember
from tests.support.recorded import membership_log

EVENT_ATTRIBUTES = {"type": "member.joined", "id": "1", "source": "s"}


def test_null_means_absent_for_optional_fields() -> None:
    value = (
        b'{"groupId":"g","timestamp":1,"memberId":"c","topics":["t"],"owned":null,"generation":null,'
        b'"assignors":null,"groupProtocol":null,"rackId":null,"sessionTimeoutMs":7}'
    )
    assert decode_event(b"g", value, EVENT_ATTRIBUTES).data == MemberJoined(
        group_id="g", timestamp=1, member_id="c", topics=["t"], session_timeout_ms=7
    )


def test_null_means_absent_inside_a_snapshot_too() -> None:
    value = (
        b'{"groupId":"g","timestamp":1,"generation":2,"evidence":null,"members":[{"memberId":"c","topics":[],'
        b'"assigned":{"t":[0]},"owned":null,"pendingRevocation":null}]}'
    )
    assert decode_event(b"g", value, {**EVENT_ATTRIBUTES, "type": "group.observed"}).data == GroupObserved(
        group_id="g", timestamp=1, generation=2, members=[ObservedMember(member_id="c", topics=[], assigned={"t": [0]})]
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b'{"groupId":"g","timestamp":1,"memberId":null,"topics":[]}', "required field `memberId`"),
        (b'{"groupId":"g","timestamp":1,"memberId":"c","topics":[null]}', r"`str`, got `null` - at `\$.topics"),
        (b'{"groupId":"g","timestamp":1,"memberId":"c","topics":[],"generation":"4","owned":null}', "generation"),
        (b"null", "got `null`"),
    ],
)
def test_null_in_a_required_field_is_rejected(value: bytes, message: str) -> None:
    with pytest.raises(MalformedEvent, match=message):
        decode_event(b"g", value, EVENT_ATTRIBUTES)


@pytest.mark.parametrize("numbers", ["-1", "3,-1", "-1,3", "3, -1", " -1", "3,\n-1", "3,\t-1", "3,\r-1"])
def test_connector_instances_are_only_valid_in_connect(numbers: str) -> None:
    members = f'"members":[{{"memberId":"c","topics":[],"assigned":{{"t":[{numbers}]}}}}]'
    ce = {**EVENT_ATTRIBUTES, "type": "group.observed"}
    value = f'{{"groupId":"g","timestamp":1,"generation":1,{members}'
    with pytest.raises(MalformedEvent, match="c: partition -1 of t; only Connect's tasks"):
        decode_event(b"g", f"{value}}}".encode(), ce)
    snapshot = decode_event(b"g", f'{value},"kind":"connect"}}'.encode(), ce).data
    assert isinstance(snapshot, GroupObserved)
    assert [member.assigned for member in snapshot.members] == [{"t": [int(n) for n in numbers.split(",")]}]


@pytest.mark.parametrize("generation", [2**31 - 1, -(2**31)])
def test_full_range_of_kafkas_number_types_is_accepted(generation: int) -> None:
    data = f'{{"groupId":"g","timestamp":1,"memberId":"c","topics":[],"generation":{generation}}}'.encode()
    joined = decode_event(b"g", data, EVENT_ATTRIBUTES).data
    assert isinstance(joined, MemberJoined)
    assert joined.generation == generation


OUT_OF_RANGE_NUMBERS = [2**31, -(2**31) - 1, 2**63, 2**70, -(2**70), 1.5]


@pytest.mark.parametrize("number", OUT_OF_RANGE_NUMBERS)
@pytest.mark.parametrize(
    ("ce_type", "field", "value"),
    [
        ("member.joined", "generation", '"memberId":"c","topics":[],"generation":@'),
        ("member.joined", "sessionTimeoutMs", '"memberId":"c","topics":[],"sessionTimeoutMs":@'),
        ("member.joined", "owned", '"memberId":"c","topics":[],"owned":{"t":[@]}'),
        ("member.heartbeat", "generation", '"memberId":"c","generation":@'),
        ("topic.partitions_changed", "topics", '"topics":{"t":{"partitions":@}}'),
        ("group.observed", "generation", '"members":[],"generation":@'),
        ("group.observed", "groupEpoch", '"members":[],"groupEpoch":@'),
        ("group.observed", "members", '"members":[{"memberId":"c","topics":[],"assigned":{"t":[@]}}]'),
        ("group.observed", "members", '"members":[{"memberId":"c","topics":[],"assigned":{},"memberEpoch":@}]'),
    ],
)
def test_numbers_outside_kafkas_types_are_refused_by_name(ce_type: str, field: str, value: str, number: float) -> None:
    data = f'{{"groupId":"g","timestamp":1,{value.replace("@", str(number))}}}'.encode()
    with pytest.raises(MalformedEvent, match=rf"at `\$\.{field}"):
        decode_event(b"g", data, {**EVENT_ATTRIBUTES, "type": ce_type})


@pytest.mark.parametrize("timestamp", [-1, MAX_TIMESTAMP + 1, 2**63, 2**70, 1e15])
def test_times_that_no_reader_can_show_are_refused_by_name(timestamp: float) -> None:
    data = f'{{"groupId":"g","timestamp":{timestamp},"memberId":"c"}}'.encode()
    with pytest.raises(MalformedEvent, match=r"at `\$\.timestamp"):
        decode_event(b"g", data, {**EVENT_ATTRIBUTES, "type": "member.left"})


@pytest.mark.parametrize(
    ("timestamp", "text"), [(0, b"1970-01-01T00:00:00.000Z"), (MAX_TIMESTAMP, b"9998-12-31T23:59:59.999Z")]
)
def test_every_accepted_time_can_be_written_and_shown(timestamp: int, text: bytes) -> None:
    assert dict(headers("t", "s", "i", timestamp))["ce_time"] == text
    at = datetime.fromtimestamp(timestamp / 1000, tz=UTC)
    assert [at.astimezone(timezone(timedelta(hours=offset_hours))).year for offset_hours in (-14, 14)]


HEARTBEAT_EVENT = Event("s", "1", MemberHeartbeat(group_id="g", timestamp=1, member_id="c"))


def test_record_reads_as_its_event_with_headers() -> None:
    key, value, headers = encode_event(HEARTBEAT_EVENT)
    record = Record.of(1, 2, key, value, headers)
    assert read(record) == HEARTBEAT_EVENT
    assert record._replace(headers=None).all_headers == headers
    assert Record.of(1, 2, key, value, [("ce_type", b"old"), *headers])._replace(headers=headers) == record


def nested_heartbeat(depth: int, *, text: str = "") -> bytes:
    """Return a heartbeat with an unknown field whose arrays are nested ``depth`` deep."""
    inner = "[" * (depth - 1) + text + "]" * (depth - 1)
    return f'{{"groupId":"g","timestamp":1,"memberId":"c","x":{inner}}}'.encode()


def decode_at_depth(frames: int, value: bytes) -> object:
    if frames:
        return decode_at_depth(frames - 1, value)
    record = Record.of(0, 0, b"g", value, [("ce_type", b"member.heartbeat"), *HEADERS])
    try:
        return read(record).data
    except MalformedEvent as error:
        return str(error)


HEADERS = [("ce_id", b"1"), ("ce_source", b"s")]
NESTING_ERROR = "value of member.heartbeat: nested deeper than the limit, 100"


@pytest.mark.parametrize("frames", [0, 500])
@pytest.mark.parametrize("depth", [101, 150, 600, 100_000])
def test_nesting_limit_does_not_depend_on_the_stack(frames: int, depth: int) -> None:
    assert decode_at_depth(frames, nested_heartbeat(depth)) == NESTING_ERROR
    assert decode_at_depth(frames, nested_heartbeat(100)) == HEARTBEAT_EVENT.data


@given(st.lists(st.text('[]{}"\\\né'), max_size=4), st.lists(st.text('[]{}"\\'), max_size=4))
def test_brackets_within_text_do_not_count_as_nesting(texts: list[str], keys: list[str]) -> None:
    text = json.dumps([*texts, "[" * 200, dict.fromkeys(keys, "]" * 200)], ensure_ascii=False)
    assert decode_at_depth(0, nested_heartbeat(98, text=text)) == HEARTBEAT_EVENT.data
    assert decode_at_depth(0, nested_heartbeat(99, text=text)) == NESTING_ERROR


def test_many_adjacent_lists_are_not_deep() -> None:
    value = nested_heartbeat(2, text=",".join(["[[]]"] * 500))
    assert decode_at_depth(0, value) == HEARTBEAT_EVENT.data


@pytest.mark.parametrize("name", ["type", "id", "source"])
def test_header_in_invalid_utf8_is_named(name: str) -> None:
    with pytest.raises(MalformedEvent, match=f"header ce_{name}: not UTF-8"):
        read(Record.of(0, 0, *encode_event(HEARTBEAT_EVENT))._replace(**{name: b"\xff"}))


FIELD_DEFAULTS: dict[str, dict[str, object]] = {
    "member.joined": {
        "topics": ["t"],
        "group_instance_id": None,
        "client_id": None,
        "client_host": None,
        "rack_id": None,
        "owned": {},
        "generation": -1,
        "protocol_type": "consumer",
        "group_protocol": "classic",
        "assignors": [],
        "session_timeout_ms": None,
        "rebalance_timeout_ms": None,
        "acknowledges": UNSET,
    },
    "member.heartbeat": {"generation": -1},
    "member.left": {"reason": None, "group_instance_id": None, "acknowledges": UNSET},
    "member.fenced": {"reason": None, "group_instance_id": None, "last_heartbeat": None, "acknowledges": UNSET},
    "member.subscription_changed": {"topics": ["t"]},
    "member.assignment_acknowledged": {
        "generation": -1,
        "owned": {},
        "held_ms": UNSET,
        "revoked": UNSET,
        "assigned": UNSET,
    },
}


@pytest.mark.parametrize("kind", FIELD_DEFAULTS)
def test_omitted_fields_have_the_documented_defaults(kind: str) -> None:
    value = b'{"groupId":"g","timestamp":1,"memberId":"c","topics":["t"]}'
    event = decode_event(b"g", value, {**EVENT_ATTRIBUTES, "type": kind}).data
    assert structs.asdict(event) == {"group_id": "g", "timestamp": 1, "member_id": "c", **FIELD_DEFAULTS[kind]}


@pytest.mark.parametrize("timestamp", [10**15, 10**18, 10**30, -(10**18)])
def test_time_outside_the_calendar_is_refused(timestamp: int) -> None:
    with pytest.raises(MalformedEvent, match=f"timestamp: {timestamp} is not a time in milliseconds"):
        headers("t", "s", "1", timestamp)


def test_attributes_are_prefixed_headers_with_a_value() -> None:
    headers = [("ce_type", b"t"), ("ab_type", b"another"), ("ce_id", None), ("ce_source", b"\xff"), ("x", b"1")]
    assert ce_attributes(headers) == {"type": "t"}
    assert ce_attributes(None) == {}


@pytest.mark.parametrize("seed", range(3))
def test_record_decodes_to_the_event_of_its_parts(seed: int) -> None:
    for event in membership_log(60, 9, seed):
        key, value, record_headers = encode_event(event)
        record = Record.of(0, 0, key, value, record_headers)
        assert read(record) == decode_event(key, value, ce_attributes(record_headers)) == event
