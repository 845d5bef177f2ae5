"""Fuzzes groups whose state is split into small well-typed records: KIP-848 consumers, share, and Streams groups."""

from struct import pack

from hypothesis import strategies as st

from tests.fuzz.case import Case
from tests.fuzz.mutate import EDGE_NUMBERS
from tests.support.offsets_topic import compact_bytes, elements, string

#: Maximum length of an array: far more than a JVM writes, and few enough for small cases.
_MAX_ARRAY_LENGTH = 20

_int32 = st.sampled_from([edge for edge in EDGE_NUMBERS if -(2**31) <= edge < 2**31] + [1, 2, 3, 3, 3])
_partition = st.sampled_from([0, 1, 2, 3, 2**31 - 1])
_name = st.sampled_from(["t", "u", "0", "é", ""])
_text = st.one_of(st.none(), _name).map(compact_bytes)


def _concatenated(*parts: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.tuples(*parts).map(b"".join)


def _numbers(numbers: list[int]) -> bytes:
    return elements(*(pack(">i", number) for number in numbers))


def _shares(name: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Return a strategy for an array of structs, each of which has a name and partitions."""
    share = _concatenated(name, st.lists(_partition, max_size=4).map(_numbers), st.just(b"\0"))
    return st.lists(share, max_size=3).map(lambda parts: elements(*parts))


_number = _int32.map(lambda number: pack(">i", number))
_texts = st.lists(_name.map(compact_bytes), max_size=3).map(lambda parts: elements(*parts))
_partitions_by_topic = _shares(st.sampled_from([b"A" * 16, b"B" * 16, bytes(16)]))
_tasks = _shares(_name.map(compact_bytes))
_progress = _concatenated(_number, _number, st.integers(-1, 4).map(lambda state: pack(">b", state)))
_client = _concatenated(_name.map(compact_bytes), _name.map(compact_bytes))
_topic_info = _concatenated(_name.map(compact_bytes), _number, st.just(pack(">h", 1) + elements() + b"\0"))
_topic_infos = st.lists(_topic_info, max_size=2).map(lambda parts: elements(*parts))
_subtopology = _concatenated(
    *(_name.map(compact_bytes), _texts, _texts, _topic_infos, _texts, _topic_infos), st.just(elements() + b"\0")
)
_endpoint = st.sampled_from([b"\xff", b"\x01" + compact_bytes("h") + pack(">h", -1) + b"\0"])
#: Bytes after a value's fields: no tagged fields, a known tagged field, or an unknown tagged field.
_tags = st.sampled_from([b"\0", b"\x01\x00\x04" + pack(">i", 3), b"\x01\x00\x05\x01" + pack(">i", 9), b"\x01\x07\x00"])

#: Record type → its value's fields; ``_TYPES_WITH_MEMBER_KEY`` lists types whose key names a member or pattern.
_VALUES: dict[str, dict[int, st.SearchStrategy[bytes]]] = {
    "consumer": {
        3: _number,
        5: _concatenated(_text, _text, _client, _texts, _text, _number, _text),
        6: _number,
        7: _partitions_by_topic,
        8: _concatenated(_progress, _partitions_by_topic, _partitions_by_topic),
        16: _texts,
    },
    "share": {
        10: _concatenated(_text, _client, _texts),
        11: _number,
        12: _number,
        13: _partitions_by_topic,
        14: _concatenated(_progress, _partitions_by_topic),
    },
    "streams": {
        17: _concatenated(_number, st.just(pack(">q", 1))),
        19: _concatenated(_text, _text, _client, _number, _number, _name.map(compact_bytes), _endpoint),
        20: _number,
        21: _concatenated(_tasks, _tasks, _tasks),
        22: _concatenated(_progress, _tasks, _tasks, _tasks, _tasks),
        23: _concatenated(_number, st.lists(_subtopology, max_size=2).map(lambda parts: elements(*parts))),
    },
}
_TYPES_WITH_MEMBER_KEY = {5, 7, 8, 10, 13, 14, 16, 19, 21, 22}


@st.composite
def split_group_records(draw: st.DrawFn) -> Case:
    """Return a strategy for the records of one group, in batches of equal timestamps."""
    values = _VALUES[draw(st.sampled_from(sorted(_VALUES)))]
    case: Case = []
    at = 1_700_000_000_000
    for _ in range(draw(st.integers(1, _MAX_ARRAY_LENGTH))):
        at += draw(st.sampled_from([0, 0, 0, 1, 10_000]))
        number = draw(st.sampled_from(sorted(values)))
        key = pack(">h", number) + string("g")
        if number in _TYPES_WITH_MEMBER_KEY:
            key += string(draw(st.sampled_from(["a", "b", "t"])))
        value = pack(">h", 0) + draw(values[number]) + draw(_tags)
        case += [pack(">q", at), key, draw(st.sampled_from([value, value, value, None]))]
    return case
