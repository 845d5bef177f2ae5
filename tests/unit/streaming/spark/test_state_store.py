"""Which store a checkpoint has, and how large its state is."""

from __future__ import annotations

import json
from pathlib import Path

from streaming.spark import state_store


def task(checkpoint: Path, number: int) -> Path:
    folder = checkpoint / "state/0" / str(number)
    (folder / "SSTs").mkdir(parents=True)
    return folder


def test_a_store_is_known_by_its_files(tmp_path: Path) -> None:
    assert state_store.of(tmp_path / "nowhere") == "memory"
    folder = task(tmp_path, 0)
    assert state_store.of(tmp_path) == "memory"
    (folder / "1.delta").touch()
    assert state_store.of(tmp_path) == "memory"
    (folder / "1.changelog").touch()
    assert state_store.of(tmp_path) == "rocksdb"


def test_the_size_is_each_task_s_largest_file_or_rocksdb_s_tables(tmp_path: Path) -> None:
    folder = task(tmp_path, 0)
    (folder / "12.delta").write_bytes(bytes(4000))
    (folder / "10.snapshot").write_bytes(bytes(6000))
    folder = task(tmp_path, 1)
    (folder / "12.changelog").write_bytes(bytes(4000))
    for name, size in (("1.sst", 3000), ("2.sst", 2000)):
        (folder / "SSTs" / name).write_bytes(bytes(size))
    assert state_store.size(tmp_path) == 11_000
    assert state_store.size(tmp_path / "nowhere") == 0


def test_the_newest_batch_is_the_largest_number(tmp_path: Path) -> None:
    assert state_store.last(tmp_path / "offsets") is None
    for name in ("9", "10", ".11.crc", "x", "²"):
        (tmp_path / name).touch()
    assert state_store.last(tmp_path) == 10


def test_what_spark_is_told() -> None:
    changelog = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}
    name = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    assert state_store.properties("rocksdb") == {state_store.PROVIDER: name, **changelog}
    assert state_store.properties(None) == changelog
    assert json.dumps(state_store.properties("memory")).count("HDFSBackedStateStoreProvider") == 1


def test_a_file_in_a_task_s_place_is_passed_over(tmp_path: Path) -> None:
    task(tmp_path, 0)
    (tmp_path / "state/0/13").touch()
    assert state_store.size(tmp_path) == 0
