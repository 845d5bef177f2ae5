from __future__ import annotations

import random
import re
import time

import pytest

from streaming.collect.broker_log.layouts import read_line
from streaming.collect.broker_log.log import MAX_LINE_BYTES, LineScanner


def scanned(scanner: LineScanner, chunk: bytes) -> list[str]:
    return [line for _, line in scanner.scan(chunk)]


def test_only_lines_that_may_be_a_coordinator_s_are_returned() -> None:
    scanner = LineScanner()
    assert scanned(scanner, b"\none\na group\nthree\n[GroupId g]\n") == ["a group", "[GroupId g]"]
    assert (scanner.read, scanner.first) == (5, "one")


def test_chunks_may_end_anywhere() -> None:
    text = "".join(f"group {number} é\nother {number}\n" * (number % 3) for number in range(200)).encode()
    dice = random.Random(7)
    scanner, found, at = LineScanner(), list[str](), 0
    while at < len(text):
        size = dice.randint(1, 40)
        found += scanned(scanner, text[at : at + size])
        at += size
    assert found == [line for line in text.decode().split("\n") if "group" in line]
    assert scanner.read == text.count(b"\n")


def test_a_followed_line_is_returned_whatever_it_has() -> None:
    scanner = LineScanner((b"HEAD", b"group"), re.compile(rb"HEAD|joins"))
    found = []
    for number, line in scanner.scan(b"a group\r\nHEAD\r\nrow\r\nother\nwho joins a group\n"):
        found.append((number, line))
        scanner.follow = line == "HEAD"
    assert found == [(2, "HEAD"), (3, "row"), (5, "who joins a group")]
    assert (scanner.read, scanner.first, scanner.last) == (5, "a group", "who joins a group")


def test_the_line_in_which_reading_begins_is_passed_over() -> None:
    scanner = LineScanner(within_line=True)
    assert scanned(scanner, b"end of a group") == []
    assert scanned(scanner, b"'s line\nnext group\n") == ["next group"]
    assert scanner.read == 2


def test_endless_lines_take_no_memory() -> None:
    scanner = LineScanner()
    for _ in range(20):
        assert scanned(scanner, b"group " * 50_000) == []
        assert len(scanner._rest) <= MAX_LINE_BYTES
    assert scanned(scanner, b"\ngroup\n") == ["group"]
    assert scanned(scanner, b"a group" + b"x" * MAX_LINE_BYTES + b"\nanother group\n") == ["another group"]


def test_the_last_line_needs_no_end() -> None:
    scanner = LineScanner()
    assert scanned(scanner, b"one\nlast group") == []
    assert list(scanner.finish()) == [(2, "last group")]
    assert list(scanner.finish()) == []


@pytest.mark.parametrize("repeated", [" (Group", "[GroupId ", " {}", " [a]", '{"', "0", '\\"', "Member a in group "])
@pytest.mark.parametrize("head", ["", "[GroupCoordinator 1]: ", "[GroupId g] Member m fenced from the group because "])
def test_longest_client_chosen_line_is_read_at_once(head: str, repeated: str) -> None:
    """Patterns that try everything took 16 s of CPU for 32 kB."""
    began = time.process_time()
    read_line(head + repeated * (MAX_LINE_BYTES // len(repeated)))
    assert time.process_time() - began < 2
