from __future__ import annotations

import pytest

from streaming.collect.broker_log.log import BrokerLog

STABILIZED = "[GroupCoordinator 1]: Stabilized group g generation {} (__consumer_offsets-7) with 2 members"


def read(*lines: str) -> BrokerLog:
    log = BrokerLog()
    log.read("".join(f"{line}\n" for line in lines).encode())
    return log


def test_lines_are_counted() -> None:
    log = read("started", f"[2024-05-01 10:00:00] INFO {STABILIZED.format(1)}", STABILIZED.format(2), "group of others")
    counts = log.counts
    assert (counts.read, counts.understood, counts.undated, counts.problem()) == (4, 2, 1, None)


def test_many_lines_of_another_log_are_reported_with_an_example() -> None:
    log = read(*(f"127.0.0.1 - - GET /{number}" for number in range(999)))
    assert log.counts.problem() is None
    log.read(b"one more\n")
    problem = log.counts.problem()
    assert problem is not None
    assert problem.startswith("none of 1000 lines is a group coordinator's message that is understood")
    assert "such as: 127.0.0.1 - - GET /0 (" in problem
    assert "CRI" in problem


def test_few_unknown_rebalance_lines_raise_a_warning() -> None:
    log = read("starting", *["Rebalancing du groupe g : membre parti, group g"] * 20)
    assert log.counts.problem() is not None
    assert log.counts.example.startswith("Rebalancing du groupe g")


def test_one_line_that_is_understood_is_enough() -> None:
    log = read(*["other"] * 5000, f"2024-05-01 10:00:00,123 {STABILIZED.format(1)}")
    assert log.counts.problem(is_whole=True) is None


@pytest.mark.parametrize(("times", "is_reported"), [(19, False), (20, True)])
def test_timestamps_that_can_t_be_read_are_reported(times: int, is_reported: bool) -> None:
    log = read(*(f"10:00:00 INFO {STABILIZED.format(number)}" for number in range(times)))
    problem = log.counts.problem()
    assert (problem is not None) is is_reported
    assert problem is None or "timestamp" in problem


def test_a_few_lines_are_judged_where_no_more_come() -> None:
    assert read("one").counts.problem() is None
    assert read("one").counts.problem(is_whole=True) is not None
    assert BrokerLog().counts.problem(is_whole=True) is None


def test_a_last_line_without_an_end_counts() -> None:
    log = BrokerLog()
    assert log.read(STABILIZED.format(1).encode()) == []
    assert [event.group_id for event in log.finish()] == ["g"]
    assert log.counts.read == 1
