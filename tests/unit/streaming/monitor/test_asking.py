"""Who answers for a round: native code or Python. That both give the same is in tests/property."""

from __future__ import annotations

from typing import Any

import pytest

from streaming.monitor import asking
from streaming.monitor.group import apply
from streaming.monitor.state import MemberState, TopicState
from tests.support.histories import Log, play

ALIKE = {"assignors": ["range"]}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether native code had an answer, each time that it was asked."""
    native = pytest.importorskip("rebalance_kernel", reason="built where there is cargo")
    found: list[bool] = []

    def ask(*arguments: Any) -> object:
        answer = native.round_played(*arguments)
        found.append(answer is not None)
        return answer

    monkeypatch.setattr(asking, "play", ask)
    return found


def test_joins_leaves_and_growth_of_a_plain_group_are_for_native_code(answers: list[bool]) -> None:
    log = Log()
    play([log.topics(t=3), log.join("a"), log.join("b"), log.leave("a"), log.fence("b"), log.join("c")])
    play([log.topics(t=3), log.join("a"), log.topics(t=5)])
    assert answers == [True] * 6


def test_each_cooperative_round_is_asked_for(answers: list[bool]) -> None:
    log, cooperative = Log(), {"assignors": ["cooperative-sticky"]}
    play([log.topics(t=3), log.join("a", **cooperative), log.join("b", **cooperative)])
    assert answers == [True] * 3


@pytest.mark.parametrize(
    "fields",
    [
        {"rack_id": "r"},
        {"topics": ["u"]},
        {"member_id": "ç"},
        {"group_instance_id": "ç"},
        {"assignors": ["mine", "range"]},
    ],
)
def test_what_native_code_does_not_know_is_for_python(answers: list[bool], fields: dict[str, Any]) -> None:
    log = Log()
    topics = fields.pop("topics", ["t"])
    state, _ = play([log.topics(t=3, u=1), log.join("a", **ALIKE), log.join("b", **ALIKE)])
    event = log.join(fields.pop("member_id", "c"), *topics, **ALIKE | fields)
    after, outputs = apply(state, event)
    assert (len(outputs), after is state) == (2, False)
    assert answers == [True, True, "mine" in str(event)]


def test_a_claim_is_for_python(answers: list[bool]) -> None:
    log = Log()
    play([log.topics(t=3), log.join("a", owned={"t": [0]})])
    assert answers == []


def test_a_static_member_that_comes_back_with_nothing_is_for_python(answers: list[bool]) -> None:
    log, static = Log(), {"group_instance_id": "i"}
    state, _ = play([log.topics(t=3), log.join("a-1", **static, assignors=["range"]), log.join("b")])
    state, _ = play([log.join("a-2", **static, assignors=["sticky", "range"])], state)
    assert answers == [True] * 2
    assert state is not None
    assert [member.member_id for member in state.members] == ["a-2", "b"]


def test_a_topic_made_again_with_fewer_partitions_is_for_python(answers: list[bool]) -> None:
    log = Log()
    play([log.topics(t=3), log.join("a"), log.topics(t=1)])
    assert answers == [True, False]


@pytest.mark.parametrize(
    "before",
    [
        {"a": {"t": [0]}},  # nothing is said of b
        {"a": {"t": [0]}, "b": {"t": [0]}},
        {"a": {"t": [1, 0]}, "b": {}},
        {"a": {"t": [0, 0]}, "b": {}},
        {"a": {"t": []}, "b": {}},
        {"a": {"t": [3]}, "b": {}},
        {"a": {"u": [0]}, "b": {}},
        {"a": {"t": [0]}, "b": {}, "gone": {"t": [0]}},
        {"gone": {"t": [1, 0]}, "a": {}, "b": {}},
    ],
)
@pytest.mark.parametrize("assignor", ["range", "sticky", "cooperative-sticky"])
def test_shares_that_do_not_fit_are_for_python(before: dict[str, Any], assignor: str) -> None:
    native = pytest.importorskip("rebalance_kernel", reason="built where there is cargo")
    members = (MemberState("a", ["t"]), MemberState("b", ["t"]))
    assert native.round_played(assignor, {"t": TopicState(3)}, members, members, before, {}, True) is None


def test_an_assignor_of_someone_s_own_is_for_python() -> None:
    native = pytest.importorskip("rebalance_kernel", reason="built where there is cargo")
    members = (MemberState("a", ["t"]),)
    assert native.round_played("mine", {}, members, members, {"a": {}}, {}, True) is None
    assert native.round_played("range", {}, (), (), {}, {}, True) is None


def test_without_native_code_python_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "play", None)
    assert not asking.native()
    log = Log()
    state, _ = play([log.topics(t=3), log.join("a")])
    assert state is not None
    assert state.members[0].owned == {"t": [0, 1, 2]}


@pytest.mark.parametrize(
    ("lists", "assignor"),
    [
        ([[], []], "range"),
        ([["sticky", "range"], ["sticky", "range"]], "sticky"),
        ([["sticky", "range"], ["range"]], "range"),
    ],
)
def test_a_classic_group_votes(lists: list[list[str]], assignor: str) -> None:
    members = [MemberState(str(place), ["t"], assignors) for place, assignors in enumerate(lists)]
    assert asking.classic_assignor(members) == assignor


def test_consumer_members_name_the_assignor_of_their_group() -> None:
    modern = [MemberState(name, ["t"], [name], group_protocol="consumer") for name in ("range", "uniform")]
    old = MemberState("c", ["t"], ["sticky"])
    assert asking.protocol([old]) == "classic"
    assert asking.protocol([old, *modern]) == "consumer"
    assert asking.consumer_assignor([old]) == "uniform"
    assert asking.consumer_assignor([old, modern[0]]) == "range"


def test_in_a_consumer_group_an_eager_client_keeps_what_the_coordinator_gave_it() -> None:
    """A classic member of a group under migration: the coordinator starts from its target, not from claims."""
    log = Log()
    events = [
        log.topics(t=5),
        log.join("a", group_protocol="consumer"),
        log.join("old", assignors=["range"]),
        log.join("b", group_protocol="consumer"),
    ]
    state, _ = play(events)
    assert state is not None
    before = {"a": {"t": [2]}, "old": {"t": [0, 3]}, "b": {}}
    given = asking.target(state, "uniform", state.members, before)
    assert {member.member_id: member.owned for member in given} == before | {"b": {"t": [1, 4]}}
