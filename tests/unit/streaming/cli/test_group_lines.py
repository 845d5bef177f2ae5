import json
from typing import Any

import pytest

from assignors.errors import BadInput, InvalidGroup
from assignors.model import Member, Topic
from streaming.cli import assignment
from streaming.cli.assignment import GroupQuery, GroupTooLarge, parse_group
from streaming.cli.json_lines import MalformedJson

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def line(**fields: Any) -> bytes:
    base = {"assignor": "range", "topics": {"t0": {"partitions": 3}}, "members": [{"memberId": "c1", "topics": ["t0"]}]}
    return json.dumps({**base, **fields}).encode()


def test_omitted_fields_have_defaults() -> None:
    assert parse_group(line()) == GroupQuery(
        protocol="classic",
        assignor="range",
        topics={"t0": Topic("t0", 3, None, None)},
        members=[Member("c1", ("t0",), None, None, {}, -1, None)],
    )


def test_all_fields_are_read_and_unknown_ones_ignored() -> None:
    group = parse_group(
        line(
            protocol="consumer",
            kafkaVersion="1.1",
            later="unknown",
            topics={"t0": {"partitions": 2, "racks": [["a", "b"], []], "topicId": TOPIC_ID, "x": 1}},
            members=[
                {
                    "memberId": "c",
                    "instanceId": "i",
                    "rackId": "a",
                    "topics": ["t0", "t9"],
                    "owned": {"t0": [1, 0], "t9": [77]},
                    "generation": 4,
                    "streams": None,
                    "y": [],
                }
            ],
        )
    )
    assert group == GroupQuery(
        "consumer",
        "range",
        {"t0": Topic("t0", 2, (("a", "b"), ()), TOPIC_ID)},
        [Member("c", ("t0", "t9"), "i", "a", {"t0": [1, 0], "t9": [77]}, 4)],
        "1.1",
    )


def member(**fields: Any) -> dict[str, Any]:
    return {"members": [{"memberId": "c1", "topics": ["t0"], **fields}]}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"topics": None}, "topics: expected `object`, got `null`"),
        ({"topics": {"t0": {}}}, "topics.t0.partitions: missing"),
        ({"topics": {"t0": {"partitions": -1}}}, "topics.t0.partitions: expected `int` >= 0"),
        ({"topics": {"t0": {"partitions": "3"}}}, "topics.t0.partitions: expected `int`, got `str`"),
        ({"topics": {"t0": {"partitions": 10**30}}}, "topics.t0.partitions: expected `int` <= 5000000"),
        ({"topics": {"a": {"partitions": 1}, "b": 7}}, "topics.b: expected `object`, got `int`"),
        ({"topics": {"t0": {"partitions": 1, "racks": ["r"]}}}, "topics.t0.racks[0]: expected `array`, got `str`"),
        ({"members": {}}, "members: expected `array`, got `object`"),
        ({"members": [7]}, "members[0]: expected `object`, got `int`"),
        ({"members": [{"topics": []}]}, "members[0].memberId: missing"),
        (member(topics="t0"), "members[0].topics: expected `array | null`, got `str`"),
        (member(topics=["t0", 5]), "members[0].topics[1]: expected `str`, got `int`"),
        (member(generation=2**31), "members[0].generation: expected `int` <= 2147483647"),
        (member(owned={"t0": [-1]}), "members[0].owned.t0[0]: expected `int` >= 0"),
        (member(owned={"t0": 3}), "members[0].owned.t0: expected `array`, got `int`"),
        ({"protocol": 3}, "protocol: expected `str`, got `int`"),
        ({"assignment": {"c1": {"t0": ["0"]}}}, "assignment.c1.t0[0]: expected `int`, got `str`"),
        (member(streams={"t0": 0}), "members[0].streams.t0: expected `int` >= 1"),
    ],
)
def test_wrong_types_name_the_field(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_group(line(**fields))
    assert (str(refused.value), refused.value.type) == (message, "BadInput")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"topics": {"t0": {"partitions": 2, "racks": [["a"]]}}}, "topics.t0.racks: 1 entries for 2 partitions"),
        (
            {"members": [{"memberId": "c", "topics": []}, {"memberId": "c", "topics": []}]},
            "members[1].memberId: 'c' is listed twice, first as members[0]",
        ),
        (member(owned={"t0": [1, 1]}), "members[0].owned.t0: a partition is listed twice"),
        ({"members": [{"memberId": "c"}]}, "members[0].topics: missing"),
        ({"protocol": "zookeeper"}, "members[0].streams: missing"),
        ({"protocol": "consumer"}, "topics.t0.topicId: missing"),
        (
            {"protocol": "consumer", "topics": {"t0": {"partitions": 1, "topicId": "?"}}},
            "topics.t0.topicId: '?' is not url-safe base64",
        ),
        (
            {"protocol": "consumer", "topics": {"t0": {"partitions": 1, "topicId": "AAAA"}}},
            "topics.t0.topicId: 'AAAA' has 3 bytes, not 16",
        ),
        (
            {"protocol": "consumer", "topics": {"t0": {"partitions": 1, "topicId": "+" * 22}}},
            f"topics.t0.topicId: '{'+' * 22}' is not url-safe base64",
        ),
        (  # spare bits of the last character: another text of the same Uuid
            {"protocol": "consumer", "topics": {n: {"partitions": 1, "topicId": "A" * 21 + n} for n in "QR"}},
            f"topics.R.topicId: {'A' * 21}R is also that of Q",
        ),
    ],
)
def test_contradictions_name_the_field(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidGroup) as refused:
        parse_group(line(**fields))
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        *((data, "") for data in (b"{", b"nonsense", b'{"topics": NaN}', b"\xff\xfe", b"{} {}", b'"\\ud800"')),
        (b"[" * 100_000, "brackets are nested too deep"),
        (b'{"topics": {"\xff": 1}}', "not UTF-8 (invalid start byte)"),
    ],
)
def test_invalid_json_is_refused_with_its_problem(data: bytes, message: str) -> None:
    with pytest.raises((MalformedJson, BadInput)) as refused:
        parse_group(data)
    assert str(refused.value).startswith(f"line: {message}")


def test_too_large_groups_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignment, "MAX_MEMBERS", 1)
    monkeypatch.setattr(assignment, "MAX_THREADS", 3)
    monkeypatch.setattr(assignment, "MAX_PARTITIONS", 5)
    two_members = [{"memberId": "a", "topics": []}, {"memberId": "b", "topics": []}]
    with pytest.raises(GroupTooLarge, match="members: 2 members, the limit is 1"):
        parse_group(line(members=two_members))
    with pytest.raises(GroupTooLarge, match="members: 4 streams in all, the limit is 3"):
        parse_group(line(protocol="zookeeper", members=[{"memberId": "a", "streams": {"t0": 4}}]))
    with pytest.raises(GroupTooLarge, match="topics: 6 partitions in all, the limit is 5"):
        parse_group(line(topics={"a": {"partitions": 3}, "b": {"partitions": 3}}))
