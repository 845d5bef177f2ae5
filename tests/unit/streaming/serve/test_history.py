import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import structs

from assignors.errors import BadInput
from streaming.records.codec import encode
from streaming.serve import historyfile
from streaming.serve.archive import Archive, PageQuery
from streaming.serve.history import History, Retention, count_used_bytes
from streaming.serve.records import TopicRecord
from tests.support.built_diffs import DiffBuilder
from tests.support.compacted import latest
from tests.support.feed import ASSIGNMENTS, DIFFS, records, story
from tests.support.histories import Group
from tests.support.incidents import incident

GROUP = {"t": 6}


def diff_records(count: int) -> list[TopicRecord]:
    return records(Group("g", GROUP, 1).diffs(count))


def test_repeated_diff_id_stores_only_the_offset(history: History) -> None:
    first = diff_records(3)
    history.append(first)
    before = history.groups["g"]
    again = [structs.replace(record, offset=record.offset + 3) for record in first]
    batch = history.append(again)
    assert (batch.rounds, batch.repeated, batch.groups) == ([], 3, {})
    assert history.positions() == {(DIFFS, 0): 6}
    assert (history.groups["g"], history.round_range.last) == (before, 3)
    more = [structs.replace(record, offset=record.offset + 3) for record in diff_records(4)[3:]]
    assert [stored.seq for stored in history.append(more).rounds] == [4]


def test_failed_batch_stores_nothing(history: History) -> None:
    history.append(diff_records(2))
    history._connection.execute(
        "CREATE TEMP TRIGGER full BEFORE INSERT ON positions BEGIN SELECT RAISE(FAIL, 'disk'); END"
    )
    groups = history.groups
    more = records(Group("h", GROUP, 2).diffs(2), start=2)
    with pytest.raises(historyfile.HistoryFailure, match="disk"):
        history.append(more)
    assert (history.round_range.last, history.positions(), history.groups) == (2, {(DIFFS, 0): 2}, groups)
    history._connection.execute("DROP TRIGGER full")
    history.append(more)  # the history has forgotten the ids of the rolled-back transaction
    archive = Archive(history.path)
    assert len(archive.page(PageQuery(group="h"), with_diff=False).items) == 2


def test_full_disk_is_recognised_and_nothing_is_lost(history: History) -> None:
    history.append(diff_records(2))
    pages = history._connection.execute("PRAGMA page_count").fetchone()[0]
    history._connection.execute(f"PRAGMA max_page_count = {pages}")
    more = diff_records(400)[2:]
    with pytest.raises(historyfile.HistoryBlocked, match="the disk is full"):
        history.append(more)
    assert history.positions() == {(DIFFS, 0): 2}
    history._connection.execute("PRAGMA max_page_count = 100000")
    assert len(history.append(more).rounds) == 398


def test_lock_of_another_program_is_recognised(history: History) -> None:
    history._connection.execute("PRAGMA busy_timeout = 0")
    with sqlite3.connect(history.path, isolation_level=None) as other_connection:
        other_connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(historyfile.HistoryBlocked, match="another program holds a lock"):
            history.append(diff_records(1))
        with pytest.raises(historyfile.HistoryBlocked, match="another program holds a lock"):
            history.reset_changed_topics({DIFFS: "a"})
        other_connection.execute("ROLLBACK")
    other_connection.close()
    assert len(history.append(diff_records(1)).rounds) == 1


def test_invalid_diff_is_skipped_and_reported(history: History, caplog: pytest.LogCaptureFixture) -> None:
    valid_record = diff_records(1)[0]
    invalid_records = [
        TopicRecord(DIFFS, 0, 1, b"g", b"{", "x"),
        TopicRecord(DIFFS, 0, 2, b"g", valid_record.value, None),
        TopicRecord(DIFFS, 0, 3, b"g", (valid_record.value or b"")[:-1] + b',"more":"\xff"}', "z"),
        TopicRecord(ASSIGNMENTS, 0, 0, None, b"{}", "y"),
    ]
    batch = history.append([valid_record, *invalid_records])
    assert (len(batch.rounds), batch.refused) == (1, 4)
    assert "rebalance.diffs partition 0 offset 1: not usable" in caplog.text
    assert history.positions() == {(DIFFS, 0): 4, (ASSIGNMENTS, 0): 1}


def changed(value: bytes | None, **fields: object) -> bytes:
    return json.dumps(json.loads(value or b"") | fields).encode()


ASSIGNMENT = encode(latest(DiffBuilder(6, group_id="g").join("a", "b")))


@pytest.mark.parametrize(
    "value",
    [
        b"{",
        b"null",
        b'{"groupId":"g","more":"\xff"}',
        ASSIGNMENT[:-1] + b',"more":"\xff"}',
        ASSIGNMENT[:-1] + b',"more":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        changed(ASSIGNMENT, groupId="another"),
        changed(ASSIGNMENT, timestamp=2**70),
        changed(ASSIGNMENT, generation=2**31),
        changed(ASSIGNMENT, members={"m": {"t": [-1]}}),
    ],
)
def test_an_assignment_that_is_refused_is_not_served(history: History, value: bytes) -> None:
    valid_record = TopicRecord(ASSIGNMENTS, 0, 0, b"g", ASSIGNMENT, None)
    history.append([valid_record, structs.replace(valid_record, key=b"h")])
    batch = history.append(
        [TopicRecord(ASSIGNMENTS, 0, 2, b"g", value, None), TopicRecord(ASSIGNMENTS, 0, 3, b"new", value, None)]
    )
    assert (batch.refused, batch.groups) == (2, {})
    archive = Archive(history.path)
    assert (archive.assignment("g"), archive.assignment("new")) == (ASSIGNMENT, None)
    assert set(history.groups) == {"g"}


@pytest.mark.parametrize(
    "fields",
    [
        {"timestamp": 2**70},
        {"timestamp": -1},
        {"moved": 2**63},
        {"moved": -1},
        {"generation": 2**31},
        {"groupEpoch": -(2**40)},
        {"round": 2**70},
        {"unassigned": {"t": [2**63]}},
        {"members": {"m": {"owned": {"t": [2**70]}, "revoked": {}, "assigned": {}, "kept": {}}}},
    ],
)
def test_diff_with_numbers_out_of_range_is_refused(history: History, fields: dict[str, object]) -> None:
    first, second = diff_records(2)
    invalid_record = structs.replace(second, value=changed(second.value, **fields), id="bad")
    batch = history.append([first, invalid_record, structs.replace(second, offset=2)])
    assert (len(batch.rounds), batch.refused, history.positions()) == (2, 1, {(DIFFS, 0): 3})


def test_history_of_other_topics_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    with closing(History(path, cluster_id="c", diffs_topic=DIFFS)) as history:
        history.reset_changed_topics({ASSIGNMENTS: "b"})
    with closing(History(path, cluster_id="c", diffs_topic=DIFFS)) as history:  # without rounds it has no group yet
        history.append(diff_records(1))
    message = rf"rounds of other topics \({ASSIGNMENTS}, {DIFFS}\), this is x\.{DIFFS}; name another file"
    with pytest.raises(BadInput, match=message):
        History(path, cluster_id="c", diffs_topic=f"x.{DIFFS}")
    History(path, cluster_id="c", diffs_topic=DIFFS).close()


def test_recreated_topic_is_read_from_its_start(history: History) -> None:
    history.reset_changed_topics({DIFFS: "a", ASSIGNMENTS: "b"})
    history.append(diff_records(3))
    history.reset_changed_topics({DIFFS: "a", ASSIGNMENTS: "b"})
    history.reset_changed_topics({ASSIGNMENTS: "b"})  # the group is hidden until its assignment is read again
    assert (history.topic_ids(), history.positions()) == ({DIFFS: "a", ASSIGNMENTS: "b"}, {(DIFFS, 0): 3})
    history.reset_changed_topics({DIFFS: "z", ASSIGNMENTS: "b"})
    assert (history.positions(), history.round_range.last) == ({}, 3)
    assert history.topic_ids()[DIFFS] == "z"


@pytest.mark.parametrize("clock_ahead_ms", [2 * 3_600_000, 1000 * 31_557_600_000])
def test_round_with_future_time_does_not_stop_retention(history: History, clock_ahead_ms: int) -> None:
    diffs = Group("g", GROUP, 1).diffs(20)
    diffs[3] = structs.replace(diffs[3], timestamp=diffs[3].timestamp + clock_ahead_ms)
    topic_records = records(diffs)
    history.append(topic_records[:5], 2**50)  # the clock of this machine was ahead, too
    history.append(topic_records[5:15], 1000)
    history.append(topic_records[15:], 2000)
    assert history.trim(Retention(0, 2**40), 2000) == (15, [])
    assert (history.round_range.trimmed, history.round_range.last) == (15, 20)


def test_retention_drops_a_dead_group_with_its_last_round(tmp_path: Path) -> None:
    path = tmp_path / "again.sqlite"
    with closing(History(path, cluster_id="c-1", diffs_topic=DIFFS)) as history:
        history.append([*diff_records(3), *records(Group("h", GROUP, 2).diffs(2), start=3)], 1000)
        history.append([story(incident("g", 1), offset=0), story(incident("h", 1), offset=1)], 1000)
        gone = [TopicRecord(ASSIGNMENTS, 0, 0, b"g", None, None), TopicRecord(ASSIGNMENTS, 0, 1, b"k", None, None)]
        history.append(gone, 1000)
        assert history.trim(Retention(0, 2**40), 1000) == (0, [])
        assert history.trim(Retention(0, 2**40), 2000, caught_up=False) == (5, [])
        assert history.trim(Retention(0, 2**40), 2000) == (0, ["g"])
        assert ([*history.groups], [*history.current_stories.open]) == (["h"], [("h", 1)])
        (first_again,) = history.append(records(Group("g", GROUP, 3).diffs(1), start=5)).rounds
        assert (history.groups["g"].rounds, first_again.seq) == (1, 6)
    with closing(History(path, cluster_id="c-1", diffs_topic=DIFFS)) as history:
        names = {name for (name,) in history._connection.execute("SELECT name FROM groups")}
        assert ([*history.groups], names) == (["h", "g"], {"g", "h"})


def test_rounds_of_a_topic_with_more_partitions_stay_in_order(history: History) -> None:
    older = [structs.replace(record, timestamp=10 + record.offset) for record in diff_records(6)]
    newer = [structs.replace(record, partition=1, offset=record.offset - 4, timestamp=90) for record in older[4:]]
    history.append([newer[0], *older[:2], newer[1], *older[2:4]])
    group = history.groups["g"]
    newest = json.loads(newer[1].value or b"")
    assert (group.generation, group.round, group.rounds) == (newest["generation"], newest["round"], 6)
    page = Archive(history.path).page(PageQuery(group="g", limit=4), with_diff=True)
    rest = Archive(history.path).page(PageQuery(group="g", before=page.next), with_diff=True)
    shown = [json.loads(item)["diff"] for item in [*page.items, *rest.items]]
    assert shown == [json.loads(record.value or b"") for record in [*older[:4], *newer][::-1]]
    history.append([structs.replace(diff_records(7)[6], partition=2, timestamp=5)])
    assert history.groups["g"].generation == newest["generation"]


def test_assignments_stay_in_order_when_the_topic_grows(history: History) -> None:
    now = TopicRecord(ASSIGNMENTS, 1, 0, b"g", ASSIGNMENT, None, timestamp=20)
    history.append([now, TopicRecord(ASSIGNMENTS, 0, 0, b"g", None, None, timestamp=10)])
    assert (history.groups["g"].state, Archive(history.path).assignment("g")) == ("Stable", now.value)
    history.append([TopicRecord(ASSIGNMENTS, 1, 1, b"g", None, None, timestamp=15)])
    assert Archive(history.path).assignment("g") is None


def test_retention_by_size_drops_the_oldest(history: History) -> None:
    history.append(diff_records(2000))
    history.trim(Retention(2**60, 900_000), 0)
    with closing(historyfile.connect(history.path)) as connection:
        assert count_used_bytes(connection) <= 900_000
    assert 0 < history.round_range.trimmed < history.round_range.last == 2000


def test_tombstone_of_an_assignment_deletes_the_group(history: History) -> None:
    history.append([TopicRecord(ASSIGNMENTS, 0, 0, b"g", ASSIGNMENT, None)])
    assert history.groups["g"].members == 2
    history.append([TopicRecord(ASSIGNMENTS, 0, 1, b"g", None, None)])
    assert (history.groups["g"].state, history.groups["g"].members) == ("Dead", 0)
