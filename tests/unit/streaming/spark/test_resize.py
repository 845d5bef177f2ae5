"""Resizing of a checkpoint (its buckets and tasks) without Spark; integration tests cover the steps with Spark."""

import errno
import json
import os
import shutil
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from assignors.errors import BadInput, OutsideFailure
from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import Sinks
from streaming.records.codec import Record, encode_event
from streaming.spark import resize as resize_module
from streaming.spark.checkpoint import (
    METADATA_FILE,
    LocalCheckpoint,
    Metadata,
    rename_with_timestamp,
    replace_checkpoint,
    settle,
    staging_folder,
)
from streaming.spark.failures import RESTORE_ADVICE
from streaming.spark.resize import Layout, ResizeResult, layout, resize, resize_advice
from streaming.spark.session import SessionOptions
from tests.support.histories import Log

METADATA = Metadata("cluster", "membership", "id-1", 16, partitions=4)


def read(folder: Path) -> Metadata | None:
    return LocalCheckpoint(str(folder)).read()


def write(folder: Path, metadata: Metadata) -> None:
    LocalCheckpoint(str(folder)).write(metadata)


def begun(folder: Path, partitions: int, batches: int = 1) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write(folder, METADATA)
    offsets = folder / "offsets"
    offsets.mkdir()
    batch_metadata = {"batchWatermarkMs": 0, "conf": {"spark.sql.shuffle.partitions": str(partitions)}}
    for number in range(batches):
        (offsets / str(number)).write_text(f'v1\n{json.dumps(batch_metadata)}\n{{"m":{{"0":{number}}}}}\n-')
    return folder


def test_resize_of_a_checkpoint_in_an_object_store_is_refused() -> None:
    with pytest.raises(BadInput, match="only a checkpoint in a folder"):
        resize("s3a://bucket/checkpoint", 1, 1, dry_run=False)


def test_resize_of_a_folder_without_checkpoint_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(BadInput, match=f"--checkpoint {folder}: contains no checkpoint of this program"):
            resize(str(folder), 4, None, dry_run=False)


@pytest.mark.parametrize(
    "batch_metadata",
    [
        "{}",
        '{"conf":{}}',
        '{"conf":null}',
        '{"conf":{"spark.sql.shuffle.partitions":"many"}}',
        '{"conf":{"spark.sql.shuffle.partitions":"0"}}',
        "[]",
        "\xff",
    ],
)
def test_batch_file_without_a_number_is_damaged(tmp_path: Path, batch_metadata: str) -> None:
    folder = begun(tmp_path / "checkpoint", 2)
    file = folder / "offsets" / "0"
    file.write_bytes(f'v1\n{batch_metadata}\n{{"m":{{"0":0}}}}\n-'.encode("latin-1"))
    with pytest.raises(OutsideFailure) as refused:
        resize(str(folder), 4, None, dry_run=False)
    assert str(refused.value) == f"--checkpoint {folder}: {file} is damaged. {RESTORE_ADVICE}"


def test_error_names_the_checkpoint_that_cannot_be_locked(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "checkpoint"
    with pytest.raises(OutsideFailure, match=f"--checkpoint {place}: .*Not a directory"), LocalCheckpoint(str(place)):
        pytest.fail("it is held")


def test_resize_before_the_first_batch_changes_only_the_buckets(tmp_path: Path) -> None:
    folder = begun(tmp_path / "checkpoint", 2)
    with pytest.raises(BadInput, match="no batch is finished; delete the folder, and start `stream` with"):
        resize(str(folder), None, 32, dry_run=False)
    done = resize(str(folder), 256, None, dry_run=True)
    assert done == ResizeResult(Layout(16, 2), Layout(256, 2), 0, {"before": 0, "after": 0}, None)
    assert read(folder) == METADATA
    done = resize(str(folder), 256, None, dry_run=False)
    assert done.old_checkpoint is not None
    assert [path.name for path in folder.iterdir()] == [METADATA_FILE]
    assert read(folder) == structs.replace(METADATA, buckets=256)
    assert (read(Path(done.old_checkpoint)), layout(Path(done.old_checkpoint), METADATA)) == (METADATA, Layout(16, 2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint", Path(done.old_checkpoint).name]


def test_staged_files_are_synced_before_the_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Staged files reach the disk before their metadata; else a power failure could leave only the metadata."""
    folder = begun(tmp_path / "checkpoint", 2)
    synced_files: list[tuple[bool, bool, Metadata | None]] = []

    def sync() -> None:
        there = staging_folder(folder)
        synced_files.append((there.is_dir(), (there / METADATA_FILE).exists(), read(folder)))

    monkeypatch.setattr(os, "sync", sync)
    resize(str(folder), 256, None, dry_run=True)
    assert synced_files == []
    resize(str(folder), 256, None, dry_run=False)
    assert synced_files == [(True, False, METADATA)]


def test_disk_error_during_a_resize_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(OutsideFailure) as refused:
        resize(str(file), 4, None, dry_run=False)
    assert str(refused.value).startswith(f"--checkpoint {file}: {file / METADATA_FILE}: Not a directory; ")
    folder = begun(tmp_path / "checkpoint", 2)

    def full(self: LocalCheckpoint, _: Metadata) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))

    monkeypatch.setattr(LocalCheckpoint, "write", full)
    with pytest.raises(OutsideFailure, match=f"{staging_folder(folder)}: No space left on device; make room"):
        resize(str(folder), 4, None, dry_run=False)
    assert read(folder) == METADATA


def test_leftovers_of_an_interrupted_resize_are_not_carried_over(tmp_path: Path) -> None:
    folder = begun(tmp_path / "checkpoint", 2)
    staging_folder(folder).mkdir()
    (staging_folder(folder) / "state").write_text("of the one before")
    resize(str(folder), 256, None, dry_run=False)
    assert [path.name for path in folder.iterdir()] == [METADATA_FILE]


def test_resizing_to_current_numbers_changes_nothing(tmp_path: Path) -> None:
    folder = begun(tmp_path / "checkpoint", 2)
    assert resize(str(folder), 16, None, dry_run=False).old_checkpoint is None
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


def made(folder: Path) -> Path:
    """Return a checkpoint beside which an incomplete staged checkpoint exists."""
    begun(folder, 2)
    staging_folder(folder).mkdir()
    (staging_folder(folder) / "part").touch()
    return folder


def test_an_incomplete_staged_checkpoint_is_not_used(tmp_path: Path) -> None:
    folder = made(tmp_path / "checkpoint")
    settle(folder)
    assert read(folder) == METADATA
    assert staging_folder(folder).exists()


def test_an_interrupted_switch_is_finished_by_the_next_start(tmp_path: Path) -> None:
    folder = made(tmp_path / "checkpoint")
    new = structs.replace(METADATA, buckets=4)
    write(staging_folder(folder), new)
    rename_with_timestamp(folder)
    with LocalCheckpoint(str(folder)) as place:
        assert place.read() == new


def test_resize_keeps_the_old_checkpoint(tmp_path: Path) -> None:
    folder = made(tmp_path / "checkpoint")
    new = structs.replace(METADATA, buckets=4)
    write(staging_folder(folder), new)
    old_folder = replace_checkpoint(folder)
    assert (read(folder), read(old_folder)) == (new, METADATA)


def test_resize_result_as_text_and_as_json(tmp_path: Path) -> None:
    done = ResizeResult(Layout(16, None), Layout(256, 32), 3, {"before": 9000, "after": 1200}, str(tmp_path))
    assert list(done.lines()) == [
        "buckets: 16 → 256",
        "shuffle partitions: not chosen yet → 32",
        "groups: 3; largest bucket, bytes: 9,000 → 1,200",
        f"done; the old checkpoint is {tmp_path}, to be deleted when the job runs well",
    ]
    assert msgspec.to_builtins(done) == {
        "before": {"buckets": 16, "shufflePartitions": None},
        "after": {"buckets": 256, "shufflePartitions": 32},
        "groups": 3,
        "largestBytes": {"before": 9000, "after": 1200},
        "aside": str(tmp_path),
    }


def checkpoint_with_state(folder: Path, *kilobytes: int) -> Path:
    """Return a checkpoint of 16 buckets; each size (kB) becomes the state snapshot of one task."""
    begun(folder, len(kilobytes))
    (folder / "commits").mkdir()
    (folder / "commits" / "0").write_text("v1\n{}")
    for task, size in enumerate(kilobytes):
        place = folder / "state" / "0" / str(task)
        place.mkdir(parents=True)
        (place / "1.snapshot").write_bytes(bytes(size * 1000))
    return folder


def pack_bucket(names: list[str]) -> bytes:
    """Return the packed state of a bucket that contains these groups."""
    log = [Log(name) for name in names]
    events = [event for group_log in log for event in (group_log.topics(t=1), group_log.join("c"))]
    rows = [
        Record.of(0, place, key, value, headers)
        for place, (key, value, headers) in enumerate(map(encode_event, events))
    ]
    bucket = Bucket(None)
    process(bucket, rows, 0, Sinks("m", "d", "a", "dlt", dict.fromkeys(("m", "d", "a", "dlt"), 1)))
    return bucket.pack()


@pytest.mark.parametrize(("dry_run", "buckets"), [(True, 4), (False, 4), (False, 64)])
def test_resize_session_has_one_partition_for_each_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dry_run: bool, buckets: int
) -> None:
    folder = checkpoint_with_state(tmp_path / "c", 1)
    (folder / "metadata").write_text('{"id":"1"}')
    requested_sessions: list[SessionOptions] = []
    written: dict[int, bytes] = {}

    def write_state(_: object, state: dict[int, bytes], place: Path) -> None:
        written.update(state)
        for name in ("offsets", "sources"):
            (place / name).mkdir(parents=True)

    def session(options: SessionOptions) -> nullcontext[str]:
        requested_sessions.append(options)
        return nullcontext("spark")

    old = {0: pack_bucket(["a", "b", "c"]), 5: pack_bucket(["d"])}
    monkeypatch.setattr(resize_module, "session", session)
    monkeypatch.setattr(resize_module, "blobs", lambda *place: old if place == ("spark", str(folder)) else {})
    monkeypatch.setattr(resize_module, "_write_state", write_state)
    resize_result = resize(str(folder), buckets, 3, dry_run=dry_run)
    assert requested_sessions == [SessionOptions(connector=False, shuffle_partitions=3)]
    sizes = sorted(map(len, resize_module.regroup_buckets(old.values(), buckets).values()))
    assert (resize_result.before, resize_result.after, resize_result.groups) == (Layout(16, 1), Layout(buckets, 3), 4)
    assert resize_result.largest_bytes == {"before": len(old[0]), "after": sizes[-1]}
    assert (sizes[0] < sizes[-1]) is (buckets == 4)
    assert (resize_result.old_checkpoint is None, sorted(map(len, written.values()))) == (
        dry_run,
        [] if dry_run else sizes,
    )
    assert read(folder) == (METADATA if dry_run else structs.replace(METADATA, buckets=buckets))


def test_outgrown_buckets_are_reported_with_a_better_count(tmp_path: Path) -> None:
    assert resize_advice(checkpoint_with_state(tmp_path / "well", 800, 800)) is None
    folder = checkpoint_with_state(tmp_path / "large", 2000, 1200)
    advice = resize_advice(folder)
    assert advice is not None
    assert "outgrown its 16 buckets (some 200 kB each on disk): stop the job" in advice
    assert advice.endswith(f"stream resize --checkpoint {folder} --buckets 128`")
    assert resize_advice(tmp_path) is None


def test_resized_state_belongs_to_the_last_committed_batch(tmp_path: Path) -> None:
    """A resized checkpoint has the same query id, and its query continues after the last committed batch."""
    old = begun(tmp_path / "old", 2, batches=3)
    (old / "metadata").write_text('{"id":"query"}')
    (old / "sources" / "0").mkdir(parents=True)
    (old / "sources" / "0" / "0").write_text("first")
    new = tmp_path / "new"
    (new / "offsets").mkdir(parents=True)
    (new / "sources").mkdir()
    (new / "sources" / "of this query").touch()
    (new / "metadata").write_text('{"id":"another"}')
    for checksums in (".metadata.crc", "offsets/.0.crc", "offsets/.1.crc"):
        (new / checksums).touch()
    resize_module._copy_state(old, new, 1, Layout(64, 8))
    # Otherwise Hadoop would reject the files for their old checksums.
    assert [path.name for path in new.rglob(".*.crc")] == [".1.crc"]
    version, metadata, *rest = (new / "offsets" / "0").read_text().splitlines()
    batch_metadata = {"batchWatermarkMs": 0, "conf": {"spark.sql.shuffle.partitions": "8"}}
    assert (version, json.loads(metadata), rest) == ("v1", batch_metadata, ['{"m":{"0":1}}', "-"])
    assert (new / "metadata").read_text() == '{"id":"query"}'
    assert [path.name for path in (new / "sources").rglob("*")] == ["0", "0"]
    shutil.rmtree(old / "sources")  # Spark has not recorded any source yet
    resize_module._copy_state(old, new, 0, Layout(64, 8))
    assert not (new / "sources").exists()


@pytest.mark.parametrize(("kilobytes", "needs_resize"), [(800, False), (801, True)])
def test_bucket_above_100_kilobytes_needs_a_resize(tmp_path: Path, kilobytes: int, needs_resize: bool) -> None:
    assert (resize_advice(checkpoint_with_state(tmp_path, 800, kilobytes)) is not None) is needs_resize
