import json
from pathlib import Path

from streaming.spark.checkpoint import OffsetsFile, last_batch, state_bytes


def task(checkpoint: Path, number: int) -> Path:
    folder = checkpoint / "state/0" / str(number)
    folder.mkdir(parents=True)
    return folder


def test_the_newest_batch_has_tasks_and_offsets(tmp_path: Path) -> None:
    assert last_batch(tmp_path / "offsets") is None
    (tmp_path / "offsets").mkdir()
    conf = {"spark.sql.shuffle.partitions": "3"}
    (tmp_path / "offsets/7").write_text(f'v1\n{json.dumps({"conf": conf})}\n-\n{{"m":{{"0":4}}}}')
    newest = OffsetsFile.read(tmp_path, 7)
    assert newest.shuffle_partitions == 3
    assert (newest.end_offsets("m"), newest.end_offsets("another")) == ({0: 4}, {})


def test_state_size_sums_the_largest_file_of_each_task(tmp_path: Path) -> None:
    folder = task(tmp_path, 0)
    (folder / "12.delta").write_bytes(bytes(4000))
    (folder / "10.snapshot").write_bytes(bytes(6000))
    folder = task(tmp_path, 1)
    (folder / "12.delta").write_bytes(bytes(4000))
    assert state_bytes(tmp_path) == 10_000
    assert state_bytes(tmp_path / "nowhere") == 0


def test_the_newest_batch_is_the_largest_number(tmp_path: Path) -> None:
    assert last_batch(tmp_path / "offsets") is None
    for name in ("9", "10", ".11.crc", "x", "²"):
        (tmp_path / name).touch()
    assert last_batch(tmp_path) == 10


def test_file_instead_of_a_task_folder_is_skipped(tmp_path: Path) -> None:
    task(tmp_path, 0)
    (tmp_path / "state/0/13").touch()
    assert state_bytes(tmp_path) == 0
