"""With and without native code, every event gives the same bytes and the same state."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import msgpack

from assignors.errors import MonitorError
from streaming.monitor import asking
from streaming.monitor.group import apply
from streaming.monitor.state import GroupState, MemberState, TopicState
from streaming.wire.events import MAX_INT32, Event
from tests.support.histories import Log
from tests.support.recorded import membership_log

kernel = pytest.importorskip("rebalance_kernel", reason="built where there is cargo; Python answers then")

ASSIGNORS = (
    [],
    ["range"],
    ["roundrobin"],
    ["sticky", "range"],
    ["cooperative-sticky"],
    ["cooperative-sticky", "range"],
    ["mine", "range"],
)


def compare(events: Iterable[Event], start: GroupState | None = None) -> int:
    """How often native code answered; with it, every event gives what Python alone gives.

    It goes on from the members that it gave itself, which it knows, or from Python's, which it reads.
    """
    states: dict[str, GroupState | None] = {}
    own: dict[str, GroupState | None] = {}
    answered = 0

    def count(*arguments: Any) -> object:
        nonlocal answered
        answer = kernel.round_played(*arguments)
        answered += answer is not None
        return answer

    for event in events:
        group_id = event.data.group_id
        before = states.get(group_id, start)
        with patch.object(asking, "play", None):
            try:
                states[group_id], outputs = apply(before, event)
            except MonitorError as error:
                failure: type[MonitorError] | None = type(error)
            else:
                failure = None
        with patch.object(asking, "play", count):
            if failure is not None:
                for known in (before, own.get(group_id, start)):
                    with pytest.raises(failure):
                        apply(known, event)
                continue
            own[group_id], first = apply(own.get(group_id, start), event)
            state, again = apply(before, event)
        assert msgpack.encode(own[group_id]) == msgpack.encode(state)
        assert [output.value for output in first] == [output.value for output in outputs]
        assert msgpack.encode(state) == msgpack.encode(states[group_id])
        assert [(output.id, output.value) for output in again] == [
            (output.id, output.value) for output in outputs
        ]
    return answered


def plain_log(seed: int, count: int) -> Iterator[Event]:
    """One group that native code mostly decides: joins, leaves, repeats, a static member, few other events."""
    rng = random.Random(seed)
    log = Log("groüp" if seed % 7 == 0 else "group")
    names = [f"t{number}" for number in range(rng.choice((1, 1, 1, 2, 5)))]
    rng.shuffle(names)
    assignors = rng.choice(ASSIGNORS)
    yield log.topics(**{name: rng.choice((1, 3, 12, 40)) for name in names[: rng.randint(1, len(names))]})
    present: list[str] = []
    for _ in range(count):
        step = rng.random()
        if step < 0.05:
            yield log.topics(**{rng.choice(names): rng.choice((1, 3, 12, 40))})
        elif step < 0.08 and present:
            yield log.subscribe(rng.choice(present), *names)
        elif step < 0.45 and present:
            gone = rng.choice([*present, "never"])
            leave = log.leave if rng.random() < 0.5 else log.fence
            event = leave(gone, **rng.choice(({}, {"reason": 'schläft "tief"'}, {"group_instance_id": "i1"})))
            if gone in present:
                present.remove(gone)
            yield event
            if rng.random() < 0.2:
                yield event
        else:
            member = f"{rng.choice('abcÄ') if rng.random() < 0.02 else 'c'}-{rng.randrange(60)}"
            if member not in present:
                present.append(member)
            fields: dict[str, object] = {
                "assignors": assignors,
                "session_timeout_ms": rng.choice((None, 10_000)),
            }
            if rng.random() < 0.8:
                fields["client_id"] = rng.choice(("orders", 'schläft "tief"\n\x01\x7f\u2028\\', ""))
                fields["client_host"] = rng.choice((None, "/10.0.0.1", "/fe80::1"))
            if rng.random() < 0.1:
                fields["group_instance_id"] = f"i{rng.randrange(4)}"
            if rng.random() < 0.02:
                fields |= rng.choice(
                    (
                        {"rack_id": "r"},
                        {"assignors": ["range"]},
                        {"generation": 50},
                        {"generation": MAX_INT32},
                    )
                )
            yield log.join(member, *names, **fields)


@given(seed=st.integers(0, 10**9))
@settings(max_examples=150)
def test_plain_groups(seed: int) -> None:
    compare(plain_log(seed, 60))


def test_native_code_decides_most_of_plain_groups() -> None:
    assert sum(compare(plain_log(seed, 60)) for seed in range(20)) > 800


@given(seed=st.integers(0, 10**9))
@settings(max_examples=30)
def test_groups_of_every_kind(seed: int) -> None:
    compare(membership_log(200, 9, seed))


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_a_large_group_is_decided_by_native_code(assignor: str) -> None:
    log = Log()
    members = [f"consumer-{number:03d}" for number in range(300)]
    events = [log.topics(t=700, u=13)]
    events += [log.join(member, "t", "u", assignors=[assignor]) for member in members]
    events += [log.leave(member) for member in members[::3]]
    # The first event makes the group, and few ids of so many share a bin of Java's map.
    assert compare(events) >= 600


def test_a_group_of_more_members_than_are_remembered() -> None:
    log, names = Log(), [f"consumer-{number}" for number in range(5000)]
    members = tuple(MemberState(name, ["t"], ["range"], client_id=name[-1]) for name in names)
    group = GroupState(members=members, topics={"t": TopicState(7000)})
    events = [log.leave(names[3]), log.join("a", assignors=["range"]), log.leave("a")]
    assert compare(events, group) == 2 * len(events)
