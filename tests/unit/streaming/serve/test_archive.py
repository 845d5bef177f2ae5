from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
import pytest

from streaming.serve.archive import Archive, Window
from streaming.serve.history import History, Retention
from streaming.wire.codec import encode
from tests.support.feed import records
from tests.support.histories import Group


@pytest.fixture
def archive(history: History) -> Iterator[Archive]:
    for index, name in enumerate(("a", "b")):
        history.append(records(Group(name, {"t": 6}, index).diffs(30), partition=index))
    archive = Archive(history.path)
    yield archive
    archive.close()


def seqs(items: list[bytes]) -> list[int]:
    return [json.loads(item)["seq"] for item in items]


def test_pages_join_without_gap_or_overlap(archive: Archive) -> None:
    window = Window(group="b", limit=7)
    found: list[int] = []
    while True:
        page = archive.page(window, with_diff=False)
        found += seqs(page.items)
        if page.next is None:
            break
        window = window._replace(before=page.next)
    assert found == list(range(60, 30, -1))


def test_the_diff_comes_back_byte_for_byte(archive: Archive) -> None:
    original = Group("a", {"t": 6}, 0).diffs(30)[9]
    assert archive.round("a", 10) is not None
    assert b'"diff":' + encode(original) in (archive.round("a", 10) or b"")
    assert archive.round("b", 10) is None


def test_windows_select_by_time_cause_and_moved(archive: Archive) -> None:
    everything = [
        json.loads(item)["summary"] for item in archive.page(Window(limit=100), with_diff=False).items
    ]
    middle = sorted(one["timestamp"] for one in everything)[30]
    late = archive.page(Window(since=middle, limit=100), with_diff=False).items
    assert len(late) == sum(one["timestamp"] >= middle for one in everything)
    fenced = archive.page(Window(cause="member.fenced", min_moved=2, limit=100), with_diff=False).items
    assert len(fenced) == sum(
        one["cause"]["kind"] == "member.fenced" and one["moved"] >= 2 for one in everything
    )


def test_after_reads_forward_and_says_when_the_place_is_gone(archive: Archive, history: History) -> None:
    rounds = archive.after(history.extent, 55, 100, 10**9)
    assert [stored.seq for stored in rounds or []] == [56, 57, 58, 59, 60]
    assert archive.after(history.extent, 60, 100, 10**9) == []
    assert archive.after(msgspec.structs.replace(history.extent, epoch="other"), 1, 1, 1) is None
    history.trim(Retention(0, 2**40), 2**60)
    assert archive.after(history.extent, 55, 100, 10**9) is None


def test_after_stops_at_its_size(archive: Archive, history: History) -> None:
    assert len(archive.after(history.extent, 0, 100, 1) or []) == 1


def test_a_timeline_replays_to_the_ownership_of_every_round(archive: Archive) -> None:
    """Base and changes of any window give, after each round, what the diffs say each member holds."""
    original = {("a", index + 1): diff for index, diff in enumerate(Group("a", {"t": 6}, 0).diffs(30))}
    base, page = archive.timeline(Window(group="a", limit=20))
    owners: dict[tuple[str, int], str | None] = {}
    rounds = [json.loads(item) for item in reversed(page.items)]
    steps = [json.loads(base)] + [one["changes"] for one in rounds]
    for seq, changes in zip([None, *(one["seq"] for one in rounds)], steps, strict=True):
        for owner, topic, numbers in changes:
            owners.update(((topic, number), owner) for number in numbers)
        if seq is None:
            continue
        expected = {
            (topic, number): member_id
            for member_id, member in original["a", seq].members.items()
            for part in (member.kept, member.assigned)
            for topic, numbers in part.items()
            for number in numbers
        }
        assert {key: owner for key, owner in owners.items() if owner is not None} == expected
    assert page.next == 11


def test_an_unknown_group_has_an_empty_timeline(archive: Archive) -> None:
    assert archive.timeline(Window(group="none")) == (b"[]", ([], None))
    assert archive.assignment("none") is None
