"""The fast sticky builders against their plain twin, and what every answer keeps, on any small group."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from assignors.model import Member, Topic
from assignors.registry import find
from tests.support import plain_sticky
from tests.support.groups import readable

COUNTS = st.dictionaries(st.sampled_from(["t", "u", "v", "Aa", "BB"]), st.integers(0, 7), min_size=1)
IDS = ["c1", "c2", "AaAa", "BBBB", "AaBB", "x-9d1", "x-17f", "é", "😀", "～"]


@st.composite
def groups(
    draw: st.DrawFn, claims: int = 2, generations: Sequence[int] = (-1, 3, 3, 3, 4)
) -> tuple[dict[str, Topic], list[Member]]:
    counts = draw(COUNTS)
    names = draw(st.lists(st.sampled_from(IDS), min_size=1, max_size=6, unique=True))
    subscription = st.lists(st.sampled_from([*counts, "nowhere"]), max_size=4)
    same = draw(st.one_of(st.none(), subscription))
    owned: dict[str, dict[str, list[int]]] = {name: {} for name in names}
    for topic, count in counts.items():
        for partition in range(count):
            for claimant in draw(st.lists(st.sampled_from(names), max_size=claims, unique=True)):
                owned[claimant].setdefault(topic, []).append(partition)
    members = [
        Member(
            name,
            tuple(draw(subscription) if same is None else same),
            owned=owned[name],
            generation=draw(st.sampled_from(generations)),
        )
        for name in names
    ]
    return {name: Topic(name, count) for name, count in counts.items()}, members


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(group=groups(), cooperative=st.booleans())
def test_the_fast_builders_answer_as_the_plain_one(
    group: tuple[dict[str, Topic], list[Member]], cooperative: bool
) -> None:
    try:
        plain = plain_sticky.assign(*group, cooperative=cooperative)
    except plain_sticky.NeverEnds:
        assume(False)
    name = "cooperative-sticky" if cooperative else "sticky"
    assert readable(find("classic", name).assign(*group)) == plain


@settings(max_examples=80)
@given(group=groups())
def test_sticky_gives_every_partition_that_is_subscribed_to_exactly_once(
    group: tuple[dict[str, Topic], list[Member]],
) -> None:
    topics, members = group
    answer = find("classic", "sticky").assign(topics, members)
    given_out = sorted(
        (t, p) for share in answer.values() for t, partitions in share.items() for p in partitions
    )
    wanted = {name for member in members for name in member.topics if name in topics}
    assert given_out == sorted((name, p) for name in wanted for p in range(topics[name].partitions))


@settings(max_examples=80)
@given(group=groups(claims=1, generations=(3,)))
def test_cooperative_gives_no_one_what_another_still_owns(
    group: tuple[dict[str, Topic], list[Member]],
) -> None:
    topics, members = group
    answer = readable(find("classic", "cooperative-sticky").assign(topics, members))
    owners = {(t, p): m.member_id for m in members for t, partitions in m.owned.items() for p in partitions}
    given_out = {
        (t, p): name for name, share in answer.items() for t, partitions in share.items() for p in partitions
    }
    assert {p: name for p, name in given_out.items() if owners.get(p, name) != name} == {}
    subscribed = {name for member in members for name in member.topics}
    missing = {
        (name, p)
        for name in subscribed & topics.keys()
        for p in range(topics[name].partitions)
        if (name, p) not in given_out
    }
    assert missing <= owners.keys()
