from math import inf

import pytest

from streaming.collect.polling.schedule import RequestLimits, RequestSchedule

POLL_PACE = RequestLimits(min_interval_s=0.5, max_interval_s=10.0, requests=100)


@pytest.mark.parametrize(("count", "seconds"), [(0, 0.5), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (999, 10)])
def test_each_unchanged_answer_doubles_the_interval(count: int, seconds: float) -> None:
    assert POLL_PACE.pause(count) == seconds


@pytest.mark.parametrize(("brokers", "seconds"), [(1, 1.0), (50, 1.0), (51, 1.02), (500, 10.0)])
def test_lists_take_at_most_half_the_request_budget(brokers: int, seconds: float) -> None:
    assert POLL_PACE.list_interval(brokers) == seconds


@pytest.mark.parametrize(
    ("seconds_until_due", "seconds"), [(-1.0, 0.05), (0.0, 0.05), (0.06, 0.06), (0.2, 0.2), (0.21, 0.2), (inf, 0.2)]
)
def test_answers_are_awaited_until_a_request_is_due(seconds_until_due: float, seconds: float) -> None:
    assert RequestSchedule(POLL_PACE, 0.0).pause(0.0, seconds_until_due) == seconds


def test_budget_refills_evenly_and_is_not_saved() -> None:
    schedule = RequestSchedule(RequestLimits(min_interval_s=0.5, max_interval_s=10.0, requests=10), 0.0)
    for number in range(100):
        schedule.add(f"g{number}", 1, 0.0)
    assert [len(schedule.take(now)) for now in (0.0, 0.0, 0.5, 60.0)] == [10, 0, 5, 10]
    schedule.deduct_requests(5, 60.0)
    assert (schedule.pause(60.0, inf), len(schedule.take(60.5)), schedule.pause(60.5, inf)) == (0.2, 0, 0.05)


def times(schedule: RequestSchedule, group_id: str, shown: list[str], until: float) -> list[float]:
    """Return the times at which the group is requested; ``shown``: its answers in order; the last one repeats."""
    times, now = [], 0.0
    while now < until:
        if schedule.take(now):
            times.append(now)
            answer = shown.pop(0) if len(shown) > 1 else shown[0]
            schedule.record_answer(group_id, answer, now)  # type: ignore[arg-type] # one of its literals
        now += 0.5
    return times


def test_rebalancing_group_is_polled_more_often_than_stable() -> None:
    schedule = RequestSchedule(POLL_PACE, 0.0)
    schedule.add("g", 1, 0.0)
    assert times(schedule, "g", ["flux", "flux", "rest"], 40) == [0, 0.5, 1, 2, 4, 8, 16, 26, 36]


def test_unanswered_group_is_polled_less_and_less() -> None:
    schedule = RequestSchedule(POLL_PACE, 0.0)
    schedule.add("g", 1, 0.0)
    assert schedule.take(0.0) == ["g"]
    schedule.record_answer("g", "nothing", 10.0)
    assert schedule.take(10.5) == []
    schedule.make_due("g", 10.5)
    assert schedule.take(10.5) == []
    assert schedule.take(11.0) == ["g"]
    schedule.record_answer("g", "nothing", 11.0)
    assert (schedule.take(12.5), schedule.take(13.0)) == ([], ["g"])
    schedule.record_answer("g", "flux", 13.0)
    assert schedule.take(13.5) == ["g"]


def test_returning_cluster_makes_unanswered_groups_due() -> None:
    schedule = RequestSchedule(POLL_PACE, 0.0)
    for group_id in ("asked", "failed", "rests"):
        schedule.add(group_id, 1, 0.0)
    schedule.take(0.0)
    for _ in range(5):
        schedule.record_answer("failed", "nothing", 0.0)
        schedule.record_answer("rests", "rest", 0.0)
    schedule.retry(1.0)
    assert (schedule.take(1.0), schedule.take(9.5)) == (["failed"], [])
    schedule.record_answer("failed", "nothing", 9.5)
    assert (schedule.take(10.0), schedule.take(19.5)) == (["rests"], ["failed"])


def test_change_makes_a_group_due_at_once() -> None:
    schedule = RequestSchedule(POLL_PACE, 0.0)
    schedule.add("g", 1, 0.0)
    assert times(schedule, "g", ["rest"], 8) == [0, 2, 6]
    schedule.make_due("g", 9.0)
    schedule.make_due("g", 9.0)
    assert schedule.take(9.0) == ["g"]
    schedule.make_due("g", 9.0)  # the group's description is already requested
    assert schedule.take(9.0) == []
    schedule.record_answer("g", "flux", 9.0)
    assert schedule.take(9.5) == ["g"]


def test_removed_group_is_not_polled_and_its_answer_is_late() -> None:
    schedule = RequestSchedule(POLL_PACE, 0.0)
    schedule.add("a", 1, 0.0)
    schedule.add("b", 1, 0.0)
    assert schedule.take(0.0) == ["a", "b"]
    schedule.remove("a")
    schedule.record_answer("a", "flux", 0.0)
    schedule.record_answer("b", "flux", 0.0)
    schedule.remove("b")
    assert (schedule.take(99.0), len(schedule)) == ([], 0)


def test_request_budget_polls_the_longest_overdue_groups_first() -> None:
    schedule = RequestSchedule(RequestLimits(min_interval_s=0.5, max_interval_s=10.0, requests=4), 0.0)
    for name in "abcdef":
        schedule.add(name, 2, 0.0)
    assert schedule.cost == 12
    assert schedule.take(0.0) == ["a", "b"]
    assert schedule.pause(0.0, inf) == 0.05
    assert schedule.take(0.5) == ["c"]
    assert schedule.overdue(0.5) == 0.5
    schedule.deduct_requests(1, 0.5)
    assert schedule.pause(0.6, inf) == pytest.approx(0.15)
    assert schedule.take(0.6) == []
    assert schedule.take(2.0) == ["d", "e"]
    assert schedule.take(3.0) == ["f"]
    assert schedule.overdue(3.0) == 0


def test_rebalancing_and_stable_groups_share_a_short_budget() -> None:
    schedule = RequestSchedule(RequestLimits(min_interval_s=0.5, max_interval_s=1.0, requests=2), 0.0)
    groups = ["r1", "r2", "r3", "f1", "f2", "f3"]
    for name in groups:
        schedule.add(name, 1, 0.0)
    names = [name for now in range(3) for name in schedule.take(float(now))]
    assert sorted(names) == sorted(groups)
    for name in groups:
        schedule.record_answer(name, "rest" if name[0] == "r" else "flux", 3.0)
    assert {name[0] for name in schedule.take(10.0)} == {"r", "f"}
    assert {name[0] for name in schedule.take(11.0)} == {"r", "f"}


def test_no_request_is_due_without_groups() -> None:
    schedule = RequestSchedule(POLL_PACE, 0.0)
    assert (schedule.take(5.0), schedule.overdue(5.0), schedule.pause(5.0, inf)) == ([], 0, 0.2)
    assert len(schedule) == 0
