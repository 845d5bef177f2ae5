from __future__ import annotations

from typing import Any

from streaming.wire.events import (
    Event,
    GroupChanged,
    GroupDeleted,
    GroupObserved,
    ObservedMember,
    PartitionsChanged,
    TopicMetadata,
)
from streaming.wire.followed import Followed


def member(name: str, *partitions: int) -> ObservedMember:
    return ObservedMember(member_id=name, topics=["t"], assigned={"t": list(partitions)})


def view(event_id: str, *members: ObservedMember, group: str = "g", **fields: Any) -> Event:
    data = GroupObserved(
        group_id=group, timestamp=1, members=list(members), group_epoch=2, group_protocol="consumer", **fields
    )
    return Event("s", event_id, data)


def change(event_id: str, since: str, *members: ObservedMember, gone: str = "", source: str = "s") -> Event:
    data = GroupChanged(
        group_id="g", timestamp=1, since=since, group_epoch=2, members=list(members), gone=list(gone)
    )
    return Event(source, event_id, data)


def test_each_change_follows_from_the_view_before() -> None:
    views = Followed()
    first = view("1", member("a", 0), member("b"), followed=True)
    assert views.whole(first) == first
    assert views.whole(change("2", "1", member("b", 1))) == view(
        "2", member("a", 0), member("b", 1), followed=True
    )
    assert views.whole(change("3", "2", member("c"), gone="a")) == view(
        "3", member("b", 1), member("c"), followed=True
    )


def test_what_follows_from_another_view_is_not_known_before_the_next_full_one() -> None:
    views = Followed()
    assert views.whole(change("2", "1")) is None
    views.whole(view("3", followed=True))
    assert views.whole(change("4", "3", source="other")) is None
    assert views.whole(change("5", "4")) is None
    assert views.whole(change("4", "3")) == view("4", followed=True)


def test_views_that_nothing_follows_from_and_deletions_end_it() -> None:
    gone = Event("s", "2", GroupDeleted(group_id="g", timestamp=1))
    for end in (view("2"), gone):
        views = Followed()
        views.whole(view("1", followed=True))
        assert views.whole(end) == end
        assert views.whole(change("3", "1")) is None
        assert views.whole(change("3", "2")) is None


def test_a_view_of_another_collector_ends_nothing() -> None:
    views = Followed()
    views.whole(view("1", member("a", 0), followed=True))
    other = Event("other", "2", view("2").data)
    assert views.whole(other) == other
    assert views.whole(change("3", "1", member("b"))) == view("3", member("a", 0), member("b"), followed=True)


def test_other_groups_and_events_are_nothing_to_it() -> None:
    views = Followed()
    views.whole(view("1", followed=True))
    other = view("2", group="h")
    topics = Event(
        "s", "3", PartitionsChanged(group_id="g", timestamp=1, topics={"t": TopicMetadata(partitions=1)})
    )
    assert [views.whole(other), views.whole(topics)] == [other, topics]
    assert views.whole(change("4", "1")) is not None
