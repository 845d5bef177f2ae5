"""Repeats change nothing, decided by the log alone."""

from __future__ import annotations

from streaming.monitor.state import REMEMBERED, contains, fingerprint, remember
from tests.support.histories import Log, play


def test_repeat_changes_nothing_after_later_changes() -> None:
    log = Log()
    first = [log.topics(t=2), log.join("c1"), log.leave("c1")]
    state, outputs = play(first)
    again, more = play(first, state)
    assert len(outputs) == 4
    assert more == []
    assert again == state


def test_a_leave_read_before_its_join_is_remembered_too() -> None:
    log = Log()
    early = log.leave("c1")
    state, _ = play([log.topics(t=1), early, log.join("c1")])
    assert play([early], state)[1] == []


def test_same_id_from_another_source_is_another_event() -> None:
    assert fingerprint("a", "1") != fingerprint("b", "1")
    assert fingerprint("a", "b\0c") != fingerprint("a\0b", "d")


def test_the_memory_is_bounded_and_keeps_the_newest() -> None:
    memory = b""
    marks = [fingerprint("s", str(number)) for number in range(REMEMBERED + 10)]
    for mark in marks:
        memory = remember(memory, mark)
    assert [contains(memory, mark) for mark in marks] == [False] * 10 + [True] * REMEMBERED


def test_a_mark_across_two_neighbours_is_not_found() -> None:
    memory = b"abcdefgh" + b"ijklmnop"
    assert contains(memory, b"ijklmnop")
    assert not contains(memory, b"efghijkl")
