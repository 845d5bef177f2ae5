import json

import pytest

from streaming.freshness import ComponentHeartbeat, MalformedHeartbeat, decode_heartbeat, encode_heartbeat

_READ_POSITIONS = {0: 7, 3: 2**40}
_HEARTBEAT_TIMES = {"timestamp": 1_700_000_005_000, "up_to": 1_700_000_004_000, "every_ms": 5000}
HEARTBEAT = ComponentHeartbeat(
    part="collector", id="p.collector", state="running", by="offsets", positions=_READ_POSITIONS, **_HEARTBEAT_TIMES
)


def test_heartbeat_is_a_cloud_event_with_the_component_as_key() -> None:
    key, value, headers = encode_heartbeat(HEARTBEAT)
    assert key == b"collector/p.collector"
    assert json.loads(value) == {
        "part": "collector",
        "id": "p.collector",
        "state": "running",
        "timestamp": 1_700_000_005_000,
        "upTo": 1_700_000_004_000,
        "everyMs": 5000,
        "by": "offsets",
        "positions": {"0": 7, "3": 2**40},
    }
    assert dict(headers) == {
        "ce_specversion": b"1.0",
        "ce_type": b"rebalance.sign",
        "ce_id": b"collector/p.collector/1700000005000",
        "ce_source": b"rebalance-monitor/collector",
        "ce_time": b"2023-11-14T22:13:25.000Z",
        "content-type": b"application/json",
    }
    assert decode_heartbeat(key, value) == HEARTBEAT


def test_heartbeat_without_optional_fields_is_decoded() -> None:
    value = b'{"part":"stream","id":"s","state":"stopped","timestamp":2,"upTo":1,"everyMs":3,"of":"later"}'
    assert decode_heartbeat(b"stream/s", value) == ComponentHeartbeat(
        part="stream", id="s", state="stopped", timestamp=2, up_to=1, every_ms=3
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("part", "serve"),
        ("state", "well"),
        ("timestamp", 2**70),
        ("timestamp", -1),
        ("upTo", "1"),
        ("everyMs", 86_400_001),
        ("positions", {"0": -1}),
        ("positions", {"x": 1}),
        ("id", None),
    ],
)
def test_heartbeat_with_an_invalid_field_is_ignored(field: str, value: object) -> None:
    key, valid_value, _ = encode_heartbeat(HEARTBEAT)
    with pytest.raises(MalformedHeartbeat, match="not a component heartbeat: "):
        decode_heartbeat(key, json.dumps(json.loads(valid_value) | {field: value}).encode())


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_unrelated_json_is_ignored(value: bytes) -> None:
    with pytest.raises(MalformedHeartbeat):
        decode_heartbeat(b"collector/p.collector", value)


@pytest.mark.parametrize("key", [None, b"", b"collector/other", b"stream/p.collector"])
def test_record_under_another_groups_key_is_refused(key: bytes | None) -> None:
    _, value, _ = encode_heartbeat(HEARTBEAT)
    with pytest.raises(MalformedHeartbeat, match="key"):
        decode_heartbeat(key, value)
