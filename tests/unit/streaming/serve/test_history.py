from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest

from streaming.serve import schema
from streaming.serve.history import History, Limits, Record
from streaming.wire.codec import encode
from tests.support.feed import ASSIGNMENTS, DIFFS, records
from tests.support.histories import Group

GROUP = {"t": 6}


def made(count: int, *, name: str = "g", seed: int = 1) -> list[Record]:
    return records(Group(name, GROUP, seed).diffs(count))


def test_rounds_and_offsets_are_stored_together(history: History) -> None:
    applied = history.append(made(5))
    assert [stored.seq for stored in applied.rounds] == [1, 2, 3, 4, 5]
    assert history.positions() == {(DIFFS, 0): 5}
    assert history.place.last == 5
    assert history.groups["g"].rounds == 5


def test_a_repeated_id_changes_nothing_but_the_offset(history: History) -> None:
    first = made(3)
    history.append(first)
    before = history.groups["g"]
    again = [msgspec.structs.replace(record, offset=record.offset + 3) for record in first]
    applied = history.append(again)
    assert (applied.rounds, applied.repeated, applied.groups) == ([], 3, {})
    assert history.positions() == {(DIFFS, 0): 6}
    assert history.groups["g"] == before


def test_a_batch_that_fails_leaves_nothing(history: History) -> None:
    history.append(made(2))
    history._connection.execute(
        "CREATE TEMP TRIGGER full BEFORE INSERT ON positions BEGIN SELECT RAISE(FAIL, 'disk'); END"
    )
    groups = history.groups
    with pytest.raises(schema.HistoryFailure, match="disk"):
        history.append(records(Group("h", GROUP, 2).diffs(2), start=2))
    assert (history.place.last, history.positions(), history.groups) == (2, {(DIFFS, 0): 2}, groups)


def test_what_is_no_diff_is_skipped_and_said(history: History, caplog: pytest.LogCaptureFixture) -> None:
    good = made(1)[0]
    broken = [
        Record(DIFFS, 0, 1, b"g", b"{", "x"),
        Record(DIFFS, 0, 2, b"g", good.value, None),
        Record(ASSIGNMENTS, 0, 0, None, b"{}", "y"),
    ]
    applied = history.append([good, *broken])
    assert (len(applied.rounds), applied.refused) == (1, 3)
    assert "rebalance.diffs partition 0 offset 1: not usable" in caplog.text
    assert history.positions() == {(DIFFS, 0): 3, (ASSIGNMENTS, 0): 1}


def test_a_restart_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    first = History(path, cluster_id="c", diffs_topic=DIFFS)
    first.append(made(4))
    place, groups = first.place, first.groups
    first.close()
    second = History(path, cluster_id="c", diffs_topic=DIFFS)
    assert (second.place, second.groups, second.positions()) == (place, groups, {(DIFFS, 0): 4})
    second.close()


def test_another_schema_version_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    first = History(path, cluster_id="c", diffs_topic=DIFFS)
    first.append(made(4))
    epoch = first.epoch
    first.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 999")
    second = History(path, cluster_id="c", diffs_topic=DIFFS)
    assert (second.place.last, second.positions()) == (0, {})
    assert second.epoch != epoch
    second.close()


def test_a_file_that_is_no_database_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    path.write_bytes(b"not a database" * 100)
    history = History(path, cluster_id="c", diffs_topic=DIFFS)
    assert history.place.last == 0
    history.close()


def test_another_cluster_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    History(path, cluster_id="c-1", diffs_topic=DIFFS).close()
    with pytest.raises(schema.WrongHistory, match="cluster c-1, this is c-2"):
        History(path, cluster_id="c-2", diffs_topic=DIFFS)


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(schema.HistoryFailure, match="--database"):
        History(tmp_path / "file" / "h.sqlite", cluster_id="c", diffs_topic=DIFFS)


def test_a_topic_made_anew_is_read_from_its_start(history: History) -> None:
    history.topic_ids({DIFFS: "a", ASSIGNMENTS: "b"})
    history.append(made(3))
    history.topic_ids({DIFFS: "a", ASSIGNMENTS: "b"})
    assert history.positions() == {(DIFFS, 0): 3}
    history.topic_ids({DIFFS: "z", ASSIGNMENTS: "b"})
    assert history.positions() == {}


def test_retention_by_age_drops_a_run_from_the_start(history: History) -> None:
    stored = history.append(made(20)).rounds
    cut = stored[12].summary.timestamp
    assert history.trim(Limits(0, 2**40), cut) == 12
    assert (history.place.trimmed, history.place.last) == (12, 20)


def test_retention_by_size_drops_the_oldest(history: History) -> None:
    history.append(made(2000))
    history.trim(Limits(2**60, 900_000), 0)
    assert history.used_bytes() <= 900_000
    assert 0 < history.place.trimmed < history.place.last == 2000


def test_numbers_go_on_when_everything_is_gone(history: History) -> None:
    history.append(made(3))
    history.trim(Limits(0, 2**40), 2**60)
    applied = history.append(records(Group("h", GROUP, 2).diffs(1), start=3))
    assert applied.rounds[0].seq == 4


def test_a_tombstone_ends_a_group(history: History) -> None:
    history.append(made(3))
    group = Group("g", GROUP, 1)
    group.diffs(3)
    history.append([Record(ASSIGNMENTS, 0, 0, b"g", encode(group.latest()), None)])
    assert history.groups["g"].members == len(group.members)
    history.append([Record(ASSIGNMENTS, 0, 1, b"g", None, None)])
    assert (history.groups["g"].state, history.groups["g"].members) == ("Dead", 0)
