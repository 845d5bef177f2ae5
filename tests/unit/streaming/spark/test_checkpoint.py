"""A checkpoint is used only by the job that created it."""

import errno
import json
import re
import shutil
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from assignors.errors import BadInput, OutsideFailure
from streaming.spark import checkpoint
from streaming.spark.checkpoint import (
    METADATA_FILE,
    DataLossPolicy,
    LocalCheckpoint,
    Metadata,
    OffsetsFile,
    TopicDeleted,
    last_batch,
    rename_with_timestamp,
    state_bytes,
)

METADATA = Metadata("cluster", "membership", "id-1", 16)


def claim(folder: str, metadata: Metadata, on_data_loss: DataLossPolicy) -> Metadata:
    with LocalCheckpoint(folder) as place:
        return checkpoint.claim(folder, place, metadata, on_data_loss)


def test_same_job_claims_a_new_checkpoint_twice(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "checkpoint"
    claim(str(folder), METADATA, "stop")
    claim(str(folder), METADATA, "stop")
    assert sorted(path.name for path in folder.iterdir()) == [".lock", METADATA_FILE]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("topic", "other", "was written for topic membership, not other"),
        ("cluster_id", "other", "was written for cluster cluster, not other"),
        ("buckets", 4, "was made with --buckets 16"),
    ],
)
def test_another_jobs_checkpoint_is_refused(tmp_path: Path, field: str, value: object, message: str) -> None:
    claim(str(tmp_path), METADATA, "stop")
    before = (tmp_path / METADATA_FILE).read_bytes()
    with pytest.raises(BadInput, match=message) as refused:
        claim(str(tmp_path), structs.replace(METADATA, **{field: value}), "restart")
    assert refused.value.exit_status == 2
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {METADATA_FILE: before, ".lock": b""}


@pytest.mark.parametrize("changes", [{"version": 2}, {"state": 99}])
def test_checkpoint_of_another_release_is_refused(tmp_path: Path, changes: dict[str, int]) -> None:
    LocalCheckpoint(str(tmp_path)).write(structs.replace(METADATA, **changes))
    with pytest.raises(BadInput, match=r"another release wrote it \(layout \d, state \d+; this"):
        claim(str(tmp_path), METADATA, "stop")


def test_recreated_input_topic_stops_with_the_options(tmp_path: Path) -> None:
    claim(str(tmp_path), METADATA, "stop")
    with pytest.raises(TopicDeleted, match=r"restart sets the checkpoint aside.*continue keeps"):
        claim(str(tmp_path), structs.replace(METADATA, topic_id="id-2"), "stop")


def test_data_loss_option_keeps_or_renames_the_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    claim(str(folder), METADATA, "stop")
    (folder / "offsets").mkdir()
    claim(str(folder), structs.replace(METADATA, topic_id="id-2"), "continue")
    assert (folder / "offsets").is_dir()
    claim(str(folder), structs.replace(METADATA, topic_id="id-3"), "restart")
    assert sorted(path.name for path in folder.iterdir()) == [".lock", METADATA_FILE]
    (moved,) = (path for path in tmp_path.iterdir() if path != folder)
    assert (moved / "offsets").is_dir()


def test_a_foreign_checkpoint_and_damaged_metadata_are_refused(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    message_pattern = (
        f"without {METADATA_FILE}. If it is another program's, .* if this program wrote it, .* Restore the"
    )
    with pytest.raises(BadInput, match=message_pattern):
        claim(str(tmp_path), METADATA, "stop")
    (tmp_path / METADATA_FILE).write_text("{")
    with pytest.raises(OutsideFailure, match=f"{METADATA_FILE} is damaged. Restore the folder from a copy"):
        claim(str(tmp_path), METADATA, "stop")
    for invalid_fields in ({"buckets": -1}, {"buckets": 2**40}, {"partitions": -1}):
        (tmp_path / METADATA_FILE).write_bytes(msgspec.json.encode(structs.replace(METADATA, **invalid_fields)))
        with pytest.raises(OutsideFailure, match=f"{METADATA_FILE} is damaged"):
            claim(str(tmp_path), METADATA, "stop")


def test_checkpoint_keeps_the_partition_count_of_a_grown_topic(tmp_path: Path) -> None:
    metadata_of_four = structs.replace(METADATA, partitions=4)
    assert claim(str(tmp_path), metadata_of_four, "stop") == metadata_of_four
    assert claim(str(tmp_path), structs.replace(METADATA, partitions=8), "stop") == metadata_of_four
    LocalCheckpoint(str(tmp_path)).write(structs.replace(METADATA, partitions=8))
    assert claim(str(tmp_path), structs.replace(METADATA, partitions=8), "stop").partitions == 8


def test_a_file_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    part = tmp_path / f".{METADATA_FILE}.part"
    part.mkdir()
    with pytest.raises(OutsideFailure, match=re.escape(f"{part}: Is a directory")):
        claim(str(tmp_path), METADATA, "stop")


@pytest.mark.parametrize("replaced", [False, True])
def test_a_locked_checkpoint_that_is_gone_or_replaced_is_noticed(tmp_path: Path, replaced: bool) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    message = f"--checkpoint {folder}: it was removed or replaced while in use. Restore the folder from a copy"
    with LocalCheckpoint(str(folder)) as place:
        place.check()
        folder.rename(tmp_path / "old")
        if replaced:
            shutil.copytree(tmp_path / "old", folder)
        with pytest.raises(OutsideFailure, match=message):
            place.check()


def test_a_file_system_without_locks_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    with LocalCheckpoint(str(tmp_path)) as place:
        place.check()
    (warning,) = caplog.messages
    assert warning == (
        f"--checkpoint {tmp_path}: its file system has no locks (No locks available): "
        "make sure that no second job uses it"
    )


def test_a_checkpoint_in_use_is_left_as_it_is(tmp_path: Path) -> None:
    claim(str(tmp_path), METADATA, "stop")
    before = (tmp_path / METADATA_FILE).read_bytes()
    with LocalCheckpoint(str(tmp_path)), pytest.raises(OutsideFailure, match="another process uses it"):
        claim(str(tmp_path), structs.replace(METADATA, topic_id="id-2"), "restart")
    assert (tmp_path / METADATA_FILE).read_bytes() == before
    assert list(tmp_path.parent.glob(f"{tmp_path.name}.*")) == []


def test_a_new_folder_is_locked_after_the_old_one_was_renamed(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    claim(str(folder), METADATA, "stop")
    with LocalCheckpoint(str(folder)) as place:
        checkpoint.claim(str(folder), place, structs.replace(METADATA, topic_id="id-2"), "restart")
        place.check()
        with pytest.raises(OutsideFailure):
            LocalCheckpoint(str(folder)).__enter__()
        rename_with_timestamp(folder)
        with pytest.raises(OutsideFailure):
            place.check()


def test_output_topics_that_grew_keep_their_partitions(tmp_path: Path) -> None:
    metadata = structs.replace(METADATA, outputs={"diffs": 4, "episodes": 4})
    assert claim(str(tmp_path), metadata, "stop") == metadata
    grown = structs.replace(METADATA, outputs={"diffs": 8, "episodes": 2, "incidents": 6})
    kept = claim(str(tmp_path), grown, "stop")
    # Topics of the first claim keep their partition counts; new topics are added with theirs.
    assert kept.outputs == {"diffs": 4, "episodes": 2, "incidents": 6}
    assert claim(str(tmp_path), grown, "stop") == kept


def test_the_newest_batch_has_tasks_and_offsets(tmp_path: Path) -> None:
    assert last_batch(tmp_path / "offsets") is None
    (tmp_path / "offsets").mkdir()
    conf = {"spark.sql.shuffle.partitions": "3"}
    (tmp_path / "offsets/7").write_text(f'v1\n{json.dumps({"conf": conf})}\n-\n{{"m":{{"0":4}}}}')
    newest = OffsetsFile.read(tmp_path, 7)
    assert newest.shuffle_partitions == 3
    assert (newest.end_offsets("m"), newest.end_offsets("another")) == ({0: 4}, {})


def test_state_size_sums_the_largest_file_of_each_task(tmp_path: Path) -> None:
    for task, name, size in ((0, "12.delta", 4000), (0, "10.snapshot", 6000), (1, "12.delta", 4000)):
        file = tmp_path / "state/0" / str(task) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(size))
    (tmp_path / "state/0/13").write_bytes(bytes(9000))  # not a task's folder
    assert state_bytes(tmp_path) == 10_000
    assert state_bytes(tmp_path / "nowhere") == 0


def test_the_newest_batch_is_the_largest_number(tmp_path: Path) -> None:
    assert last_batch(tmp_path / "offsets") is None
    for name in ("9", "10", ".11.crc", "x", "²"):
        (tmp_path / name).touch()
    assert last_batch(tmp_path) == 10
