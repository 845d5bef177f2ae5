from typing import Any

import pytest
from starlette.requests import Request

from streaming.serve.openapi import Parameter, choice, decode_query, flag, integer, moment, text
from streaming.serve.problems import Problem


def decode_parameters(query: str, *parameters: Parameter) -> dict[str, Any]:
    request = Request({"type": "http", "query_string": query.encode(), "headers": []})
    return decode_query(request, parameters)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", None),
        ("at=", None),
        ("at=1700000000000", 1_700_000_000_000),
        ("at=1700000000", 1_700_000_000_000),
        ("at=2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("at=2023-11-14T22:13:20.5%2B00:00", 1_700_000_000_500),
        ("at=2023-11-14T23:13:20+01:00", 1_700_000_000_000),
        ("at=2023-11-14T22:13:20", 1_700_000_000_000),
    ],
)
def test_moment_parameters_are_read_as_milliseconds(query: str, expected: int | None) -> None:
    assert decode_parameters(query, moment("at", "")) == {"at": expected}


@pytest.mark.parametrize("value", ["-1", "1.5", "٣", "1e3", "99999999999999999999", "x", " 1", "9" * 19])
def test_invalid_numbers_are_refused(value: str) -> None:
    with pytest.raises(Problem) as refused:
        decode_parameters(f"n={value}", integer("n", ""))
    assert (refused.value.status, refused.value.members) == (400, {"parameter": "n"})


def test_longest_milliseconds_are_accepted() -> None:
    assert decode_parameters("at=8640000000000000", moment("at", "")) == {"at": 8_640_000_000_000_000}
    with pytest.raises(Problem, match="'86400000000000000' is neither RFC 3339"):
        decode_parameters("at=86400000000000000", moment("at", ""))


@pytest.mark.parametrize(
    ("value", "accepted"), [("3", True), ("2", False), (f"{2**53}", True), (f"{2**53 + 1}", False)]
)
def test_number_out_of_range_is_refused(value: str, accepted: bool) -> None:
    if accepted:
        assert decode_parameters(f"n={value}", integer("n", "", minimum=3)) == {"n": int(value)}
    else:
        with pytest.raises(Problem, match=f"n: '{value}' is not a whole number in 3…9007199254740992"):
            decode_parameters(f"n={value}", integer("n", "", minimum=3))


def test_a_missing_or_empty_parameter_is_none() -> None:
    values = [decode_parameters(query, integer("n", "")) for query in ("", "n=", "n=0")]
    assert values == [{"n": None}, {"n": None}, {"n": 0}]
    assert decode_parameters("view=", choice("view", ("diff", "summary"), "")) == {"view": None}
    assert decode_parameters("name=x", text("name", ""), text("other", "")) == {"name": "x", "other": None}


def test_flag_accepts_true_and_false_only() -> None:
    values = [decode_parameters(f"open={value}", flag("open", ""))["open"] for value in ("true", "false", "")]
    assert values == [True, False, None]
    with pytest.raises(Problem, match="open: '1' is not one of true, false"):
        decode_parameters("open=1", flag("open", ""))


def test_header_parameters_are_not_query_parameters() -> None:
    with pytest.raises(Problem, match="seq: no such parameter; there are none"):
        decode_parameters("seq=1", integer("seq", "", location="path"))


def test_refusal_quotes_at_most_60_characters() -> None:
    for length, shown in ((60, "x" * 60), (61, "x" * 60 + "…")):
        with pytest.raises(Problem) as refused:
            decode_parameters(f"view={'x' * length}", choice("view", ("a", "b"), ""))
        assert refused.value.detail == f"view: {shown!r} is not one of a, b"
        with pytest.raises(Problem) as refused:
            decode_parameters("x" * length, integer("limit", ""), moment("from", ""))
        assert refused.value.detail == f"{shown}: no such parameter; there are from, limit"
    with pytest.raises(Problem, match="a: no such parameter; there are none"):
        decode_parameters("a=1")
