import pytest

from assignors.java import in_timeline_order
from assignors.model import TopicPartitions
from streaming.protocols.consumer.step import (
    ConsumerMember,
    ConsumerState,
    ConsumerStep,
    Expired,
    Reconciliation,
    advance,
    first_round,
)
from streaming.protocols.consumer.step import CurrentAssignment as Current
from streaming.protocols.vocabulary import Client, EventScheduled, Setup, ShutDown, Start
from tests.support.machines import StateMachineDriver, played, scenario, topics

NAMES = ("d", "b", "a", "c")


def current(assigned: TopicPartitions, revoking: TopicPartitions | None = None) -> Current:
    return Current(Reconciliation.STABLE, 1, assigned, revoking or {})


def step(**members: ConsumerMember) -> ConsumerStep:
    return ConsumerStep(ConsumerState(members=members), 0, Setup(assignor="uniform"))


@pytest.mark.parametrize("first", range(4))
def test_members_of_equal_hash_are_in_order_of_insertion(first: int) -> None:
    # "Aa" and "BB" have the same hash: insertion order decides which is first in their slot.
    ids = dict(zip(NAMES, ("AaAa", "BBBB", "AaBB", "BBAa"), strict=True))
    built = step(**{name: ConsumerMember(Client(name, ("t",))) for name in NAMES})
    order = [*NAMES[first:], *NAMES[:first]]
    for name in reversed(order):
        built.add_to_coordinator(name, member_id=ids[name])
    expected = in_timeline_order([ids[name] for name in reversed(order)])
    assert [ids[name] for name in built.order(last=None)] == expected
    *others, last = [ids[name] for name in built.order(last=order[0])]
    assert (others, last) == (in_timeline_order([ids[name] for name in reversed(order[1:])]), ids[order[0]])


def test_step_owners_change_with_each_assignment() -> None:
    there = {
        "a": ConsumerMember(Client("a"), is_member=True, current=current({"t": [0, 1]}, {"u": [0]})),
        "b": ConsumerMember(Client("b"), is_member=True, current=current({"t": [2]})),
        "gone": ConsumerMember(Client("gone"), is_member=False, current=current({"t": [3]})),
    }
    built = step(**there)
    built.update_holders("a", current({"t": [0]}), current({}))  # a reads its target with its next heartbeat
    assert built.holders() == {"t": {0: "a", 1: "a", 2: "b"}, "u": {0: "a"}}
    after = current({"t": [0], "v": [7]}, {"t": [1]})
    built.update_holders("a", there["a"].current, after)
    assert built.holders() == {"t": {0: "a", 1: "a", 2: "b"}, "u": {}, "v": {7: "a"}}
    built.update_holders("b", there["b"].current, current({"t": [1, 2]}))
    built.update_holders("a", after, current({"t": [0]}))  # the other member already owns partition 1
    assert built.holders() == {"t": {0: "a", 1: "b", 2: "b"}, "u": {}, "v": {}}


@pytest.mark.parametrize(
    ("left", "noticed_ms"),
    [
        (59_998, 60_002),  # b's next heartbeat is sent at 60 000, and its answer arrives two network latencies later
        (60_000, 60_002),  # the heartbeat is sent with the change, and arrives after the change
        (60_001, 63_335),  # b's next heartbeat counts, a third of the session later
    ],
)
def test_consumer_member_sees_a_change_at_its_next_heartbeat(left: int, noticed_ms: int) -> None:
    text = scenario("p: 5", "at: 3, join: a", "at: 3, join: b", f"at: {left}, leave: a", session_timeout_ms=10_000)
    assert played(text, "consumer")["rounds"][-1]["at"] == noticed_ms


def test_early_returning_static_member_has_no_second_expiry() -> None:
    driver = StateMachineDriver("consumer", topics(t=2))
    client = Client("a", ("t",), "i-a")
    driver.apply(Start(0, (client,)))
    driver.until(61_000)
    driver.apply(ShutDown(61_000, ("a",)))
    (ended,) = (
        output.event
        for output in driver.apply(Start(61_000, (client,)))
        if isinstance(output, EventScheduled) and isinstance(output.event, Expired)
    )
    timing = driver.machine.setup.timing
    assert 61_000 - timing.consumer_heartbeat_ms < ended.at - timing.session_timeout_ms <= 61_000


S, UNREVOKED, UNRELEASED = Reconciliation.STABLE, Reconciliation.UNREVOKED, Reconciliation.UNRELEASED


@pytest.mark.parametrize(
    ("name", "current", "target", "partitions_of_others", "owned", "expected"),
    [
        ("stable stays", Current(S, 2, {"t": [0]}), {"t": [0]}, {}, None, Current(S, 2, {"t": [0]})),
        ("stable to stable", Current(S, 1, {"t": [0]}), {"t": [0, 1]}, {}, None, Current(S, 2, {"t": [0, 1]})),
        (
            "stable to unrevoked",
            Current(S, 1, {"t": [0, 1]}), {"t": [0, 2]}, {}, None,
            Current(UNREVOKED, 1, {"t": [0]}, {"t": [1]}),
        ),
        (
            "stable to unreleased",
            Current(S, 1, {"t": [0]}), {"t": [0, 2, 3]}, {"t": [2]}, None,
            Current(UNRELEASED, 2, {"t": [0, 3]}),
        ),
        (
            "unrevoked stays until the member says so",
            Current(UNREVOKED, 1, {"t": [0]}, {"t": [1]}), {"t": [0, 2]}, {}, None,
            Current(UNREVOKED, 1, {"t": [0]}, {"t": [1]}),
        ),
        (
            "unrevoked stays while it owns them",
            Current(UNREVOKED, 1, {"t": [0]}, {"t": [1]}), {"t": [0, 2]}, {}, {"t": [0, 1]},
            Current(UNREVOKED, 1, {"t": [0]}, {"t": [1]}),
        ),
        (
            "unrevoked to stable",
            Current(UNREVOKED, 1, {"t": [0]}, {"t": [1]}), {"t": [0, 2]}, {}, {"t": [0]},
            Current(S, 2, {"t": [0, 2]}),
        ),
        (
            "unreleased to stable",
            Current(UNRELEASED, 2, {"t": [0]}), {"t": [0, 2]}, {}, None,
            Current(S, 2, {"t": [0, 2]}),
        ),
        (
            "unreleased to unrevoked",
            Current(UNRELEASED, 1, {"t": [0]}), {}, {}, None,
            Current(UNREVOKED, 1, {}, {"t": [0]}),
        ),
    ],
)  # fmt: skip # one row per line
def test_each_transition_gives_the_expected_assignment(  # noqa: PLR0917 - the table's columns
    name: str,
    current: Current,
    target: TopicPartitions,
    partitions_of_others: TopicPartitions,
    owned: TopicPartitions | None,
    expected: Current,
) -> None:
    assert advance(current, target, 2, partitions_of_others, owned) == expected, name


def test_first_round_revokes_and_assigns_free_partitions() -> None:
    owned_shares = {"a": {"t": [0, 1, 2]}, "b": {"t": [3, 4]}, "gone": {"t": [5]}}
    target = {"a": {"t": [0, 1]}, "b": {"t": [3, 5]}, "c": {"t": [2, 4]}}
    assert first_round(owned_shares, target, target) == {"a": {"t": [0, 1]}, "b": {"t": [3, 5]}, "c": {}}
