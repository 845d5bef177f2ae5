"""Changes of a whole cluster, from snapshots of the cluster's metadata and of its groups."""

import pytest

from streaming.collect.cluster_view import ClusterSnapshot, ClusterView, coordinator_partition
from streaming.records.events import ClusterChange, ClusterObserved, Event, GroupObserved, ObservedMember

TOPICS = {"orders": 3}
GROUPS = ["a", "b", "c"]


def groups(*names: str, topic: str = "orders", hosts: tuple[str, ...] = ("/10.0.0.2",)) -> dict[str, GroupObserved]:
    """Return a snapshot per group, in which each host runs one member."""
    return {
        name: GroupObserved(
            group_id=name,
            timestamp=1,
            generation=1,
            members=[ObservedMember(member_id=host, topics=[topic], assigned={}, client_host=host) for host in hosts],
        )
        for name in names or GROUPS
    }


def snapshot(
    brokers: set[int], coordinators: tuple[int | None, ...], partitions: dict[str, int] | None = None
) -> ClusterSnapshot:
    return ClusterSnapshot(frozenset(brokers), coordinators, TOPICS if partitions is None else partitions)


def changes(event: Event | None) -> list[ClusterChange]:
    assert event is not None
    assert isinstance(event.data, ClusterObserved)
    return event.data.changes


BOTH_MEMBERS = snapshot({1, 2}, (1, 2))


def started() -> ClusterView:
    view = ClusterView("test")
    assert view.add_snapshot(BOTH_MEMBERS, groups(), 1000) is None
    return view


def groups_coordinated_by(broker: int) -> list[str]:
    return [group for group in GROUPS if coordinator_partition(group, 2) == broker - 1]


@pytest.mark.parametrize(("group", "partition"), [("a", 97 % 50), ("polygenelubricants", 0)])
def test_partition_of_a_group_is_computed_as_in_kafka(group: str, partition: int) -> None:
    assert coordinator_partition(group, 50) == partition


def test_broker_stop_and_return_give_an_event_each() -> None:
    view = started()
    away = view.add_snapshot(snapshot({2}, (None, 2)), groups(), 2000)
    assert changes(away) == [ClusterChange("broker-restart", "broker 1", 2000, groups_coordinated_by(1))]
    back = view.add_snapshot(BOTH_MEMBERS, groups(), 9000)
    assert back is not None
    assert isinstance(back.data, ClusterObserved)
    assert (back.data.brokers, back.data.changes) == ([1, 2], [])
    assert view.add_snapshot(BOTH_MEMBERS, groups(), 10_000) is None


@pytest.mark.parametrize(("last", "shows_change"), [(None, False), ([1, 2], False), ([2], True)])
def test_broker_that_returned_between_two_runs_gives_an_event(last: list[int] | None, shows_change: bool) -> None:
    event = ClusterView("test", last).add_snapshot(BOTH_MEMBERS, groups(), 1000)
    assert (event is not None) == shows_change
    assert not shows_change or changes(event) == []


def test_coordinator_move_lists_the_affected_groups() -> None:
    view, after = started(), snapshot({1, 2}, (2, 2))
    assert [view.add_snapshot(after, groups(), at_ms) for at_ms in (2000, 11_999)] == [None, None]
    moved = view.add_snapshot(after, groups(), 12_000)
    assert changes(moved) == [
        ClusterChange("coordinator-moved", "broker 1 to broker 2", 2000, groups_coordinated_by(1))
    ]


def test_leaders_moved_off_a_stopped_broker_are_no_second_change() -> None:
    for steps in ([(2, 2)], [(None, 2), (2, 2)]):
        view = started()
        events = [view.add_snapshot(snapshot({2}, leaders), groups(), 2000) for leaders in steps]
        assert changes(events[0]) == [ClusterChange("broker-restart", "broker 1", 2000, groups_coordinated_by(1))]
        assert events[1:] == [None] * len(events[1:])


def test_orderly_broker_stop_is_one_cluster_change() -> None:
    """A stopping broker moves its partitions to other brokers before it ends."""
    view = started()
    assert view.add_snapshot(snapshot({1, 2}, (2, 2)), groups(), 2000) is None
    away = view.add_snapshot(snapshot({2}, (2, 2)), groups(), 7000)
    assert changes(away) == [ClusterChange("broker-restart", "broker 1", 7000, groups_coordinated_by(1))]
    assert view.add_snapshot(snapshot({2}, (2, 2)), groups(), 12_000) is None


@pytest.mark.parametrize(("away_ms", "shows_change"), [(11_999, False), (12_000, True)])
def test_unresponsive_cluster_means_all_brokers_away(away_ms: int, shows_change: bool) -> None:
    view = started()
    view.add_outage(2000)
    view.add_outage(3000)
    back = view.add_snapshot(BOTH_MEMBERS, groups(), away_ms)
    wanted = [ClusterChange("broker-restart", "all brokers", 2000, GROUPS)]
    assert (back is not None) == shows_change
    assert not shows_change or changes(back) == wanted


def test_grown_and_deleted_topics_are_cluster_changes() -> None:
    view = started()
    grown = view.add_snapshot(snapshot({1, 2}, (1, 2), {"orders": 6}), groups(), 2000)
    assert changes(grown) == [ClusterChange("partitions-added", "orders from 3 to 6", 2000, GROUPS)]
    others = groups("b") | groups("a", "c", topic="other")
    gone = view.add_snapshot(snapshot({1, 2}, (1, 2), {"orders": 0}), others, 3000)
    assert changes(gone) == [ClusterChange("topic-deleted", "orders", 3000, ["b"])]
    assert view.add_snapshot(snapshot({1, 2}, (1, 2), {"orders": 0}), others, 4000) is None


def test_host_whose_members_all_left_is_reported() -> None:
    view, both = ClusterView("test"), ("/10.0.0.1", "/10.0.0.2")
    view.add_snapshot(BOTH_MEMBERS, groups(hosts=both), 1000)
    half = groups("a", "b") | groups("c", hosts=both)
    assert view.add_snapshot(BOTH_MEMBERS, half, 6000) is None
    gone = view.add_snapshot(BOTH_MEMBERS, groups(), 11_000)
    assert changes(gone) == [ClusterChange("mass-restart", "10.0.0.1", 1000, GROUPS)]
    assert view.add_snapshot(BOTH_MEMBERS, groups(), 16_000) is None


def test_two_groups_are_not_a_host_loss() -> None:
    view = ClusterView("test")
    view.add_snapshot(BOTH_MEMBERS, groups("a", "b", hosts=("/10.0.0.1",)), 1000)
    assert view.add_snapshot(BOTH_MEMBERS, groups("a", "b", hosts=()), 6000) is None


def test_groups_that_end_in_turn_are_not_a_host_loss() -> None:
    view = started()
    ends = [view.add_snapshot(BOTH_MEMBERS, groups(*left), 100_000 * (3 - len(left))) for left in (["b", "c"], ["c"])]
    assert ends == [None, None]
    assert view.add_snapshot(BOTH_MEMBERS, {}, 300_000) is None
