"""Groups in the format of the ``assign`` command, handwritten or random, and assignments as lists of partitions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from assignors.model import Member, Topic

PARTITION_COUNTS = st.dictionaries(st.sampled_from(["t", "u", "v", "Aa", "BB"]), st.integers(0, 7), min_size=1)
MEMBER_IDS = ["c1", "c2", "AaAa", "BBBB", "AaBB", "x-9d1", "x-17f", "é", "😀", "～"]


def group_of(case: Mapping[str, Any]) -> tuple[dict[str, Topic], list[Member]]:
    """Return the topics and members of a case; a missing field gets the default of the ``assign`` command."""
    topics = {
        name: Topic(name, topic["partitions"], topic.get("racks"), topic.get("topicId"))
        for name, topic in case["topics"].items()
    }
    return topics, [make_member(member) for member in case["members"]]


def make_member(fields: Mapping[str, Any]) -> Member:
    return Member(
        fields["memberId"],
        fields.get("topics", ()),
        fields.get("instanceId"),
        fields.get("rackId"),
        fields.get("owned", {}),
        fields.get("generation", -1),
        fields.get("streams"),
    )


def assignment_lists(assignment: Mapping[str, Mapping[str, Sequence[int]]]) -> dict[str, dict[str, list[int]]]:
    """Return an assignment in which each member's partitions are lists."""
    return {member: {topic: list(p) for topic, p in share.items()} for member, share in assignment.items()}


def topic_partitions(shares: Iterable[Mapping[str, Iterable[int]]]) -> list[tuple[str, int]]:
    """Return all partitions of the shares in order; a partition of several shares occurs several times."""
    return sorted((topic, p) for share in shares for topic, partitions in share.items() for p in partitions)


@st.composite
def groups(
    draw: st.DrawFn, claims: int = 2, generations: Sequence[int] = (-1, 3, 3, 3, 4)
) -> tuple[dict[str, Topic], list[Member]]:
    """Generate small groups of the classic protocol, in which several members or generations may claim a partition."""
    counts = draw(PARTITION_COUNTS)
    names = draw(st.lists(st.sampled_from(MEMBER_IDS), min_size=1, max_size=6, unique=True))
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
