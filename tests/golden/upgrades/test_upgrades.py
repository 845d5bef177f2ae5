"""What the release before wrote is read by this one; what a newer one wrote is refused and left as it is."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from streaming.kafka import dlt
from streaming.serve.archive import Archive, Window
from streaming.serve.history import History
from streaming.serve.records import TopicRecord, assignment_of, round_of
from streaming.serve.schema import SCHEMA_VERSION, WrongHistory
from streaming.spark import damage
from streaming.wire import codec
from tests.support import upgrades
from tests.support.feed import records
from tests.support.histories import Group
from tests.support.pure_stream import run

DIFFS = f"{upgrades.PREFIX}rebalance.diffs"


def topic_records(name: str) -> list[TopicRecord]:
    """The records of a topic as ``serve`` gets them."""
    offsets: defaultdict[int, int] = defaultdict(int)
    found = []
    for row in upgrades.topics()[name]:
        ce_id = codec.ce_attributes(row["headers"]).get("id")
        place = (upgrades.PREFIX + name, row["partition"], offsets[row["partition"]])
        offsets[row["partition"]] += 1
        found.append(TopicRecord(*place, row["key"], row["value"], ce_id))
    return found


def cluster_of(path: Path) -> str:
    """The cluster whose rounds a history holds."""
    with closing(sqlite3.connect(path)) as file:
        return str(file.execute("SELECT value FROM meta WHERE key = 'cluster_id'").fetchone()[0])


def test_its_topics_are_read() -> None:
    topics = upgrades.topics()
    assert all(topics.values())
    for record in topic_records("rebalance.diffs"):
        assert round_of(record).body == record.value
    for record in topic_records("rebalance.assignments"):
        assert assignment_of(record).body == record.value
    for row in topics["rebalance.membership-dlt"]:
        calls = {name: lambda value=row[name]: value for name in ("key", "value", "headers")}
        letter = dlt._letter(SimpleNamespace(**calls, partition=lambda: 0, offset=lambda: 0))
        assert (letter.exception, bool(letter.message)) == ("MalformedEvent", True)


def test_its_log_gives_the_diffs_that_it_gave() -> None:
    """By id, in order, with each field that it wrote."""
    topics = upgrades.topics()
    given = defaultdict(list)
    for write in run(upgrades.as_topic(topics["rebalance.membership"]), batch=10**9, buckets=1):
        ce = codec.ce_attributes(write.headers)
        if ce.get("type") == "rebalance.diff":
            given[write.key].append((ce["id"], json.loads(write.value or b"")))
    before = defaultdict(list)
    for row in topics["rebalance.diffs"]:
        before[row["key"]].append((codec.ce_attributes(row["headers"])["id"], json.loads(row["value"])))
    assert before.keys() == given.keys()
    for key, rows in before.items():
        assert [one for one, _ in rows] == [one for one, _ in given[key]]
        for (_, old), (_, new) in zip(rows, given[key], strict=True):
            assert upgrades.narrowed(new, old) == old


def test_its_history_goes_on(tmp_path: Path) -> None:
    path = upgrades.history(tmp_path)
    cluster = cluster_of(path)
    told = topic_records("rebalance.diffs")
    with closing(History(path, cluster_id=cluster, diffs_topic=DIFFS)) as history:
        assert sum(offset for (topic, _), offset in history.positions().items() if topic == DIFFS) == len(
            told
        )
        assert history.groups.keys() == {(record.key or b"").decode() for record in told}
        assert history.append(told).repeated == len(told)
        new = records(Group("new", {"t": 3}, 1).diffs(2))
        later = [msgspec.structs.replace(one, topic=DIFFS) for one in new]
        assert [one.seq > len(told) for one in history.append(later).rounds] == [True, True]
        with closing(Archive(path)) as archive:
            page = archive.page(Window(limit=500), with_diff=True)
    shown = [json.loads(item) for item in page.items][2:]
    assert {one["summary"]["id"] for one in shown} == {record.id for record in told}
    assert [path.name for path in tmp_path.iterdir() if "version" in path.name] == []


def test_its_checkpoint_is_whole(tmp_path: Path) -> None:
    damage.look(str(upgrades.checkpoint(tmp_path)))


def test_a_newer_history_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = upgrades.history(tmp_path)
    cluster = cluster_of(path)
    History(path, cluster_id=cluster, diffs_topic=DIFFS).close()  # this release puts its mark on it
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    with pytest.raises(WrongHistory, match="written by a newer release") as refused:
        History(path, cluster_id=cluster, diffs_topic=DIFFS)
    assert (refused.value.exit_status, str(refused.value).count("\n")) == (2, 0)
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == before
