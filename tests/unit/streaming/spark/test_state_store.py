"""Which files of the state a start reads, of either store; Spark itself is asked in the integration tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from zipfile import ZIP_BZIP2, ZipFile

import pytest

from streaming.spark import state_store
from tests.support.rocksdb import snapshot


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A task's folder with its changes up to version 14, and a snapshot of version 10 with two tables."""
    task = tmp_path / "state/0/0"
    task.mkdir(parents=True)
    for version in range(8, 15):
        (task / f"{version}.changelog").write_bytes(b"state")
    snapshot(task, 10, {"000009-a.sst": b"table", "000012-b.sst": b"another"})
    return task


def test_of_rocksdb_a_snapshot_its_tables_and_the_changes_after_it_are_read(
    task: Path, tmp_path: Path
) -> None:
    names = [str(file.relative_to(task)) for file in state_store.files(tmp_path, 13)]
    assert names == [
        "10.zip",
        "SSTs/000009-a.sst",
        "SSTs/000012-b.sst",
        "11.changelog",
        "12.changelog",
        "13.changelog",
    ]
    names = [file.name for file in state_store.files(tmp_path, 9)]
    assert names == [f"{version}.changelog" for version in range(1, 10)]


def test_a_table_is_as_large_as_its_snapshot_says(task: Path) -> None:
    found = state_store.tables(task / "10.zip")
    assert found == {task / "SSTs/000009-a.sst": 5, task / "SSTs/000012-b.sst": 7}
    assert state_store.tables(task / "11.changelog") == {}
    assert state_store.tables(task / "9.zip") == {}


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-30])


def garble(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:60] + bytes(byte ^ 0x5A for byte in content[60:80]) + content[80:])


def rewrite(metadata: bytes) -> Callable[[Path], None]:
    def write(file: Path) -> None:
        with ZipFile(file, "w") as archive:
            archive.writestr("metadata", metadata)

    return write


def foreign(file: Path) -> None:
    with ZipFile(file, "w", ZIP_BZIP2) as archive:
        archive.writestr("metadata", b"v1\n{}")


def listed(at: int, byte: int) -> Callable[[Path], None]:
    """Another byte in what the archive says of its first file, behind all files."""

    def write(file: Path) -> None:
        content = bytearray(file.read_bytes())
        content[content.index(b"PK\x01\x02") + at] = byte
        file.write_bytes(content)

    return write


def without_a_list(file: Path) -> None:
    with ZipFile(file, "w") as archive:
        archive.writestr("CURRENT", b"")


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        garble,
        foreign,
        without_a_list,
        pytest.param(listed(6, 255), id="a version to come"),
        pytest.param(listed(8, 1), id="encrypted"),
        pytest.param(listed(45, 255), id="an offset beyond"),
        rewrite(b""),
        rewrite(b"v1\n{"),
        rewrite(b'v1\n{"sstFiles":{}}'),
        rewrite(b'v1\n{"sstFiles":[{"dfsSstFileName":"../1.sst","sizeBytes":1}]}'),
        rewrite(b'v1\n{"sstFiles":[{"dfsSstFileName":"1.sst","sizeBytes":-1}]}'),
    ],
)
def test_a_snapshot_that_is_not_as_spark_wrote_it_lists_nothing(
    task: Path, damage: Callable[[Path], None]
) -> None:
    damage(task / "10.zip")
    assert state_store.tables(task / "10.zip") is None


def test_a_store_is_known_by_its_files(task: Path, tmp_path: Path) -> None:
    assert state_store.of(tmp_path) == "rocksdb"
    for file in task.iterdir():
        if file.suffix:
            file.unlink()
    assert state_store.of(tmp_path) == "memory"
    (task / "1.delta").touch()
    assert state_store.of(tmp_path) == "memory"
    assert state_store.of(tmp_path / "nowhere") == "memory"


def test_about_how_large_a_task_s_state_is(task: Path, tmp_path: Path) -> None:
    (task / "12.changelog").write_bytes(bytes(4000))
    snapshot(task, 10, {"1.sst": bytes(3000), "2.sst": bytes(2000)})
    assert state_store.sizes(state_store.files(tmp_path, 13)) == {task: 5000}
    (task / "12.changelog").write_bytes(bytes(6000))
    assert state_store.sizes(state_store.files(tmp_path, 13)) == {task: 6000}


def test_what_spark_is_told() -> None:
    changelog = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}
    name = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    assert state_store.properties("rocksdb") == {state_store.PROVIDER: name, **changelog}
    assert state_store.properties(None) == changelog
    assert json.dumps(state_store.properties("memory")).count("HDFSBackedStateStoreProvider") == 1
