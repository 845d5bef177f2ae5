"""Who decides an event: native code or Python. That both give the same is in tests/property."""

from __future__ import annotations

import msgspec
import pytest

from streaming.monitor.decision import Decision, DenseAssignment, ReadableAssignment, decide
from streaming.monitor.state import GroupState
from streaming.monitor.tracked import Tracked
from streaming.wire.events import Event
from tests.support.histories import Log


def after(*events: Event) -> Tracked:
    tracked = Tracked()
    for event in events:
        decision = decide(tracked, event)
        if decision is not None:
            tracked.keep(decision.state)
    return tracked


def decided(tracked: Tracked, event: Event) -> Decision:
    decision = decide(tracked, event)
    assert decision is not None
    return decision


@pytest.fixture
def _native() -> None:
    pytest.importorskip("rebalance_kernel", reason="built where there is cargo")


@pytest.mark.usefixtures("_native")
def test_joins_and_leaves_of_a_plain_group_are_for_native_code() -> None:
    log = Log()
    tracked = after(log.topics(t=3), log.join("a"))
    for event in (log.join("b"), log.leave("a"), log.fence("b", reason="session timeout")):
        decision = decided(tracked, event)
        assert isinstance(decision.latest, DenseAssignment)
        tracked.keep(decision.state)


@pytest.mark.usefixtures("_native")
@pytest.mark.parametrize(
    "field",
    [
        {"rack_id": "r"},
        {"owned": {"t": [0]}},
        {"group_protocol": "consumer"},
        {"assignors": ["roundrobin", "range"]},
    ],
)
def test_a_member_that_is_not_like_the_others_is_for_python(field: dict[str, object]) -> None:
    log = Log()
    tracked = after(log.topics(t=3), log.join("a", assignors=["range"]), log.join("b", assignors=["range"]))
    decision = decided(tracked, log.join("c", **{"assignors": ["range"], **field}))
    assert isinstance(decision.latest, ReadableAssignment)


def test_a_repeat_changes_nothing() -> None:
    log = Log()
    join = log.join("a")
    tracked = after(log.topics(t=3), join, log.join("b"))
    assert decide(tracked, join) is None


def test_a_decision_changes_nothing_before_it_is_kept() -> None:
    log = Log()
    tracked = after(log.topics(t=3), log.join("a"))
    join = log.join("b")
    assert decided(tracked, join).diffs == decided(tracked, join).diffs
    assert list(tracked.member_ids) == ["a"]


@pytest.mark.usefixtures("_native")
def test_a_state_that_native_code_does_not_know_is_for_python() -> None:
    """A field more in the state of a later release must not be dropped by an older module."""
    from rebalance_kernel import Group

    log = Log()
    state = after(log.topics(t=3), log.join("a")).state
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(state))
    members = GroupState.__struct_fields__.index("members")
    assert Group.read(msgspec.msgpack.encode(fields)) is not None
    assert Group.read(msgspec.msgpack.encode([*fields, 0])) is None
    assert Group.read(msgspec.msgpack.encode(fields[:-1])) is None
    fields[members][0].append(0)
    assert Group.read(msgspec.msgpack.encode(fields)) is None
