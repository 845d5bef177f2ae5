"""Native code and Python return the same assignment for every group of the consumer protocol."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors.model import Assignment, Member, Topic
from assignors.registry import find
from tests.support.consumer_cases import ConsumerGroups
from tests.support.groups import assignment_lists, group_of
from tests.support.native import compare_with_python

native_module = pytest.importorskip("rebalance_kernel", reason="built where there is cargo; Python answers then")

ASSIGNORS: dict[str, Any] = {"range": native_module.range_target, "uniform": native_module.uniform_target}


def same(assignor: str, topics: dict[str, Topic], members: Sequence[Member]) -> Assignment | None:
    answer = compare_with_python("consumer", assignor, ASSIGNORS[assignor], topics, members)
    for share in ({} if answer is None else answer).values():
        assert all(numbers and list(numbers) == sorted(numbers) for numbers in share.values())
    return answer


@pytest.mark.parametrize("assignor", ASSIGNORS)
@given(seed=st.integers(0, 2**32), equal=st.booleans(), can_shrink_topics=st.booleans())
def test_native_code_equals_python_over_several_rebalances(
    assignor: str, seed: int, *, equal: bool, can_shrink_topics: bool
) -> None:
    groups = ConsumerGroups(seed, equal=equal, can_shrink_topics=can_shrink_topics)
    case = groups.fresh()
    for _ in range(4):
        topics, members = group_of(case)
        answer = same(assignor, topics, members)
        if answer is None:
            return
        case = groups.after(case, assignment_lists(answer))


def large_group(rng: random.Random) -> tuple[dict[str, Topic], list[Member]]:
    """Return tens of members with one or a few subscriptions, and topics of up to 300 partitions."""
    names = [f"t{number}" for number in range(rng.randint(1, 12))]
    sizes = [rng.choice([1, 7, 64, 300]) for _ in range(rng.randint(1, 3))]
    topics = {name: Topic(name, rng.choice(sizes), topic_id=_random_uuid(rng)) for name in names}
    kinds = [tuple(rng.sample(names, rng.randint(1, len(names)))) for _ in range(rng.choice([1, 1, 2, 5]))]
    members = [
        Member(
            f"member-{number}",
            rng.choice(kinds),
            instance_id=f"i{rng.getrandbits(20)}-{number}" if rng.random() < 0.3 else None,
        )
        for number in range(rng.randint(1, 60))
    ]
    rng.shuffle(members)
    return topics, members


def _random_uuid(rng: random.Random) -> str:
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return "".join(rng.choices(digits, k=21)) + rng.choice("AQgw")


@pytest.mark.parametrize("assignor", ASSIGNORS)
@given(st.integers(0, 2**32))
def test_large_groups_that_join_leave_and_resubscribe(assignor: str, seed: int) -> None:
    rng = random.Random(seed)
    topics, members = large_group(rng)
    for _ in range(4):
        answer = same(assignor, topics, members)
        if answer is None:  # a bin of more than eight numbers, which Java makes a tree
            answer = find("consumer", assignor).python(topics, members)
        members = [replace(member, owned=answer[member.member_id]) for member in members]
        for change in rng.sample(["leave", "join", "lists", "grow", "subscribe", "drop"], 2):
            at = rng.randrange(len(members))
            if change == "leave" and len(members) > 1:
                members.pop(at)
            elif change == "join":
                members.insert(at, Member(f"new-{rng.getrandbits(30)}", members[at].topics))
            elif change == "lists":  # owned partitions may be in any order
                members = [
                    replace(member, owned={name: rng.sample(p, len(p)) for name, p in member.owned.items()})
                    for member in members
                ]
            elif change == "grow":
                name = rng.choice(list(topics))
                topics = {**topics, name: replace(topics[name], partitions=topics[name].partitions + 9)}
            elif change == "subscribe":
                members[at] = replace(members[at], topics=rng.choice(members).topics)
            elif len(topics) > 1:  # the topic's owners do not have the update yet
                gone = rng.choice(list(topics))
                topics = {name: topic for name, topic in topics.items() if name != gone}


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_member_that_keeps_everything_gets_the_same_object(assignor: str) -> None:
    rng = random.Random(1)
    topics = {name: Topic(name, 60, topic_id=_random_uuid(rng)) for name in "tuv"}
    members = [Member(f"m{number}", ("t", "u")) for number in range(6)]
    assign = ASSIGNORS[assignor]
    first = assign(topics, members)
    first = {name: dict(reversed(share.items())) for name, share in first.items()}
    members = [replace(member, owned=first[member.member_id]) for member in members]
    again = assign(topics, members)
    assert all(again[name] is share for name, share in first.items())


@pytest.mark.parametrize(
    "owned",
    [
        {"t": range(30)},
        {"t": range(30), "u": range(31)},
        {"t": range(30), "u": range(1, 31)},
        {"t": range(30), "v": range(30)},
        {"t": range(30), "w": range(30)},
        {"t": range(30), "u": list(range(30))},
        {"t": range(30), "u": range(30), "v": range(30)},
    ],
)
def test_almost_equal_owned_partitions_are_not_reused(owned: dict[str, Sequence[int]]) -> None:
    rng = random.Random(1)
    topics = {name: Topic(name, 60, topic_id=_random_uuid(rng)) for name in "tuv"}
    members = [Member("a", ("t", "u"), owned=owned), Member("b", ("t", "u"))]
    answer = same("range", topics, members)
    assert list(answer["a"].items()) == [("t", range(30)), ("u", range(30))]


def test_range_of_one_partition_ignores_its_step() -> None:
    members = [Member(name, ("t",), owned={"t": range(at, at + 1, 7)}) for at, name in enumerate("abc")]
    assert same("range", ONE_TOPIC, members) == {member.member_id: member.owned for member in members}


TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
ONE_TOPIC = {"t": Topic("t", 3, topic_id=TOPIC_ID)}


@pytest.mark.parametrize(
    ("topics", "members"),
    [
        (ONE_TOPIC, []),
        (ONE_TOPIC, [Member("a", ("t",)), Member("a", ("t",))]),
        ({"t": Topic("t", 3)}, [Member("a", ("t",))]),
        ({"t": Topic("t", 3, topic_id="no")}, [Member("a", ("t",))]),
        ({"t": Topic("t", 3, topic_id="A" * 21 + "+")}, [Member("a", ("t",))]),
        ({"t": Topic("t", -1, topic_id=TOPIC_ID)}, [Member("a", ("t",))]),
        ({**ONE_TOPIC, "u": Topic("u", 1, topic_id=TOPIC_ID)}, [Member("a", ("t",))]),
        (ONE_TOPIC, [Member("ä", ("t",)), Member("b", ("t",))]),
    ],
)
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_unsupported_groups_are_left_to_python(assignor: str, topics: dict[str, Topic], members: list[Member]) -> None:
    assert same(assignor, topics, members) is None


@pytest.mark.parametrize(
    "owned",
    [
        [{"t": [3]}, {}],
        [{"t": [-1]}, {}],
        [{"t": [0]}, {"t": [0]}],
        [{"t": range(2)}, {"t": range(1, 3)}],
        [{"t": range(0, 6, 2)}, {}],
        [{"t": range(2, -1, -1)}, {}],
        [{"t": (0, 1)}, {}],
    ],
)
def test_native_code_declines_invalid_claims(owned: list[dict[str, Sequence[int]]]) -> None:
    members = [Member(name, ("t",), owned=share) for name, share in zip("ab", owned, strict=True)]
    assert same("uniform", ONE_TOPIC, members) is None


def test_native_code_declines_duplicate_instance_ids() -> None:
    members = [Member(name, ("t",), instance_id="i") for name in "ab"]
    assert same("range", ONE_TOPIC, members) is None
    assert same("uniform", ONE_TOPIC, members) is not None
