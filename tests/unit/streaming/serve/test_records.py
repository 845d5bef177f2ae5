import msgspec
import pytest

from streaming.serve.records import TopicRecord, UnusableRecord, parse_assignment, parse_round
from tests.support.feed import ASSIGNMENTS, records
from tests.support.histories import Group


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
        parse_round(msgspec.structs.replace(record, **fields))


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
        parse_assignment(TopicRecord(ASSIGNMENTS, 0, 0, key, value, None))
