from __future__ import annotations

import pytest
from starlette.requests import Request

from streaming.serve import params
from streaming.serve.problems import Problem


def request(query: str) -> Request:
    return Request({"type": "http", "query_string": query.encode(), "headers": []})


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", None),
        ("at=", None),
        ("at=1700000000000", 1_700_000_000_000),
        ("at=2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("at=2023-11-14T22:13:20.5%2B00:00", 1_700_000_000_500),
        ("at=2023-11-14T23:13:20+01:00", 1_700_000_000_000),
        ("at=2023-11-14T22:13:20", 1_700_000_000_000),
    ],
)
def test_moments(query: str, expected: int | None) -> None:
    assert params.moment(request(query), "at") == expected


@pytest.mark.parametrize("text", ["-1", "1.5", "٣", "1e3", "99999999999999999999", "x"])
def test_numbers_are_read_strictly(text: str) -> None:
    with pytest.raises(Problem) as refused:
        params.whole(request(f"n={text}"), "n", None)
    assert (refused.value.status, refused.value.members) == (400, {"parameter": "n"})
