"""Pauses of groups around a change of their coordinators, from the times of their commits."""

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.collect.cluster_view import ClusterSnapshot
from streaming.collect.commit_pauses import CommitPauses
from streaming.collect.partition_owners import CommitIntervals
from streaming.collect.rebalances import KnownGroup
from streaming.records.events import CLUSTER, ClusterChange, ClusterObserved, GroupObserved, GroupPauses

#: The last commit before the outage.
LAST_COMMIT_MS = 100_000
#: The collector notices the outage.
MOVED_MS = 109_000


def commits(*times: int) -> CommitIntervals:
    intervals = CommitIntervals()
    for at in times:
        intervals.take(at)
    return intervals


def regular_commits(
    *after: int, every: int = 1000, last: int = LAST_COMMIT_MS, history_ms: int = 40_000
) -> CommitIntervals:
    """Return regular commits up to ``last``, and then commits at the times ``after``."""
    return commits(*range(last - history_ms // every * every, last + 1, every), *after)


def snapshot(*coordinators: int | None) -> ClusterSnapshot:
    return ClusterSnapshot(frozenset({1, 2}), coordinators or (2,), {})


def make_known_group(intervals: CommitIntervals, changed_at: int = 0) -> KnownGroup:
    return KnownGroup(GroupObserved(group_id="g", timestamp=changed_at, members=[]), commits=intervals)


class ChangeTracker:
    """A tracker of groups' commit pauses, after one change of the cluster, and the groups that it tracks."""

    def __init__(self, groups: Mapping[str, CommitIntervals], *names: str, kind: str = "broker-restart") -> None:
        self.groups = {name: make_known_group(intervals) for name, intervals in groups.items()}
        self.pauses = CommitPauses("source")
        change = ClusterChange(kind, "broker 1", MOVED_MS, [*(names or groups)])  # type: ignore[arg-type]
        self.pauses.add_change(ClusterObserved(group_id=CLUSTER, timestamp=MOVED_MS, brokers=[2], changes=[change]))

    def event(self, now: int, *coordinators: int | None) -> ClusterObserved | None:
        event = self.pauses.event(self.groups.get, snapshot(*coordinators), now)
        assert event is None or isinstance(event.data, ClusterObserved)
        return None if event is None else event.data

    def pauses_of_change(self, now: int = MOVED_MS + 20_000) -> GroupPauses:
        data = self.event(now)
        assert data is not None
        assert (data.timestamp, data.brokers) == (now, [2])
        (change,) = data.changes
        assert (change.kind, change.subject, change.since) == ("broker-restart", "broker 1", MOVED_MS)
        assert isinstance(change.pauses, GroupPauses)
        return change.pauses


def test_pause_is_between_two_commits_less_one_usual_interval() -> None:
    tracked = ChangeTracker({"g": regular_commits(LAST_COMMIT_MS + 10_000, LAST_COMMIT_MS + 11_000)})
    assert tracked.pauses_of_change() == GroupPauses(groups={"g": (9000, 11_000)})
    assert tracked.event(MOVED_MS + 30_000) is None, "published once"


def test_longest_pauses_come_first() -> None:
    tracked = ChangeTracker(
        {
            "a": regular_commits(LAST_COMMIT_MS + 10_000),
            "b": regular_commits(LAST_COMMIT_MS + 12_000),
            "c": regular_commits(LAST_COMMIT_MS + 10_000),
        }
    )
    assert [*tracked.pauses_of_change().groups] == ["b", "a", "c"]


def test_usual_interval_is_the_longest_of_the_last_ones() -> None:
    uneven_intervals = [at + 700 * (at % 2000 == 0) for at in range(LAST_COMMIT_MS - 40_000, LAST_COMMIT_MS + 1, 1000)]
    assert commits(*uneven_intervals).usual_ms == 1700
    interleaved_commits = [
        at + member for at in range(LAST_COMMIT_MS - 40_000, LAST_COMMIT_MS + 1, 5000) for member in range(9)
    ]
    assert commits(*interleaved_commits).usual_ms == 4992
    assert commits(*interleaved_commits, *(LAST_COMMIT_MS + 10,) * 20).usual_ms == 4992


@pytest.mark.parametrize(
    "intervals",
    [
        commits(),
        commits(LAST_COMMIT_MS),
        regular_commits(MOVED_MS + 1000, history_ms=15_000),
        regular_commits(MOVED_MS + 1000, every=90_000, history_ms=900_000),
        regular_commits(MOVED_MS + 200_000, last=LAST_COMMIT_MS - 60_000),
        regular_commits(last=LAST_COMMIT_MS - 60_000),
    ],
    ids=["never", "once", "since-a-moment", "seldom", "idle-before-the-change", "ended-before-the-change"],
)
def test_pause_of_a_group_without_regular_commits_is_unknown(intervals: CommitIntervals) -> None:
    assert ChangeTracker({"g": intervals}).pauses_of_change() == GroupPauses(groups={}, unknown=1)


def test_deleted_group_is_unknown() -> None:
    assert ChangeTracker({}, "gone").pauses_of_change() == GroupPauses(groups={}, unknown=1)


def test_group_that_went_on_to_commit_did_not_pause() -> None:
    tracked = ChangeTracker({"g": regular_commits(*range(LAST_COMMIT_MS + 1100, MOVED_MS + 5000, 1100))})
    assert tracked.pauses_of_change() == GroupPauses(groups={})


def test_pauses_are_published_once_all_groups_commit_again() -> None:
    tracked = ChangeTracker({"a": regular_commits(MOVED_MS + 1000), "b": regular_commits()})
    assert tracked.event(MOVED_MS + 5000) is None
    tracked.groups["b"].commits.take(MOVED_MS + 6000)
    assert tracked.pauses_of_change().groups == {"b": (14_000, 16_000), "a": (9000, 11_000)}


def test_group_without_commits_for_a_minute_is_unknown() -> None:
    tracked = ChangeTracker({"a": regular_commits(MOVED_MS + 1000), "b": regular_commits()})
    assert tracked.event(MOVED_MS + 59_999) is None
    assert tracked.pauses_of_change(MOVED_MS + 60_000) == GroupPauses(groups={"a": (9000, 11_000)}, unknown=1)


def test_pauses_wait_longer_for_a_group_without_coordinator() -> None:
    tracked = ChangeTracker({"g": regular_commits()})
    assert tracked.event(MOVED_MS + 300_000, None) is None
    assert tracked.event(MOVED_MS + 359_999) is None
    tracked.groups["g"].commits.take(MOVED_MS + 359_999)
    assert tracked.pauses_of_change(MOVED_MS + 400_000).groups == {"g": (367_999, 369_999)}


def test_pauses_are_evaluated_once_per_metadata_response() -> None:
    tracked, same = ChangeTracker({"g": regular_commits(MOVED_MS + 1)}), snapshot()
    assert tracked.pauses.event(tracked.groups.get, None, MOVED_MS + 1) is None
    assert tracked.pauses.event(tracked.groups.get, same, MOVED_MS + 1) is not None
    tracked = ChangeTracker({"g": regular_commits()})
    assert tracked.pauses.event(tracked.groups.get, same, MOVED_MS + 1) is None
    tracked.groups["g"].commits.take(MOVED_MS + 2)
    assert tracked.pauses.event(tracked.groups.get, same, MOVED_MS + 3) is None


def test_groups_with_a_newer_snapshot_have_rebalanced() -> None:
    tracked = ChangeTracker(
        {name: regular_commits(MOVED_MS + 1000) for name in ("before", "during")} | {"silent": commits(1)}
    )
    for name, at in (("before", LAST_COMMIT_MS), ("during", LAST_COMMIT_MS + 1), ("silent", MOVED_MS + 1)):
        tracked.groups[name] = make_known_group(tracked.groups[name].commits, at)
    pauses = tracked.pauses_of_change()
    assert (sorted(pauses.rebalanced), pauses.unknown) == (["during", "silent"], 1)


def test_number_of_listed_groups_is_limited() -> None:
    pauses = ChangeTracker(
        {f"g{number}": regular_commits(MOVED_MS + 1000 + number) for number in range(502)}
    ).pauses_of_change()
    assert (len(pauses.groups), pauses.more, "g501" in pauses.groups, "g0" in pauses.groups) == (500, 2, True, False)


def test_deleted_topics_give_no_group_pauses() -> None:
    assert ChangeTracker({"g": regular_commits(MOVED_MS + 1)}, kind="topic-deleted").event(MOVED_MS + 2) is None


def test_clock_set_back_restarts_the_history() -> None:
    intervals = regular_commits()
    intervals.take(LAST_COMMIT_MS - 50_000)
    assert intervals.last == LAST_COMMIT_MS - 50_000


@given(
    every=st.integers(200, 10_000),
    commit_delays=st.lists(st.integers(0, 150), min_size=3, max_size=30),
    stopped=st.integers(0, 10_000),
    pause=st.integers(1000, 120_000),
)
def test_bounds_contain_the_pause(every: int, commit_delays: Iterable[int], stopped: int, pause: int) -> None:
    """A member commits regularly; from a moment on its commits fail, until the coordinator is back."""
    intervals, at, delays = CommitIntervals(), 0, [*commit_delays]
    while at < 70_000:
        intervals.take(at + delays[at // every % len(delays)])
        at += every
    last = intervals.last or 0
    # The first commit that fails is sent at most one usual interval after the last one.
    begin = last + min(stopped, intervals.usual_ms or 0)
    intervals.take(begin + pause)
    gap = intervals.gap
    if gap is None:
        assert begin + pause - last < (intervals.before or 0) + 500
    else:
        assert gap.bounds[0] <= pause <= gap.bounds[1]
