"""The command ``assign``: its input, output and exit status."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from assignors.errors import BadInput, InvalidGroup, UnknownAssignor
from assignors.model import Member, Topic
from streaming.cli import assignment
from streaming.cli.assignment import GroupQuery, GroupTooLarge, assignment_answer, comparison_answer, parse_group
from streaming.cli.json_lines import MalformedJson
from tests.unit.streaming.cli.conftest import Command, json_answers

CONTRACT_EXAMPLE = {
    "protocol": "classic",
    "assignor": "cooperative-sticky",
    "topics": {"t0": {"partitions": 3, "racks": [["r1"], ["r2"], ["r1"]]}, "t1": {"partitions": 2}},
    "members": [
        {"memberId": "c1", "instanceId": None, "rackId": "r1", "topics": ["t0", "t1"]}
        | {"owned": {"t0": [0]}, "generation": 4}
    ],
}
RANGE = {
    "assignor": "range",
    "topics": {"日本": {"partitions": 3}},
    "members": [{"memberId": "é", "topics": ["日本"]}, {"memberId": "😀", "topics": ["日本"]}],
}
RANGE_ASSIGNMENT = {"assignment": {"é": {"日本": [0, 1]}, "😀": {"日本": [2]}}}


def error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"type": kind, "message": message}}


def test_example_of_the_docs_is_answered(command: Command) -> None:
    answer = {"assignment": {"c1": {"t0": [0, 1, 2], "t1": [0, 1]}}}
    assert json_answers(command, "assign", lines=[CONTRACT_EXAMPLE]) == (0, [answer])


def test_empty_input_gives_empty_output(command: Command) -> None:
    for nothing in ("", "\n", "\r\n  \n", "\ufeff"):
        assert command("assign", stdin=nothing) == (0, "", "")


def test_non_ascii_names_are_answered(command: Command) -> None:
    """Input is read correctly with a byte-order mark, CRLF, blank lines, other scripts, and no line feed at its end."""
    lines = [f"\ufeff{json.dumps(RANGE)}\r", "\r", " \t\r", json.dumps(RANGE)]
    assert json_answers(command, "assign", lines=lines) == (0, [RANGE_ASSIGNMENT, RANGE_ASSIGNMENT])


def test_invalid_lines_give_errors_in_order(command: Command) -> None:
    base = {"assignor": "range", "topics": {"t": {"partitions": 2}}, "members": [{"memberId": "a", "topics": ["t"]}]}
    member = base["members"][0]
    cases: list[tuple[Any, dict[str, Any]]] = [
        (base, {"assignment": {"a": {"t": [0, 1]}}}),
        ("{", error("MalformedJson", "line: Input data was truncated")),
        (
            '{"topics": {"t": {"partitions": NaN}}, "members": []}',
            error("MalformedJson", "line: JSON is malformed: invalid character (byte 32)"),
        ),
        ("[]", error("BadInput", "line: expected `object`, got `array`")),
        (
            {**base, "members": [member, member]},
            error("InvalidGroup", "members[1].memberId: 'a' is listed twice, first as members[0]"),
        ),
        (
            {**base, "members": [{**member, "owned": {"t": [2]}}]},
            {"assignment": {"a": {"t": [0, 1]}}},  # the topic was created again: range ignores owned partitions
        ),
        (
            {**base, "assignor": "fair"},
            error(
                "UnknownAssignor",
                "assignor: 'fair' is not one of range, roundrobin, sticky, cooperative-sticky (protocol classic)",
            ),
        ),
        (base, {"assignment": {"a": {"t": [0, 1]}}}),
    ]
    answers = json_answers(command, "assign", lines=[case for case, _ in cases])
    assert answers == (2, [answer for _, answer in cases])


def test_too_long_line_gives_an_error(command: Command) -> None:
    limit = "longer than 300 bytes, the limit; shorten it or raise --max-line-bytes"
    first, third = (error("LineTooLong", f"line {number}: {limit}") for number in (1, 3))
    answers = json_answers(command, "assign", "--max-line-bytes", "300", lines=["x" * 301, RANGE, "y" * 5000])
    assert answers == (2, [first, RANGE_ASSIGNMENT, third])


def test_every_protocol_and_assignor_is_answered(command: Command) -> None:
    zookeeper_request = {
        "protocol": "zookeeper",
        "assignor": "roundrobin",
        "topics": {"t": {"partitions": 3}},
        "members": [{"memberId": "c1", "streams": {"t": 2}}],
    }
    consumer = {
        "protocol": "consumer",
        "assignor": "uniform",
        "topics": {"t": {"partitions": 2, "topicId": "AAAAAAAAAAAAAAAAAAAAAQ"}},
        "members": [{"memberId": "c1", "topics": ["t", "unknown"]}],
    }
    status, answers = json_answers(command, "assign", lines=[zookeeper_request, consumer])
    assert (status, sorted(answers[0]["assignment"])) == (0, ["c1-0", "c1-1"])
    assert answers[1] == {"assignment": {"c1": {"t": [0, 1]}}}


def test_explain_adds_reasons(command: Command) -> None:
    _, (answer,) = json_answers(command, "assign", "--explain", lines=[RANGE])
    assert answer["assignment"] == RANGE_ASSIGNMENT["assignment"]
    assert [answer["members"][member]["decisions"][0]["rule"] for member in ("é", "😀")] == ["range", "range"]


TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def group_line(**fields: Any) -> bytes:
    base = {"assignor": "range", "topics": {"t0": {"partitions": 3}}, "members": [{"memberId": "c1", "topics": ["t0"]}]}
    return json.dumps({**base, **fields}).encode()


def test_omitted_fields_have_defaults() -> None:
    assert parse_group(group_line()) == GroupQuery(
        protocol="classic",
        assignor="range",
        topics={"t0": Topic("t0", 3, None, None)},
        members=[Member("c1", ("t0",), None, None, {}, -1, None)],
    )


def test_all_fields_are_read_and_unknown_ones_ignored() -> None:
    group = parse_group(
        group_line(
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
        parse_group(group_line(**fields))
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
        parse_group(group_line(**fields))
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
        parse_group(group_line(members=two_members))
    with pytest.raises(GroupTooLarge, match="members: 4 streams in all, the limit is 3"):
        parse_group(group_line(protocol="zookeeper", members=[{"memberId": "a", "streams": {"t0": 4}}]))
    with pytest.raises(GroupTooLarge, match="topics: 6 partitions in all, the limit is 5"):
        parse_group(group_line(topics={"a": {"partitions": 3}, "b": {"partitions": 3}}))


MEMBERS = [
    {"memberId": "a", "topics": ["t"], "owned": {"t": [0, 3]}},
    {"memberId": "b", "topics": ["t"], "owned": {"t": [1, 2]}},
]


def line(**fields: Any) -> bytes:
    return json.dumps({"topics": {"t": {"partitions": 4}}, "members": MEMBERS, **fields}).encode()


def test_assignment_answer_lists_every_member() -> None:
    members = [{"memberId": "a", "topics": []}, {"memberId": "b", "topics": ["none"]}]
    assert assignment_answer(line(assignor="roundrobin", members=members)) == {"assignment": {"a": {}, "b": {}}}
    assert assignment_answer(line(assignor="range", members=[])) == {"assignment": {}}


def test_explained_answer_lists_the_changes_of_each_member() -> None:
    response = assignment_answer(line(assignor="range"), explained=True)
    assert response["members"]["a"] == {
        "owned": {"t": [0, 3]},
        "revoked": {"t": [3]},
        "assigned": {"t": [1]},
        "kept": {"t": [0]},
        "decisions": (
            {"rule": "range", "topic": "t", "partitions": (0, 1), "why": "subscriber 1 of 2: 2 each"},
            {
                "rule": "recomputed",
                "topic": "t",
                "partitions": (3,),
                "why": "given to b: this assignor doesn't look at what was owned",
            },
        ),
    }


def test_zookeeper_assignment_accepts_known_kafka_versions() -> None:
    members = [{"memberId": "b", "streams": {"t": 2}}, {"memberId": "a", "streams": {"t": 1}}]
    request = {"protocol": "zookeeper", "assignor": "range", "members": members}
    expected = {"assignment": {"a-0": {"t": [0, 1]}, "b-0": {"t": [2]}, "b-1": {"t": [3]}}}
    assert assignment_answer(line(**request)) == assignment_answer(line(**request, kafkaVersion="0.8.2")) == expected
    with pytest.raises(BadInput, match="kafkaVersion: '7'"):
        assignment_answer(line(**request, kafkaVersion="7"))


def test_unknown_protocol_is_refused() -> None:
    with pytest.raises(UnknownAssignor, match="protocol: 'carrier-pigeon' is not one of classic"):
        assignment_answer(line(assignor="range", protocol="carrier-pigeon"))
    with pytest.raises(UnknownAssignor, match="protocol: 'carrier-pigeon' is not one of classic"):
        comparison_answer(line(protocol="carrier-pigeon"))


def test_compare_lists_every_client_assignor() -> None:
    compared = comparison_answer(line())["compared"]
    assert compared["range"] == {
        "assignment": {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}},
        "revoked": 2,
        "assigned": 2,
        "kept": 2,
        "moved": 2,
        "most": 2,
        "least": 2,
    }
    moves = [(name, answer["moved"]) for name, answer in compared.items()]
    assert moves == [("range", 2), ("roundrobin", 2), ("sticky", 0), ("cooperative-sticky", 0)]


def test_order_of_owned_partitions_does_not_matter() -> None:
    claims_in_reverse_order = [member | {"owned": {"t": member["owned"]["t"][::-1]}} for member in MEMBERS]
    assert comparison_answer(line(members=claims_in_reverse_order)) == comparison_answer(line())


def test_comparison_shows_the_error_of_an_assignor() -> None:
    members = [{"memberId": "a", "streams": {"t": 1, "u": 1}}, {"memberId": "b", "streams": {"t": 1}}]
    topics = {"t": {"partitions": 2}, "u": {"partitions": 1}}
    request = line(protocol="zookeeper", kafkaVersion="0.8.2", topics=topics, members=members)
    compared = comparison_answer(request)["compared"]
    assert compared["roundrobin"]["error"]["type"] == "InvalidGroup"
    assert compared["range"]["assignment"] == {"a-0": {"t": [0], "u": [0]}, "b-0": {"t": [1]}}


def line_of_owners(assignor: str, *, c1_topics: Sequence[str] = ("t",), **owned: dict[str, list[int]]) -> bytes:
    """Return the line of a group whose topics have 3 and 2 partitions, with the partitions that members own."""
    members = [
        {"memberId": name, "topics": c1_topics if name == "c1" else ["t"], "owned": share, "generation": 1}
        for name, share in owned.items()
    ]
    return line(assignor=assignor, topics={"t": {"partitions": 3}, "u": {"partitions": 2}}, members=members)


@pytest.mark.parametrize(
    ("assignor", "answered"),
    [
        ("range", {"c1": {"t": [0, 1]}, "c2": {"t": [2]}}),
        ("roundrobin", {"c1": {"t": [0, 2]}, "c2": {"t": [1]}}),
        ("sticky", {"c1": {"t": [1, 2]}, "c2": {"t": [0]}}),
        ("cooperative-sticky", {"c1": {"t": [1, 2]}, "c2": {"t": [0]}}),
    ],
)
def test_removed_partitions_are_dropped(assignor: str, answered: dict[str, dict[str, list[int]]]) -> None:
    response = assignment_answer(line_of_owners(assignor, c1={"t": [1, 2, 7, 8, 9]}, c2={}), explained=True)
    assert response["assignment"] == answered
    why = "t has 3 partitions: dropped"
    decision = {"rule": "no-such-partition", "topic": "t", "partitions": (7, 8, 9), "why": why}
    assert decision in response["members"]["c1"]["decisions"]


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_sticky_keeps_owners_with_different_subscriptions(assignor: str) -> None:
    request = line_of_owners(assignor, c1_topics=["t", "u"], c1={"t": [0, 7], "u": [1]}, c2={"t": [1, 8]})
    response = assignment_answer(request, explained=True)
    assert response["assignment"] == {"c1": {"t": [0, 7], "u": [0, 1]}, "c2": {"t": [1, 2, 8]}}
    reasons = [(decision["rule"], decision["why"]) for decision in response["members"]["c2"]["decisions"]]
    assert reasons.count(("no-such-partition", "t has 3 partitions; this assignor keeps what was owned")) == 1


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_sticky_refuses_owned_partitions_that_do_not_exist(assignor: str) -> None:
    with pytest.raises(InvalidGroup) as refused:
        assignment_answer(line_of_owners(assignor, c1={"t": [7, 8]}, c2={"t": [9]}))
    assert str(refused.value) == (
        "members: some own partitions that do not exist (t has 3), so others can't be "
        "assigned; Kafka's assignor fails with IllegalStateException"
    )
