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


def test_a_number_of_milliseconds_is_as_long_as_a_date_of_javascript_at_most() -> None:
    assert params.moment(request("at=8640000000000000"), "at") == 8_640_000_000_000_000
    with pytest.raises(Problem, match="'86400000000000000' is neither RFC 3339"):
        params.moment(request("at=86400000000000000"), "at")


@pytest.mark.parametrize(
    ("text", "taken"), [("3", True), ("2", False), (f"{2**53}", True), (f"{2**53 + 1}", False)]
)
def test_a_whole_number_lies_between_its_least_and_what_json_keeps_exact(text: str, taken: bool) -> None:
    if taken:
        assert params.whole(request(f"n={text}"), "n", None, least=3) == int(text)
    else:
        with pytest.raises(Problem, match=f"n: '{text}' is no whole number in 3…9007199254740992"):
            params.whole(request(f"n={text}"), "n", None, least=3)


def test_a_parameter_that_is_left_out_or_empty_has_its_default() -> None:
    assert [params.whole(request(query), "n", 7) for query in ("", "n=", "n=0")] == [7, 7, 0]
    assert params.one_of(request("view="), "view", ("diff", "summary"), "summary") == "summary"


def test_digits_are_ascii_and_fit_the_history() -> None:
    assert [params.digits(text) for text in ("0", "007", "9" * 18)] == [0, 7, 10**18 - 1]
    assert [params.digits(text) for text in ("", "9" * 19, "٣", "-1", "1.0", " 1")] == [None] * 6


def test_what_was_asked_is_repeated_up_to_60_characters() -> None:
    for length, shown in ((60, "x" * 60), (61, "x" * 60 + "…")):
        with pytest.raises(Problem) as refused:
            params.one_of(request(f"view={'x' * length}"), "view", ("a", "b"), "a")
        assert refused.value.detail == f"view: {shown!r} is none of a, b"
        with pytest.raises(Problem) as refused:
            params.only(request("x" * length), ("limit", "from"))
        assert refused.value.detail == f"{shown}: no such parameter; there are from, limit"
    with pytest.raises(Problem, match="a: no such parameter; there are none"):
        params.only(request("a=1"), ())
