import random
import re
import time

import pytest

from streaming.collect.broker_log.layouts import read_line
from streaming.collect.broker_log.log import MAX_LINE_BYTES, BrokerLog, LineScanner

STABILIZED = "[GroupCoordinator 1]: Stabilized group g generation {} (__consumer_offsets-7) with 2 members"


def read(*lines: str) -> BrokerLog:
    log = BrokerLog()
    log.read("".join(f"{line}\n" for line in lines).encode())
    return log


def test_read_understood_and_undated_lines_are_counted() -> None:
    log = read("started", f"[2024-05-01 10:00:00] INFO {STABILIZED.format(1)}", STABILIZED.format(2), "group of others")
    counts = log.counts
    assert (counts.read, counts.understood_messages, counts.undated_lines, counts.problem()) == (4, 2, 1, None)


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


def test_log_with_one_recognised_line_has_no_problem() -> None:
    log = read(*["other"] * 5000, f"2024-05-01 10:00:00,123 {STABILIZED.format(1)}")
    assert log.counts.problem(is_whole=True) is None


@pytest.mark.parametrize(("times", "is_reported"), [(19, False), (20, True)])
def test_timestamps_that_can_t_be_read_are_reported(times: int, is_reported: bool) -> None:
    log = read(*(f"10:00:00 INFO {STABILIZED.format(number)}" for number in range(times)))
    problem = log.counts.problem()
    assert (problem is not None) is is_reported
    assert problem is None or "timestamp" in problem


def test_unrecognised_short_log_is_reported_once_read_to_its_end() -> None:
    assert read("one").counts.problem() is None
    assert read("one").counts.problem(is_whole=True) is not None
    assert BrokerLog().counts.problem(is_whole=True) is None


def test_last_line_without_a_line_end_is_read() -> None:
    log = BrokerLog()
    assert log.read(STABILIZED.format(1).encode()) == []
    assert [event.group_id for event in log.finish()] == ["g"]
    assert log.counts.read == 1


def scan_lines(scanner: LineScanner, chunk: bytes) -> list[str]:
    return [line for _, line in scanner.scan(chunk)]


def test_lines_split_over_chunks_are_read_whole() -> None:
    text = "".join(f"group {number} é\nother {number}\n" * (number % 3) for number in range(200)).encode()
    rng = random.Random(7)
    scanner, lines, at = LineScanner(), list[str](), 0
    while at < len(text):
        size = rng.randint(1, 40)
        lines += scan_lines(scanner, text[at : at + size])
        at += size
    assert lines == [line for line in text.decode().split("\n") if "group" in line]
    assert scanner.read == text.count(b"\n")


def test_followed_line_is_returned_with_any_content() -> None:
    scanner = LineScanner((b"HEAD", b"group"), re.compile(rb"HEAD|joins"))
    lines = []
    for number, line in scanner.scan(b"a group\r\nHEAD\r\nrow\r\nother\nwho joins a group\n"):
        lines.append((number, line))
        scanner.follow = line == "HEAD"
    assert lines == [(2, "HEAD"), (3, "row"), (5, "who joins a group")]
    assert (scanner.read, scanner.first, scanner.last) == (5, "a group", "who joins a group")


def test_partial_first_line_is_skipped() -> None:
    scanner = LineScanner(begins_within_line=True)
    assert scan_lines(scanner, b"end of a group") == []
    assert scan_lines(scanner, b"'s line\nnext group\n") == ["next group"]
    assert scanner.read == 2


def test_endless_line_is_not_buffered() -> None:
    scanner = LineScanner()
    for _ in range(20):
        assert scan_lines(scanner, b"group " * 50_000) == []
        assert len(scanner._incomplete_line) <= MAX_LINE_BYTES
    assert scan_lines(scanner, b"\ngroup\n") == ["group"]
    assert scan_lines(scanner, b"a group" + b"x" * MAX_LINE_BYTES + b"\nanother group\n") == ["another group"]


@pytest.mark.parametrize("repeated", [" (Group", "[GroupId ", " {}", " [a]", '{"', "0", '\\"', "Member a in group "])
@pytest.mark.parametrize("head", ["", "[GroupCoordinator 1]: ", "[GroupId g] Member m fenced from the group because "])
def test_longest_client_chosen_line_is_read_at_once(head: str, repeated: str) -> None:
    """A line of maximum length is parsed in less than 2 s; a regular expression that backtracks would take 16 s."""
    began = time.process_time()
    read_line(head + repeated * (MAX_LINE_BYTES // len(repeated)))
    assert time.process_time() - began < 2
