import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from assignors.errors import BadInput
from streaming.serve import historyfile
from streaming.serve.history import History
from streaming.serve.historyfile import HistoryFailure
from tests.support.feed import DIFFS, records
from tests.support.histories import Group


def opened(path: Path, cluster_id: str = "c") -> History:
    return History(path, cluster_id=cluster_id, diffs_topic=DIFFS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "h.sqlite"


def write_history(path: Path, count: int = 4) -> str:
    """Fill a history with ``count`` rounds and close it; return ``epoch``, the random id of the history."""
    with closing(opened(path)) as history:
        history.append(records(Group("g", {"t": 6}, 1).diffs(count)))
        return history.epoch


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def file_contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def make_file(path: Path, content: Callable[[Path], object] | bytes | int | list[str]) -> None:
    """Make a file by a call, of these bytes, as a history of this version, or as a database of these statements."""
    if callable(content):
        content(path)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, int):
        write_history(path)
        execute(path, f"PRAGMA user_version = {content}")
    else:
        execute(path, *content)


def write_ahead_log_alone(path: Path) -> None:
    path.with_name(f"{path.name}-wal").write_bytes(b"of somebody")


def link_to_a_text_file(path: Path) -> None:
    target = path.with_name("notes.txt")
    target.write_bytes(b"my notes\n" * 100)
    path.symlink_to(target)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"my notes\n" * 100, "it is not an SQLite file"),
        (b"x", "it is not an SQLite file"),
        (["CREATE TABLE meta (key, value)", "INSERT INTO meta VALUES ('cluster_id', 'c')"], "another program"),
        (["PRAGMA application_id = 7", "CREATE TABLE t (x)"], "a database of another program"),
        (["PRAGMA journal_mode = WAL", "CREATE TABLE t (x)"], "a database of another program"),
        (["PRAGMA journal_mode = WAL"], "a database of another program"),
        (historyfile.SCHEMA_VERSION - 1, "written by another release"),
        (historyfile.SCHEMA_VERSION + 1, "written by another release"),
        (link_to_a_text_file, "it is not an SQLite file"),
        (Path.mkdir, "is a folder"),
        (os.mkfifo, "is a device or pipe"),
        (write_ahead_log_alone, "h.sqlite-wal exists without h.sqlite; remove it"),
    ],
)
def test_foreign_file_is_refused_and_unchanged(path: Path, content, message: str) -> None:
    make_file(path, content)
    before = file_contents(path.parent)
    with pytest.raises(BadInput, match=message) as refused:
        opened(path)
    assert f"--database {path.parent}" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert file_contents(path.parent) == before


def test_another_cluster_is_refused(path: Path) -> None:
    write_history(path)
    before = path.read_bytes()
    with pytest.raises(BadInput, match="cluster c, but this cluster is c-2"):
        opened(path, "c-2")
    assert path.read_bytes() == before


def overwrite_history(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 8000)


@pytest.mark.parametrize(
    "damage", [lambda path: os.truncate(path, 9000), lambda path: os.truncate(path, 50), overwrite_history]
)
def test_damaged_history_is_kept_and_reported(path: Path, damage) -> None:
    write_history(path, 200)
    damage(path)
    before = path.read_bytes()
    with pytest.raises(HistoryFailure, match="is damaged; restore a copy, or remove it"):
        opened(path)
    assert path.read_bytes() == before


def nothing(_: Path) -> None: ...


def link_to_a_missing_file(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere.sqlite"))


@pytest.mark.parametrize("make", [nothing, Path.touch, link_to_a_missing_file])
def test_missing_or_empty_file_becomes_a_history(path: Path, make) -> None:
    make(path)
    epoch = write_history(path)
    with closing(opened(path)) as history:
        assert (history.epoch, history.round_range.last) == (epoch, 4)
    assert path.is_symlink() is (make is link_to_a_missing_file)


def test_lock_is_reported_and_the_history_unchanged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(historyfile, "_LOCK_WAIT_SECONDS", 0.1)
    epoch = write_history(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as backup:
        backup.execute("BEGIN EXCLUSIVE")
        with pytest.raises(HistoryFailure, match="another program holds a lock on it"):
            opened(path)
    with closing(opened(path)) as history:
        assert (history.epoch, history.round_range.last) == (epoch, 4)


def test_full_disk_while_building_leaves_no_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(historyfile, "_SCHEMA", f"PRAGMA max_page_count = 1; {historyfile._SCHEMA}")
    with pytest.raises(HistoryFailure, match="the disk is full"):
        opened(path)
    assert [file.name for file in path.parent.iterdir()] == [f"{path.name}.lock"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder on a disk of 2 MB, which the test may fill."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    result = subprocess.run(mount, capture_output=True, check=False)
    if result.returncode:
        pytest.skip(f"a disk of its own takes the right to mount: {result.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_full_disk_at_a_restart_leaves_the_history_unchanged(small_disk: Path) -> None:
    path = small_disk / "h.sqlite"
    epoch = write_history(path)
    before = path.read_bytes()
    fill_file = small_disk / "ballast"
    with pytest.raises(OSError, match="No space left"):
        fill_file.write_bytes(b"x" * 2**22)
    for _ in range(2):
        with pytest.raises(HistoryFailure, match="the disk is full"):
            opened(path)
    with pytest.raises(HistoryFailure, match="the disk is full"):
        opened(small_disk / "new.sqlite")
    assert path.read_bytes() == before
    fill_file.unlink()
    with closing(opened(path)) as history:
        assert (history.epoch, history.round_range.last) == (epoch, 4)


def test_second_writer_of_a_history_is_refused(path: Path) -> None:
    with closing(opened(path)):
        link = path.with_name("link.sqlite")
        link.symlink_to(path)
        for name in (path, link):
            with pytest.raises(HistoryFailure, match="another `serve` uses it"):
                opened(name)
    opened(path).close()


def test_killed_writer_releases_the_lock(path: Path) -> None:
    hold = (
        "import sys; from pathlib import Path; from streaming.serve.history import History\n"
        "h = History(Path(sys.argv[1]), cluster_id='c', diffs_topic='d'); print(flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", hold, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(HistoryFailure):
            opened(path)
        holder.send_signal(signal.SIGKILL)
        holder.wait(10)
        opened(path).close()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_is_removed_or_replaced_is_noticed(path: Path, replaced: bool) -> None:
    with closing(opened(path)) as history:
        history.check()
        path.unlink()
        if replaced:
            write_history(path.with_name("copy.sqlite"))
            path.with_name("copy.sqlite").replace(path)
        history.append(records(Group("late", {"t": 6}, 1).diffs(3)))
        with pytest.raises(HistoryFailure, match="was removed or replaced while in use"):
            history.check()
    # SQLite would apply the write-ahead log to the next file at that path.
    assert [left.name for left in path.parent.glob(f"{path.name}-*")] == []


def test_removed_write_ahead_log_is_noticed(path: Path) -> None:
    """The history reports that its write-ahead log was removed, because other programs would then miss its content."""
    with closing(opened(path)) as history:
        history.append(records(Group("g", {"t": 6}, 1).diffs(3)))
        path.with_name(f"{path.name}-wal").unlink()
        with pytest.raises(HistoryFailure, match="sqlite-wal: was removed or replaced"):
            history.check()
    with closing(opened(path)) as history:
        assert history.round_range.last == 3


def test_older_copy_that_is_put_back_is_reported(path: Path) -> None:
    write_history(path)
    history_copy = path.read_bytes()
    with closing(opened(path)) as history:
        history.append(records(Group("late", {"t": 6}, 1).diffs(3)))
    with closing(opened(path)) as history:
        assert history.notice == ""
    path.write_bytes(history_copy)
    with closing(opened(path)) as history:
        message = "an older copy was put back; 3 rounds are read again from the topics"
        assert history.notice == f"history {path}: {message}"


def test_folder_creation_error_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HistoryFailure, match="--database"):
        opened(tmp_path / "file" / "h.sqlite")
