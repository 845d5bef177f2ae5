"""A table of assignors takes new rows in, and says which ones are older."""

from __future__ import annotations

import pytest

from benchmarks._assignor_shapes import shapes
from benchmarks._assignor_table import Row, line_of, merged, read_line, summary

FIRST, SECOND, THIRD = (str(shape) for shape in list(shapes("classic", quick=True))[:3])
HEAD = [
    "by the wall clock",
    "",
    "| assignor | members × ratio | topics | subscriptions | change | racks | …",
    "|---|",
]
TITLE = ["## Assignors", "", "Ours/JVM over 2 rows: …", ""]


def _row(ours: float, jvm: float | None) -> Row:
    return {"ours": ours, "jvm": jvm, "peer": None}


def _lines(**rows: float) -> dict[str, str]:
    names = {"first": FIRST, "second": SECOND, "third": THIRD}
    return {names[at]: line_of(names[at], _row(ours, 2), "classic") for at, ours in rows.items()}


def _merge(
    head: list[str], rows: dict[str, str], new_head: list[str], new: dict[str, str]
) -> tuple[list[str], dict[str, str]]:
    return merged("\n".join([*TITLE, *head, *rows.values()]), new_head, new, [FIRST, SECOND, THIRD])


def test_new_rows_replace_their_like_and_stand_in_order() -> None:
    head, lines = _merge(HEAD, _lines(first=1, third=3), HEAD, _lines(second=5, third=7))
    assert head == HEAD
    assert list(lines.items()) == list(_lines(first=1, second=5, third=7).items())


def test_rows_measured_otherwise_are_marked_until_they_are_measured_again() -> None:
    other = ["in processor time", *HEAD[1:]]
    head, lines = _merge(HEAD, _lines(first=1, second=2), other, _lines(second=5))
    assert head[:3] == ["in processor time", "", "°: measured before, otherwise. by the wall clock"]
    assert lines[FIRST] == _lines(first=1)[FIRST].replace("range |", "range ° |")
    assert lines[SECOND] == _lines(second=5)[SECOND]
    again = _merge(head, lines, other, _lines(third=1))
    assert again[0] == head
    assert list(again[1]) == [FIRST, SECOND, THIRD]
    assert again[1][FIRST] == lines[FIRST]
    assert _merge(head, lines, other, _lines(first=4)) == (other, _lines(first=4, second=5))


def test_rows_of_shapes_that_are_measured_no_more_go() -> None:
    gone = {"gone": _lines(first=1)[FIRST].replace("range", "gone")}
    assert _merge(HEAD, gone, HEAD, _lines(first=1)) == (HEAD, _lines(first=1))


@pytest.mark.parametrize("protocol", ["classic", "consumer", "zookeeper"])
@pytest.mark.parametrize(("jvm", "over"), [(2.5, None), (None, 30_000)])
def test_a_line_is_read_as_it_was_written(protocol: str, jvm: float | None, over: int | None) -> None:
    row: Row = {"ours": 1.25, "jvm": jvm, "peer": 7.0, "python": 3.5} | ({"over": over} if over else {})
    if protocol == "consumer" and over:
        return
    read = read_line(line_of(FIRST, row, protocol), protocol)
    assert read == {name: row[name] for name in read}
    assert summary({FIRST: read}) == summary({FIRST: {name: row[name] for name in read}})
