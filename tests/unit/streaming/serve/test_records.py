from __future__ import annotations

import msgspec
import pytest

from streaming.records.codec import encode
from streaming.serve import records as record_module
from streaming.serve.records import TopicRecord, UnusableRecord, assignment_of, round_of
from tests.support.feed import ASSIGNMENTS, diff_id, records
from tests.support.histories import Group


def test_a_record_of_a_round_is_summarised() -> None:
    diff = Group("g", {"t": 6}, 1).diffs(3)[2]
    (record,) = records([diff])
    assert round_of(record) == record_module.summarise(diff_id(diff), diff)


def test_an_assignment_is_of_the_group_in_its_key() -> None:
    group = Group("g", {"t": 6}, 1)
    group.diffs(3)
    latest = group.latest()
    record = TopicRecord(ASSIGNMENTS, 0, 0, b"g", encode(latest), None)
    assert assignment_of(record) == ("g", latest)
    gone = msgspec.structs.replace(record, value=None)
    assert assignment_of(gone) == ("g", None)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": None}, "header ce_id: missing"),
        ({"id": ""}, "header ce_id: missing"),
        ({"value": None}, "value: missing"),
        ({"value": b"{"}, "value: Input data was truncated"),
        ({"value": b"\xff"}, "value: 'utf-8' codec"),
    ],
)
def test_invalid_diff_is_refused(fields: dict[str, bytes | None], message: str) -> None:
    (record,) = records(Group("g", {"t": 6}, 1).diffs(1))
    with pytest.raises(UnusableRecord, match=message):
        round_of(msgspec.structs.replace(record, **fields))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (None, b"{}", "key: missing"),
        (b"\xff", b"{}", "key: 'utf-8' codec"),
        (b"\xff", None, "key: 'utf-8' codec"),
        (b"g", b"null", "value: Expected `object`"),
    ],
)
def test_invalid_assignment_is_refused(key: bytes | None, value: bytes | None, message: str) -> None:
    with pytest.raises(UnusableRecord, match=message):
        assignment_of(TopicRecord(ASSIGNMENTS, 0, 0, key, value, None))
