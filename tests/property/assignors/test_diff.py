from hypothesis import given, settings
from hypothesis import strategies as st

from assignors.assignment import as_lists, count_moved, diff, diff_members, size
from assignors.model import TopicPartitions
from tests.support.groups import topic_partitions

SHARES = st.dictionaries(st.sampled_from("tuvw"), st.sets(st.integers(0, 9)).map(sorted), max_size=4)


def convert_to_ranges(share: TopicPartitions) -> TopicPartitions:
    """Return the assignment with a range in place of each list of consecutive partitions, as assignors return it."""
    return {
        topic: range(topic_share[0], topic_share[-1] + 1)
        if topic_share[-1] - topic_share[0] + 1 == len(topic_share)
        else topic_share
        for topic, topic_share in share.items()
        if topic_share
    }


@settings(max_examples=40)
@given(SHARES, SHARES, st.booleans(), st.booleans())
def test_diff_splits_a_share_into_kept_revoked_and_assigned(
    owned: dict[str, list[int]], after: dict[str, list[int]], a: bool, b: bool
) -> None:
    change = diff(convert_to_ranges(owned) if a else owned, convert_to_ranges(after) if b else after)
    before, now = ({*topic_partitions([share])} for share in (owned, after))
    revoked, assigned, kept = ({*topic_partitions([share])} for share in change)
    assert kept == before - revoked
    assert now == kept | assigned
    assert not revoked & assigned
    assert all(partitions == sorted(partitions) for share in change for partitions in share.values())
    assert all(type(partitions) is list and partitions for share in change for partitions in share.values())
    assert size(change.kept) + size(change.assigned) == size(after)


@settings(max_examples=40)
@given(SHARES)
def test_equal_assignments_have_no_diff(share: dict[str, list[int]]) -> None:
    assert diff(share, convert_to_ranges(share)) == ({}, {}, as_lists(share))


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from("abc"), SHARES), st.dictionaries(st.sampled_from("abc"), SHARES))
def test_moved_count_is_the_number_of_changed_owners(
    before: dict[str, dict[str, list[int]]], after: dict[str, dict[str, list[int]]]
) -> None:
    changes = diff_members(before, after)
    assert list(changes) == list(dict.fromkeys([*before, *after]))
    last = {pair: member for member, share in before.items() for pair in topic_partitions([share])}
    assert count_moved(before, after) == sum(
        last.get(pair, member) != member for member, share in after.items() for pair in topic_partitions([share])
    )
