import json

import msgspec
import pytest

from streaming.freshness import ComponentState
from streaming.records.codec import encode, raw_json
from streaming.serve import board as board_module
from streaming.serve.board import Board, FeedFilter, FeedFrame, FeedStatus, Stale
from streaming.serve.history import History, HistoryUpdate
from streaming.serve.records import TopicRecord
from tests.support.feed import ASSIGNMENTS, records
from tests.support.histories import Group


def filled_board(history: History, count: int) -> tuple[Board, HistoryUpdate]:
    board = Board(history.round_range, history.groups)
    batch = history.append(records(Group("g", {"t": 6}, 1).diffs(count)))
    board.publish(batch)
    return board, batch


def test_round_event_contains_summary_group_and_diff(history: History) -> None:
    board, batch = filled_board(history, 1)
    (frame,) = board.events_after(0) or []
    event, line, *end = frame.data.decode().split("\n")
    assert (event, end) == ("event: round", ["", ""])
    data = json.loads(line.removeprefix("data: "))
    assert (data["seq"], data["summary"]["id"]) == (1, "g:1:1")
    assert data["group"] == json.loads(encode(history.groups["g"]))
    assert data["diff"] == json.loads(batch.rounds[0].body)


def test_indented_json_is_sent_in_one_data_line() -> None:
    assert bytes(raw_json(b'{\n "a": "x\\n"\r\n}')) == b'{"a":"x\\n"}'
    assert bytes(raw_json(b'{"a": 1}')) == b'{"a": 1}'


@pytest.mark.parametrize(
    ("wanted", "is_accepted"),
    [
        (FeedFilter(), True),
        (FeedFilter(group="g"), True),
        (FeedFilter(group="h"), False),
        (FeedFilter(cause="member.left"), True),
        (FeedFilter(cause="member.joined"), False),
        (FeedFilter(min_moved=3), True),
        (FeedFilter(min_moved=4), False),
    ],
)
def test_filters_on_rounds_drop_no_group_event(wanted: FeedFilter, is_accepted: bool) -> None:
    assert wanted.accepts(FeedFrame(b"", "g", 1, "member.left", 3)) is is_accepted
    assert wanted.accepts(FeedFrame(b"", "g")) is (wanted.group != "h")


def test_a_snapshot_is_encoded_once_until_something_changes(history: History) -> None:
    board, _ = filled_board(history, 3)
    assert board.snapshot() is board.snapshot()
    before = board.snapshot()
    board.publish(history.append(records(Group("h", {"t": 2}, 1).diffs(1), start=3)))
    assert board.snapshot() != before
    assert b'"groupId":"h"' not in board.snapshot("g").event


def test_repeated_caught_up_progress_gives_one_event(history: History) -> None:
    board, _ = filled_board(history, 1)
    end = board.end
    board.progress(FeedStatus(caught_up=True))
    board.progress(FeedStatus(caught_up=True))
    frames = board.events_after(end) or []
    assert [frame.data.split(b"\n")[0] for frame in frames] == [b"event: progress"]


def test_heartbeats_are_in_snapshots_and_wake_no_listener(history: History) -> None:
    board, _ = filled_board(history, 1)

    def status_at(at: int) -> FeedStatus:
        part = ComponentState(part="stream", id="s", by=None, state="alive", last_heartbeat=at, up_to=at)
        return FeedStatus(caught_up=True, parts=(part,))

    board.progress(status_at(1000))
    assert b'"lastHeartbeat":1000' in board.snapshot().event
    with board.listener_event() as waker:
        board.progress(status_at(6000))
        assert not waker.is_set()
    assert b'"lastHeartbeat":6000' in board.snapshot().event


def test_group_change_without_a_round_is_an_event(history: History) -> None:
    group = Group("g", {"t": 6}, 1)
    board = Board(history.round_range, history.groups)
    board.publish(history.append(records(group.diffs(3))))
    end = board.end
    with board.listener_event() as waker:
        board.publish(history.append([TopicRecord(ASSIGNMENTS, 0, 0, b"g", None, None)]))
        assert waker.is_set()
    (frame,) = board.events_after(end) or []
    assert (frame.seq, frame.group, board.round_range.last) == (0, "g", 3)
    name, data, *rest = frame.data.decode().split("\n")
    assert (name, rest) == ("event: group", ["", ""])
    assert json.loads(data.removeprefix("data: "))["state"] == "Dead"


def test_changed_counters_do_not_wake_clients(history: History) -> None:
    board, batch = filled_board(history, 3)
    end = board.end
    with board.listener_event() as waker:
        board.publish(HistoryUpdate([], {}, repeated=2, refused=1))
        board.publish(HistoryUpdate([], {}, repeated=1, refused=1))
        assert not waker.is_set()
    assert (board.repeated, board.refused, board.end, board.round_range.last) == (3, 2, end, 3)
    assert board.groups == batch.groups


def test_full_event_buffer_drops_its_oldest_quarter(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_module, "MAX_EVENTS", 8)
    board, _ = filled_board(history, 8)
    assert len(board.events_after(0) or []) == 8
    board.publish(history.append(records(Group("h", {"t": 6}, 2).diffs(1), start=8)))
    assert board.events_after(2) is None
    assert [frame.seq for frame in board.events_after(3) or []] == [4, 5, 6, 7, 8, 9]


def test_memory_is_measured_again_after_each_cut(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """The board measures its memory again after it drops rounds, so that it drops no more rounds than necessary."""
    board, _ = filled_board(history, 1)
    size = len((board.events_after(0) or [])[0].data)
    monkeypatch.setattr(board_module, "MAX_BYTES", 40 * size)
    board.publish(history.append(records(Group("g", {"t": 6}, 1).diffs(400)[1:], start=1)))
    kept = [len(frame.data) for frame in board.events_after(board._start) or []]
    assert 20 * size < sum(kept) <= 40 * size


def test_freshness_wakes_clients_and_lag_does_not(history: History) -> None:
    board, _ = filled_board(history, 1)
    board.progress(FeedStatus(caught_up=True))
    shown = board.snapshot()
    with board.listener_event() as waker:
        board.progress(FeedStatus(caught_up=True, lag=3))
        assert not waker.is_set()
        board.progress(FeedStatus(lag=None, stale=Stale("topic-missing", "Topic t is missing", 5)))
        assert waker.is_set()
    assert board.snapshot() != shown
    progress = json.loads((board.events_after(board.end - 1) or [])[0].data.split(b"data: ")[1])
    assert progress == {
        "caughtUp": False,
        "lag": None,
        "seq": 1,
        "stale": {"kind": "topic-missing", "reason": "Topic t is missing", "since": 5},
    }


def test_trimmed_history_drops_groups_from_the_snapshot(history: History) -> None:
    board, _ = filled_board(history, 3)
    shown = board.snapshot()
    round_range = msgspec.structs.replace(history.round_range, trimmed=2)
    board.trimmed(round_range, {}, [], board.current_stories)
    assert (board.round_range, board.groups) == (round_range, {})
    assert board.snapshot() != shown
    assert json.loads(board.snapshot("g").event.split(b"data: ")[1])["groups"] == []


def test_closing_wakes_all_clients_and_counts_only_present_ones(history: History) -> None:
    board, _ = filled_board(history, 1)
    with board.listener_event() as first:
        with board.listener_event():
            assert len(board.listeners) == 2
        assert (len(board.listeners), board.closing) == (1, False)
        board.close()
        assert (first.is_set(), board.closing) == (True, True)


def test_large_snapshot_is_shared_with_later_clients(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_module, "LARGE_SNAPSHOT_BYTES", 100)
    board, _ = filled_board(history, 3)
    first = board.snapshot()
    board.publish(history.append(records(Group("h", {"t": 6}, 1).diffs(2), start=3)))
    assert board.snapshot() is first
    frames = board.events_after(first.cursor) or []
    assert (first.seq, [frame.seq for frame in frames]) == (3, [4, 5])
    monkeypatch.setattr(board_module, "SHARED_SNAPSHOT_SECONDS", 0)
    assert board.snapshot().seq == 5
