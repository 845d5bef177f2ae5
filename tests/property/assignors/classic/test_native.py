"""Native code and Python return the same assignment for every group of the classic protocol."""

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors.errors import MonitorError
from assignors.model import Assignment, Member, Topic
from assignors.registry import find, names
from tests.oracle.generator import RandomGroups
from tests.support.groups import assignment_lists, group_of, groups
from tests.support.native import compare_with_python

native_module = pytest.importorskip("rebalance_kernel", reason="built where there is cargo; Python answers then")

ASSIGNORS = names("classic")
STICKY_ASSIGNORS = ["sticky", "cooperative-sticky"]


def same(assignor: str, topics: dict[str, Topic], members: Sequence[Member]) -> Assignment | None:
    return compare_with_python("classic", assignor, partial(native_module.client_shares, assignor), topics, members)


@pytest.mark.parametrize("assignor", ASSIGNORS)
@given(seed=st.integers(0, 2**32), can_shrink_topics=st.booleans())
def test_native_code_equals_python_over_several_rebalances(
    assignor: str, seed: int, *, can_shrink_topics: bool
) -> None:
    groups = RandomGroups(seed, can_shrink_topics=can_shrink_topics)
    case = groups.fresh()
    for _ in range(4):
        topics, members = group_of(case)
        answer = same(assignor, topics, members)
        if answer is None:
            try:
                answer = find("classic", assignor).python(topics, members)
            except MonitorError:
                return
        case = groups.after(case, assignment_lists(answer))


@pytest.mark.parametrize("assignor", ASSIGNORS)
@given(group=groups())
def test_native_code_equals_python_for_small_groups(
    assignor: str, group: tuple[dict[str, Topic], list[Member]]
) -> None:
    same(assignor, *group)


def large_group(rng: random.Random) -> tuple[dict[str, Topic], list[Member]]:
    """Return a random group of up to 60 members with one subscription, and topics of up to 300 partitions."""
    names = [f"t{number}" for number in range(rng.randint(1, 12))]
    sizes = [rng.choice([1, 7, 64, 300]) for _ in range(rng.randint(1, 3))]
    racks = [f"r{number}" for number in range(rng.choice([0, 2, 3, 5]))]
    topics = {name: _topic(rng, name, rng.choice(sizes), racks) for name in names}
    topic_names = tuple(rng.sample(names, rng.randint(1, len(names))))
    count = rng.randint(1, 60)
    members = [
        Member(
            f"member-{number}",
            topic_names,
            instance_id=f"i{rng.getrandbits(20)}-{number}" if rng.random() < 0.3 else None,
            rack_id=rng.choice([*racks, *racks, None, "elsewhere"]) if racks else None,
        )
        for number in rng.sample(range(count), count)
    ]
    return topics, members


def _topic(rng: random.Random, name: str, size: int, racks: Sequence[str]) -> Topic:
    if not racks or rng.random() < 0.1:
        return Topic(name, size)
    kinds = [tuple(rng.sample(racks, rng.randint(0, len(racks)))) for _ in range(4)]
    return Topic(name, size, tuple(rng.choice(kinds) for _ in range(size)))


@pytest.mark.parametrize("assignor", ASSIGNORS)
@given(st.integers(0, 2**32))
def test_native_code_equals_python_for_large_changing_groups(assignor: str, seed: int) -> None:
    rng = random.Random(seed)
    topics, members = large_group(rng)
    for generation in range(4):
        answer = same(assignor, topics, members)
        if answer is None:  # range with racks, or a bin of more than eight ids, which Java makes a tree
            answer = find("classic", assignor).python(topics, members)
        members = [replace(member, owned=answer[member.member_id], generation=generation) for member in members]
        for change in rng.sample(["leave", "leave", "join", "join", "lists", "rack", "unknown"], 3):
            at = rng.randrange(len(members))
            if change == "leave" and len(members) > 1:
                members.pop(at)
            elif change == "join":
                new = Member(f"new-{rng.getrandbits(30)}", members[at].topics, rack_id=members[at].rack_id)
                members.insert(at, new)
            elif change == "lists":  # owned partitions and topics may be in any order
                members = [
                    replace(
                        member,
                        owned={
                            name: rng.sample(member.owned[name], len(member.owned[name]))
                            for name in rng.sample(list(member.owned), len(member.owned))
                        },
                    )
                    for member in members
                ]
            elif change == "rack":
                members[at] = replace(members[at], rack_id=rng.choice(members).rack_id)
            elif change == "unknown":
                members[at] = replace(members[at], owned={"nowhere": [1], **members[at].owned})


@pytest.mark.parametrize("assignor", STICKY_ASSIGNORS)
def test_member_that_keeps_everything_gets_the_same_object(assignor: str) -> None:
    topics = {name: Topic(name, 60) for name in "tuv"}
    members = [Member(f"m{number}", ("t", "u")) for number in range(6)]
    first = native_module.client_shares(assignor, topics, members)
    members = [replace(member, owned=first[member.member_id]) for member in members]
    again = native_module.client_shares(assignor, topics, members)
    assert all(again[name] is share for name, share in first.items())


T = {"t": Topic("t", 3)}
TOPIC_IN_RACKS = {"t": Topic("t", 3, (("r",), ("r",), ("s",)))}


@pytest.mark.parametrize(
    ("assignor", "topics", "members"),
    [
        ("range", T, []),
        ("range", T, [Member("a", ("t",)), Member("a", ("t",))]),
        ("range", {"t": Topic("t", -1)}, [Member("a", ("t",))]),
        ("range", {"t": Topic("t", 3, (("r",),))}, [Member("a", ("t",))]),
        ("range", T, [Member("ä", ("t",))]),
        ("range", T, [Member(name, ("t",), instance_id="i") for name in "ab"]),
        ("range", TOPIC_IN_RACKS, [Member("a", ("t",), rack_id="r")]),
        ("roundrobin", T, [Member("a", ("t",)), Member("b")]),
        ("roundrobin", T, [Member(name, ("t",), instance_id="i") for name in "ab"]),
        ("sticky", T, [Member("a", ("t",)), Member("b")]),
        ("sticky", T, [Member("a", ("t", "t"))]),
        ("sticky", T, [Member("ä", ("t",))]),
        ("sticky", T, [Member("a", ("t",), owned={"t": [3]})]),
        ("sticky", T, [Member("a", ("t",), owned={"t": [-1]})]),
        ("sticky", T, [Member(name, ("t",), owned={"t": [0]}) for name in "ab"]),
        ("roundrobin", T, [Member("a", ("t",)), Member("a", ("t",))]),
        ("sticky", T, [Member("a", ("t",)), Member("a", ("t",))]),
        ("another", T, [Member("a", ("t",))]),
    ],
)
def test_native_code_declines_unsupported_groups(
    assignor: str, topics: dict[str, Topic], members: list[Member]
) -> None:
    assert native_module.client_shares(assignor, topics, members) is None


def test_native_code_handles_racks_without_effect() -> None:
    members = [Member(name, ("t",), rack_id="elsewhere") for name in "ab"]
    assert assignment_lists(same("sticky", TOPIC_IN_RACKS, members) or {}) == {"a": {"t": [0, 2]}, "b": {"t": [1]}}


def test_native_sticky_prefers_replicas_in_the_members_rack() -> None:
    members = [Member("a", ("t",), rack_id="s"), Member("b", ("t",), rack_id="r")]
    assert assignment_lists(same("sticky", TOPIC_IN_RACKS, members) or {}) == {"a": {"t": [2]}, "b": {"t": [0, 1]}}


def test_native_range_handles_any_subscriptions() -> None:
    topics = {"t": Topic("t", 3), "u": Topic("u", 2)}
    members = [Member("a", ("t", "u")), Member("b", ("t",))]
    assert assignment_lists(same("range", topics, members) or {}) == {"a": {"t": [0, 1], "u": [0, 1]}, "b": {"t": [2]}}
