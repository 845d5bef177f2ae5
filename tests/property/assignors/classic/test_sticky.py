from hypothesis import given, settings

from assignors.model import Member, Topic
from assignors.registry import find
from tests.support.groups import assignment_lists, groups, topic_partitions


@settings(max_examples=80)
@given(group=groups())
def test_sticky_assigns_every_subscribed_partition_once(group: tuple[dict[str, Topic], list[Member]]) -> None:
    topics, members = group
    answer = find("classic", "sticky").assign(topics, members)
    wanted = {name for member in members for name in member.topics if name in topics}
    expected = sorted((name, p) for name in wanted for p in range(topics[name].partitions))
    assert topic_partitions(answer.values()) == expected


@settings(max_examples=80)
@given(group=groups(claims=1, generations=(3,)))
def test_cooperative_never_assigns_still_owned_partitions(group: tuple[dict[str, Topic], list[Member]]) -> None:
    topics, members = group
    answer = assignment_lists(find("classic", "cooperative-sticky").assign(topics, members))
    owners = {(t, p): m.member_id for m in members for t, partitions in m.owned.items() for p in partitions}
    assigned = {(t, p): name for name, share in answer.items() for t, partitions in share.items() for p in partitions}
    assert {p: name for p, name in assigned.items() if owners.get(p, name) != name} == {}
    subscribed = {name for member in members for name in member.topics}
    wanted = {(name, p) for name in subscribed & topics.keys() for p in range(topics[name].partitions)}
    assert wanted - assigned.keys() <= owners.keys()
