"""Tests each rule of the ``uniform`` assignor's two builders on a small group, and compares whole assignments."""

import base64
from collections.abc import Mapping, Sequence

import pytest

from assignors.errors import BadInput, InvalidGroup
from assignors.model import Assignment, Member, Topic
from assignors.registry import find
from tests.support.groups import assignment_lists


def topic_id(number: int) -> str:
    """Return a Uuid in Kafka's text format whose hash code is ``number``, which fixes its place in a HashSet<Uuid>."""
    return base64.urlsafe_b64encode(number.to_bytes(16)).decode().rstrip("=")


def topics(**sizes: int) -> dict[str, Topic]:
    return {
        name: Topic(name, size, topic_id=topic_id(number)) for number, (name, size) in enumerate(sizes.items(), start=1)
    }


def member(name: str, *subscribed: str, **owned: Sequence[int]) -> Member:
    return Member(name, subscribed, owned=owned)


def uniform(group_topics: Mapping[str, Topic], *members: Member) -> Assignment:
    return assignment_lists(find("consumer", "uniform").assign(group_topics, members))


def test_uniform_assigns_new_members_blocks_across_topics() -> None:
    assert uniform(topics(t=4, u=3), *(member(f"c{n}", "t", "u") for n in range(3))) == {
        "c0": {"t": [0, 1]},
        "c1": {"t": [2, 3]},
        "c2": {"u": [0, 1, 2]},  # the last member of the HashMap has to take the additional partition
    }


def test_a_member_above_its_quota_gives_up_in_hash_set_order() -> None:
    owner = member("c0", "t", t=[0, 1, 16, 17, 32])
    assert uniform(topics(t=33), owner, *(member(f"c{n}", "t") for n in range(1, 17)))["c0"] == {"t": [0, 16]}


def test_departed_members_partitions_go_to_members_below_quota() -> None:
    assert uniform(topics(t=6), member("a", "t", t=[0, 1]), member("b", "t", t=[4, 5])) == {
        "a": {"t": [0, 1, 2]},
        "b": {"t": [3, 4, 5]},
    }


def test_joining_member_takes_only_what_balance_requires() -> None:
    assert uniform(topics(t=6), member("a", "t", t=[0, 1, 2]), member("b", "t", t=[3, 4, 5]), member("c", "t")) == {
        "a": {"t": [0, 1]},
        "b": {"t": [3, 4]},
        "c": {"t": [2, 5]},
    }


def test_unsubscribed_topic_is_revoked() -> None:
    assert uniform(topics(t=2, u=2), member("a", "t", t=[0], u=[0, 1]), member("b", "t", t=[1])) == {
        "a": {"t": [0]},
        "b": {"t": [1]},
    }


def test_uniform_counts_unknown_topics_in_subscriptions() -> None:
    def first(*names: str) -> object:
        owner = member("c0", *names, t=[0, 1, 16, 17, 32])
        return uniform(topics(t=33), owner, *(member(f"c{n}", "t", "gone") for n in range(1, 17)))["c0"]

    assert first("t", "gone") == {"t": [0, 16]}  # equal subscriptions: the surplus is cut in HashSet order
    assert first("t") == {"t": [0, 1]}  # different subscriptions: the last partitions move
    assert uniform(topics(t=0), member("a", "t", "gone")) == {"a": {}}


def test_unequal_subscriptions_balance_as_far_as_they_allow() -> None:
    assert uniform(topics(t=4, u=2), member("a", "t"), member("b", "t", "u"), member("c", "u")) == {
        "a": {"t": [0, 2]},
        "b": {"t": [1, 3]},
        "c": {"u": [0, 1]},
    }


def test_unequal_subscriptions_move_last_of_the_most_loaded() -> None:
    assert uniform(topics(t=5, u=1), member("a", "t", "u", t=[0, 1, 2, 3, 4], u=[0]), member("b", "t")) == {
        "a": {"t": [0, 1], "u": [0]},
        "b": {"t": [2, 3, 4]},
    }


def test_group_without_members_has_no_target() -> None:
    assert uniform(topics(t=1)) == {}


def test_consumer_range_assigns_static_members_first() -> None:
    members = [Member("a", ("t",)), Member("z", ("t",), instance_id="i-2"), Member("y", ("t", "u"), instance_id="i-10")]
    assert find("consumer", "range").assign(topics(t=4, u=2), members) == {
        "a": {"t": range(3, 4)},
        "z": {"t": range(2, 3)},
        "y": {"t": range(2), "u": range(2)},
    }


@pytest.mark.parametrize("assignor", ["uniform", "range"])
@pytest.mark.parametrize(
    ("group_topics", "members", "message"),
    [
        ({"t": Topic("t", 1)}, [member("a", "t")], "topics.t.topicId: missing"),
        ({"t": Topic("t", 1, topic_id="short")}, [member("a", "t")], "topicId: 'short'"),
        (
            {name: Topic(name, 1, topic_id=topic_id(7)) for name in "tu"},
            [member("a", "t")],
            "topics.u.topicId: .* is also that of t",
        ),
        ({"t": Topic("t", -1, topic_id=topic_id(1))}, [], "topics.t.partitions: -1 is below 0"),
        (topics(t=1), [member("a", "t"), member("a", "t")], r"members\[1\].memberId: 'a' is listed twice"),
    ],
)
def test_invalid_groups_are_refused(
    assignor: str, group_topics: dict[str, Topic], members: list[Member], message: str
) -> None:
    with pytest.raises(BadInput, match=message) as refused:
        find("consumer", assignor).assign(group_topics, members)
    assert isinstance(refused.value, InvalidGroup) or "topicId" in message


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([member("a", "t", t=[2])], "members.a.owned.t: partition 2 does not exist; t has 2"),
        ([member("a", "t", t=range(1, 4))], "members.a.owned.t: partition 2 does not exist; t has 2"),
        ([member("a", t=[-1]), member("b", "t")], "members.a.owned.t: partition -1 does not exist"),
        (
            [member("a", "t", t=[0, 1]), member("b", "t", t=range(1, 2))],
            "members.[ab].owned.t: partition 1 is owned by [ab], too",
        ),
    ],
)
def test_impossible_targets_are_rejected(members: list[Member], message: str) -> None:
    with pytest.raises(InvalidGroup, match=message):
        uniform(topics(t=2), *members)
