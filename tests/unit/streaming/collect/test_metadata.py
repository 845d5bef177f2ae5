from __future__ import annotations

from streaming.collect.metadata import changes, outdated, partitions_changed
from streaming.wire.events import Event, GroupObserved, ObservedMember, PartitionsChanged, TopicMetadata

SIX = TopicMetadata(partitions=6, topic_id="id-t")
EIGHT = TopicMetadata(partitions=8, topic_id="id-t")


def test_each_group_is_told_what_it_does_not_know() -> None:
    found = changes(
        {"new": ["t", "missing"], "told": ["t"], "stale": ["t"]},
        {"told": {"t": EIGHT}, "stale": {"t": SIX}},
        {"t": EIGHT, "unrelated": SIX},
    )

    assert found == {"new": {"t": EIGHT}, "stale": {"t": EIGHT}}


def test_a_topic_made_anew_has_another_id() -> None:
    again = TopicMetadata(partitions=6, topic_id="id-2")

    assert changes({"g": ["t"]}, {"g": {"t": SIX}}, {"t": again}) == {"g": {"t": again}}


def test_the_event() -> None:
    assert partitions_changed("s", "g", 7, {"t": SIX}) == Event(
        "s", "g@7:t=id-t/6", PartitionsChanged(group_id="g", timestamp=7, topics={"t": SIX})
    )


def test_a_view_that_shows_more_than_was_told() -> None:
    def view(partition: int) -> GroupObserved:
        member = ObservedMember(member_id="m", topics=["t"], assigned={"t": [partition]})
        return GroupObserved(group_id="g", timestamp=1, members=[member], generation=1)

    assert outdated(view(0), {})
    assert not outdated(view(5), {"t": SIX})
    assert outdated(view(6), {"t": SIX})
