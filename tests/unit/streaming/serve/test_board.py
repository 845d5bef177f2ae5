from __future__ import annotations

import json

import pytest

from streaming.serve import board as board_module
from streaming.serve.board import Board, Filter, Frame, one_line
from streaming.serve.history import History, HistoryUpdate
from streaming.serve.standing import Standing
from streaming.wire.codec import encode
from tests.support.feed import records
from tests.support.histories import Group


def filled(history: History, count: int) -> tuple[Board, HistoryUpdate]:
    board = Board(history.extent, history.groups)
    batch = history.append(records(Group("g", {"t": 6}, 1).diffs(count)))
    board.publish(batch)
    return board, batch


def test_a_round_is_one_event_with_its_place_summary_and_diff(history: History) -> None:
    board, batch = filled(history, 1)
    lines = (board.after(0) or [])[0].data.decode().split("\n")
    assert lines[0] == f"id: {history.epoch}.1"
    assert lines[1] == "event: round"
    data = json.loads(lines[2].removeprefix("data: "))
    assert (data["seq"], data["summary"]["id"]) == (1, "g:1:1")
    assert data["group"] == json.loads(encode(history.groups["g"]))
    assert data["diff"] == json.loads(batch.rounds[0].body)
    assert lines[3:] == ["", ""]


def test_indented_json_still_is_one_data_line() -> None:
    assert one_line(b'{\n "a": "x\\n"\r\n}') == b'{"a":"x\\n"}'
    assert one_line(b'{"a": 1}') == b'{"a": 1}'


def test_a_cursor_that_fell_off_is_told_so(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_module, "MAX_FRAMES", 8)
    board, _ = filled(history, 20)
    assert board.after(0) is None
    assert [frame.seq for frame in board.after(board.end - 2) or []] == [19, 20]
    assert board.end == 20


def test_events_in_memory_are_bounded_by_bytes(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_module, "MAX_BYTES", 4000)
    board, _ = filled(history, 50)
    assert sum(len(frame.data) for frame in board._frames) <= 4000


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        (Filter(), True),
        (Filter(group="g"), True),
        (Filter(group="h"), False),
        (Filter(cause="member.left"), True),
        (Filter(cause="member.joined"), False),
        (Filter(min_moved=3), True),
        (Filter(min_moved=4), False),
    ],
)
def test_filters(wanted: Filter, taken: bool) -> None:
    assert wanted.takes(Frame(1, "g", "member.left", 3, b"")) is taken


def test_the_standing_of_a_group_passes_filters_on_rounds() -> None:
    assert Filter(cause="member.left", min_moved=9).takes(Frame(0, "g", "", 0, b""))


def test_a_snapshot_is_encoded_once_until_something_changes(history: History) -> None:
    board, _ = filled(history, 3)
    assert board.snapshot(None) is board.snapshot(None)
    before = board.snapshot(None)
    board.publish(history.append(records(Group("h", {"t": 2}, 1).diffs(1), start=3)))
    assert board.snapshot(None) != before
    assert b'"groupId":"h"' not in board.snapshot("g")


def test_caught_up_is_told_once(history: History) -> None:
    board, _ = filled(history, 1)
    end = board.end
    board.progress(Standing(caught_up=True))
    board.progress(Standing(caught_up=True))
    told = board.after(end) or []
    assert [frame.data.split(b"\n")[0] for frame in told] == [b"event: progress"]
