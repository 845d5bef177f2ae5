import pytest

from assignors.java import in_timeline_order
from assignors.model import TopicPartitions
from streaming.protocols.consumer.step import (
    ConsumerMember,
    ConsumerState,
    ConsumerStep,
    CurrentAssignment,
    Reconciliation,
)
from streaming.protocols.vocabulary import Client, Setup

NAMES = ("d", "b", "a", "c")


def current(assigned: TopicPartitions, revoking: TopicPartitions | None = None) -> CurrentAssignment:
    return CurrentAssignment(Reconciliation.STABLE, 1, assigned, revoking or {})


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
