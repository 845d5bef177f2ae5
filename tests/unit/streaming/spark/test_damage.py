"""A checkpoint's damaged files are named, with what to do; Spark itself is asked in the integration tests."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from streaming.checks.doctor import Finding, _checkpoint
from streaming.spark.damage import (
    CheckpointDamaged,
    CheckpointUnusable,
    explain,
    look,
    refused,
    state_files,
    unusable,
)
from tests.support.rocksdb import snapshot

OFFSETS = 'v1\n{"batchWatermarkMs":0}\n{"m":{"0":4}}\n-'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint after batch 12, with a snapshot at 10; batch 13 was begun."""
    for name in (
        "offsets",
        "commits",
        "sources/0",
        "sources/1",
        "state/0/0",
        "state/0/1",
        "state/0/0/_metadata",
        "state/0/_metadata",
    ):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "metadata").write_text('{"id":"1"}')
    (tmp_path / "state/0/_metadata/metadata").write_text('v1\n{"operatorInfo":{}}')
    (tmp_path / "state/0/0/_metadata/schema").write_bytes(b"\0\2v2\0\0\0\1{}")
    for source in "01":
        (tmp_path / f"sources/{source}/0").write_bytes(b'\0v1\n{"m":{"0":0}}')
    for batch in range(8, 14):
        (tmp_path / "offsets" / str(batch)).write_text(OFFSETS)
        (tmp_path / "offsets" / f".{batch}.crc").write_bytes(b"")
    for batch in range(8, 13):
        (tmp_path / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    for task in "01":
        (tmp_path / f"state/0/{task}/10.snapshot").write_bytes(b"state")
        for version in range(9, 15):
            (tmp_path / f"state/0/{task}/{version}.delta").write_bytes(b"state")
    return tmp_path


def test_a_whole_one_passes(folder: Path) -> None:
    look(str(folder))
    (folder / "offsets/13").unlink()
    look(str(folder))
    assert _checkpoint(folder) == Finding("checkpoint", True, f"{folder}: writable")


def test_what_spark_does_not_read_does_not_matter(folder: Path) -> None:
    (folder / "state/0/0/9.delta").unlink()
    (folder / "state/0/0/14.delta").write_bytes(b"")
    for name in ("offsets/8", "offsets/11", "commits/11"):
        (folder / name).write_text("")
    look(str(folder))
    (folder / "state/0/_metadata/metadata").unlink()
    (folder / "state/0/0/_metadata/schema").unlink()
    look(str(folder))


def test_one_without_a_batch_and_one_behind_a_url_pass(tmp_path: Path) -> None:
    look(str(tmp_path))
    look(str(tmp_path / "not there"))
    look("s3a://bucket/checkpoint")
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets/0").write_text(OFFSETS)
    look(str(tmp_path))


def test_a_first_batch_that_was_only_begun_is_looked_at_too(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets/0").write_text("v1\n{")
    with pytest.raises(CheckpointDamaged, match=r"offsets/0 is damaged"):
        look(str(tmp_path))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-5])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def garble(file: Path) -> None:
    file.write_bytes(b"\x00\xff" * 20)


@pytest.mark.parametrize(
    ("file", "damage", "said"),
    [
        ("metadata", garble, "metadata is damaged"),
        ("offsets/13", empty, "offsets/13 is damaged"),
        ("offsets/13", garble, "offsets/13 is damaged"),
        ("offsets/12", cut, "offsets/12 is damaged"),
        ("offsets/12", Path.unlink, "offsets/12 is missing"),
        ("sources/1/0", garble, "sources/1/0 is damaged"),
        ("commits/12", garble, "commits/12 is damaged"),
        ("commits/12", empty, "commits/12 is damaged"),
        ("commits/12", Path.unlink, "commits lacks files: batch 13 was begun last, batch 11 was done last"),
        ("state/0/_metadata/metadata", garble, "state/0/_metadata/metadata is damaged"),
        ("state/0/0/_metadata/schema", garble, "state/0/0/_metadata/schema is damaged"),
        ("state/0/0/_metadata/schema", empty, "state/0/0/_metadata/schema is damaged"),
        ("state/0/1/12.delta", Path.unlink, "state/0/1/12.delta is missing"),
        ("state/0/1/13.delta", empty, "state/0/1/13.delta is empty"),
        ("state/0/0/10.snapshot", empty, "state/0/0/10.snapshot is empty"),
    ],
)
def test_the_file_is_named_with_what_to_do(
    folder: Path, file: str, damage: Callable[[Path], object], said: str
) -> None:
    damage(folder / file)
    with pytest.raises(CheckpointDamaged) as told:
        look(str(folder))
    assert str(told.value).startswith(
        f"--checkpoint {folder}: {folder}/{said}. Restore the folder from a copy"
    )
    assert _checkpoint(folder) == Finding("checkpoint", False, str(told.value))


@pytest.fixture
def rocksdb(folder: Path) -> Path:
    """The same with its state in RocksDB."""
    for task in (folder / "state/0/0", folder / "state/0/1"):
        for file in (*task.glob("*.delta"), *task.glob("*.snapshot")):
            file.unlink()
        for version in range(11, 14):
            (task / f"{version}.changelog").write_bytes(b"state")
        snapshot(task, 10, {"000009-a.sst": b"table"})
    return folder


@pytest.mark.parametrize(
    ("file", "damage", "said"),
    [
        ("0/12.changelog", Path.unlink, "is missing"),
        ("1/13.changelog", empty, "is empty"),
        ("0/10.zip", empty, "is empty"),
        ("0/10.zip", cut, "is damaged"),
        ("1/10.zip", garble, "is damaged"),
        ("1/SSTs/000009-a.sst", Path.unlink, "is missing"),
        ("1/SSTs/000009-a.sst", garble, "is damaged"),
    ],
)
def test_of_rocksdb_the_file_is_named_too(
    rocksdb: Path, file: str, damage: Callable[[Path], object], said: str
) -> None:
    look(str(rocksdb))
    damage(rocksdb / "state/0" / file)
    with pytest.raises(CheckpointDamaged) as told:
        look(str(rocksdb))
    assert str(told.value).startswith(f"--checkpoint {rocksdb}: {rocksdb}/state/0/{file} {said}. Restore")


def test_offsets_without_the_newest_are_told(folder: Path) -> None:
    for batch in (12, 13):
        (folder / "offsets" / str(batch)).unlink()
    with pytest.raises(
        CheckpointDamaged, match="offsets lacks files: batch 11 was begun last, batch 12 was done"
    ):
        look(str(folder))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_of_another_user_is_named(folder: Path) -> None:
    (folder / "state/0/0/13.delta").chmod(0)
    with pytest.raises(CheckpointUnusable, match=r"13\.delta: Permission denied; give the folder"):
        look(str(folder))


def test_what_can_t_be_read_is_named_with_what_the_system_says(folder: Path) -> None:
    (folder / "offsets/13").unlink()
    (folder / "offsets/13").mkdir()
    with pytest.raises(CheckpointUnusable) as told:
        look(str(folder))
    said = f"--checkpoint {folder}: {folder}/offsets/13: Is a directory; put that right and start again"
    assert str(told.value) == said


def test_an_error_without_a_number_or_a_file_is_of_the_folder() -> None:
    assert str(unusable("c", OSError("odd"))) == "--checkpoint c: c: Success; put that right and start again"
    denied = PermissionError(errno.EACCES, "Permission denied", "c/x")
    assert str(unusable("c", denied)).startswith("--checkpoint c: c/x: Permission denied; give the folder")


def test_what_the_system_refuses_has_its_advice() -> None:
    assert str(refused("c", "c/x", errno.ENOSPC)) == (
        "--checkpoint c: c/x: No space left on device; make room on its disk and start again; nothing is lost"
    )
    assert "give the folder, with all that is in it" in str(refused("c", "c/x", errno.EACCES))


def test_the_files_that_a_start_reads(folder: Path) -> None:
    names = [str(file.relative_to(folder / "state/0")) for file in state_files(folder)]
    one = ["10.snapshot", "11.delta", "12.delta", "13.delta"]
    assert names == [f"{task}/{name}" for task in "01" for name in one]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Caused by: java.io.IOException: No space left on device", "No space left on device; make room"),
        (
            "Caused by: java.io.FileNotFoundException: /c/offsets/.5.tmp (Read-only file system)",
            "/c/offsets/.5.tmp: Read-only file system; put that right",
        ),
        (
            "java.io.IOException: /c/state/0/1/5.delta: Input/output error",
            "Input/output error; put that right",
        ),
        (
            "Caused by: java.io.FileNotFoundException: /c/offsets/5 (Permission denied)",
            "/c/offsets/5: Permission",
        ),
        (
            "query at /c/state\norg.apache.hadoop.fs.ChecksumException: Checksum error: file:/c/offsets/5 at 0",
            "/c/offsets/5 is damaged",
        ),
        (
            "STATE_STORE /c/state/0/1: RocksDBException: appending to file: /d/12.sst: No space left on device",
            "/d/12.sst: No space left on device; make room",
        ),
        ("java.io.EOFException: 'file:/c/state/0/1/5.delta'", "/c/state/0/1/5.delta is damaged"),
        (
            "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error of a query at /c",
            "/c/state/0/0/2.delta is damaged",
        ),
    ],
)
def test_what_spark_says_of_files(text: str, said: str) -> None:
    assert said in str(explain(text, "c", "/c", lambda: Path("/c/state/0/0/2.delta")))


@pytest.mark.parametrize(
    "text",
    [
        "Caused by: org.apache.kafka.common.errors.TimeoutException",
        "java.io.EOFException at /elsewhere/5.delta",
        "java.io.FileNotFoundException: /elsewhere/5.delta (Read-only file system)",
    ],
)
def test_what_is_about_other_things_is_not_taken(text: str) -> None:
    assert explain(text, "c", "/c", lambda: None) is None
