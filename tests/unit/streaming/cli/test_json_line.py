from __future__ import annotations

import json

import pytest

from assignors.errors import BadInput
from streaming.cli import assignment, checking
from streaming.cli.json_lines import MalformedJson

GROUP = '"assignor": "range", "topics": {"t": {"partitions": 2}}, "members": [{"memberId": "a", "topics": ["t"]}]'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f'{{{GROUP}, "assignor": "sticky"}}', "line: 'assignor' stands twice in one object"),
        (f'{{{GROUP}, "assignment": {{"a": {{"t": [0], "t": [1]}}}}}}', "line: 't' stands twice in one object"),
        (f'{{{GROUP}, "more": {{"x": 1, "x": 2}}}}', "line: 'x' stands twice in one object"),
        (f'{{{GROUP}, "more": {"[" * 5000}}}', "line: "),
        (f'{{{GROUP}, "more": {"[" * 5000}{"]" * 5000}}}', "line: brackets are nested too deep"),
        (f'{{{GROUP}, "more": {"9" * 5000}}}', "line: a number has thousands of digits"),
        (f'{{{GROUP}, "more": NaN}}', "line: JSON is malformed"),
        ('{"brokers": "0", "placement": {"0": [0], "0": [0]}}', "line: '0' stands twice in one object"),
        ('{"brokers": "0", "placement": {"0": [1e999]}}', "line: Number out of range"),
    ],
)
def test_repeated_or_unknown_fields_are_refused(line: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        checking.check_answer(line.encode())
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"generation": 2**31}, "members[0].generation: expected `int` <= 2147483647"),
        ({"generation": -(2**31) - 1}, "members[0].generation: expected `int` >= -2147483648"),
        ({"generation": 1.5}, "members[0].generation: expected `int`, got `float`"),
        ({"owned": {"t": [2**31]}}, "members[0].owned.t[0]: expected `int` <= 2147483647"),
        ({"owned": {"t": [-1]}}, "members[0].owned.t[0]: expected `int` >= 0"),
    ],
)
def test_numbers_are_those_of_kafkas_protocol(members: dict[str, object], message: str) -> None:
    line = {"topics": {"t": {"partitions": 2}}, "members": [{"memberId": "a", "topics": ["t"], **members}]}
    with pytest.raises(BadInput) as caught:
        assignment.parse_group(json.dumps(line).encode())
    assert str(caught.value) == message


def test_a_repeat_is_malformed_json() -> None:
    with pytest.raises(MalformedJson):
        assignment.parse_group(b'{"a": 1, "a": 2, "topics": {}, "members": []}')
