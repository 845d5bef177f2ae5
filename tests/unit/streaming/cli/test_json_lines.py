import io
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from assignors.errors import BadInput
from streaming.cli import checking
from streaming.cli.json_lines import answer_lines, read_lines


def read(data: bytes, limit: int = 100) -> list[bytes | None]:
    return list(read_lines(io.BytesIO(data), limit))


def test_line_ends_and_byte_order_mark_are_not_part_of_lines() -> None:
    assert read(b"\xef\xbb\xbfa\r\n\nb\n\xef\xbb\xbfc") == [b"a", b"", b"b", b"\xef\xbb\xbfc"]
    assert read(b"") == []


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_line_limit_excludes_the_line_end(end: bytes) -> None:
    assert read(b"12345" + end, 5) == [b"12345"]
    assert read(b"123456" + end, 5) == [None]
    assert read(b"1234567" + end, 5) == [None]
    assert read(b"12345678901" + end, 5) == [None]
    assert read(b"1234567890\nab\n123456\r\ncd" + end, 5) == [None, b"ab", None, b"cd"]


def test_huge_line_is_read_in_small_chunks(tmp_path: Path) -> None:
    with (tmp_path / "lines").open("w+b") as file:
        file.seek(64 * 1024 * 1024)  # a sparse file
        file.write(b"\n7\n")
        file.seek(0)
        tracemalloc.start()
        lines = list(read_lines(file, 1 << 20))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert lines == [None, b"7"]
    assert peak < 8 * 1024 * 1024


def test_failing_line_gets_an_error_and_reading_continues() -> None:
    def half(data: bytes) -> int:
        if data == b"odd":
            raise BadInput("number: odd")
        return int(data) // 2

    written: list[Any] = []
    status = answer_lines(io.BytesIO(b"4\nodd\n \n123456789\n8\n"), half, written.append, limit=5)
    assert status == 2
    assert written == [
        2,
        {"error": {"type": "BadInput", "message": "number: odd"}},
        {
            "error": {
                "type": "LineTooLong",
                "message": "line 4: longer than 5 bytes, the limit; shorten it or raise --max-line-bytes",
            }
        },
        4,
    ]
    assert answer_lines(io.BytesIO(b"4\n"), half, written.append) == 0


GROUP = '"assignor": "range", "topics": {"t": {"partitions": 2}}, "members": [{"memberId": "a", "topics": ["t"]}]'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f'{{{GROUP}, "assignor": "sticky"}}', "line: an object has the key 'assignor' twice"),
        (f'{{{GROUP}, "assignment": {{"a": {{"t": [0], "t": [1]}}}}}}', "line: an object has the key 't' twice"),
        (f'{{{GROUP}, "more": {{"x": 1, "x": 2}}}}', "line: an object has the key 'x' twice"),
        (f'{{{GROUP}, "more": {"[" * 5000}}}', "line: "),
        (f'{{{GROUP}, "more": {"[" * 5000}{"]" * 5000}}}', "line: brackets are nested too deep"),
        (f'{{{GROUP}, "more": {"9" * 5000}}}', "line: a number has thousands of digits"),
        (f'{{{GROUP}, "more": NaN}}', "line: JSON is malformed"),
        ('{"brokers": "0", "placement": {"0": [0], "0": [0]}}', "line: an object has the key '0' twice"),
        ('{"brokers": "0", "placement": {"0": [1e999]}}', "line: Number out of range"),
    ],
)
def test_repeated_or_unknown_fields_are_refused(line: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        checking.check_answer(line.encode())
    assert str(error.value).startswith(message)
