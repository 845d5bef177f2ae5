import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from streaming.serve import historyfile
from streaming.serve.historyfile import HistoryBlocked, HistoryFailure, connect, history_errors, history_read_errors


def sqlite_error(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("SQLite's message")
    error.sqlite_errorcode = code
    return error


def stored_failure(path: Path, code: int) -> HistoryFailure:
    with pytest.raises(HistoryFailure) as failure, history_errors(path):
        raise sqlite_error(code)
    return failure.value


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        (sqlite3.SQLITE_BUSY, HistoryBlocked, "another program holds a lock on it"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, HistoryBlocked, "another program holds a lock on it"),
        (sqlite3.SQLITE_FULL, HistoryBlocked, "the disk is full"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, HistoryFailure, "it can't be written: "),
        (sqlite3.SQLITE_PERM, HistoryFailure, "no permission to use it"),
        (sqlite3.SQLITE_CANTOPEN, HistoryFailure, "it can't be opened; its folder must exist"),
        (sqlite3.SQLITE_IOERR_WRITE, HistoryFailure, "the disk reports an error"),
        (sqlite3.SQLITE_CORRUPT, HistoryFailure, "is damaged; restore a copy, or remove it"),
        (sqlite3.SQLITE_NOTADB, HistoryFailure, "is damaged; restore a copy, or remove it"),
    ],
)
def test_sqlite_errors_come_with_advice(tmp_path: Path, code: int, kind: type[HistoryFailure], message: str) -> None:
    failure = stored_failure(tmp_path / "h", code)
    assert type(failure) is kind
    assert str(failure).startswith(f"history {tmp_path / 'h'}: {message}")
    assert str(failure).endswith("(SQLite's message)")


@pytest.mark.parametrize(("free", "kind"), [(0, HistoryBlocked), (2**20, HistoryFailure)])
def test_io_error_without_room_is_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, kind: type[HistoryFailure]
) -> None:
    monkeypatch.setattr(historyfile.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert type(stored_failure(tmp_path / "h", sqlite3.SQLITE_IOERR_WRITE)) is kind


def test_other_sqlite_errors_keep_their_text(tmp_path: Path) -> None:
    path, file = tmp_path / "h", tmp_path / "other"
    for error, message in (
        (PermissionError(13, "Permission denied", str(path)), "Permission denied"),
        (PermissionError(13, "Permission denied", str(file)), f"{file}: Permission denied"),
        (OSError("odd"), "odd"),
        (sqlite_error(sqlite3.SQLITE_ERROR), "SQLite's message"),
        (sqlite3.ProgrammingError("SQLite's message"), "SQLite's message"),
    ):
        with pytest.raises(HistoryFailure) as failure, history_errors(path):
            raise error
        assert str(failure.value) == f"history {path}: {message}"


@pytest.mark.parametrize("error", [zlib.error("bits"), UnicodeDecodeError("utf-8", b"x", 0, 1, "bits")])
def test_undecodable_bytes_are_reported_as_damage(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(HistoryFailure, match=r"is damaged; restore a copy.*bits"), history_errors(tmp_path / "h"):
        raise error


@pytest.mark.parametrize("error", [ValueError("v"), KeyError("v"), TypeError("v"), RecursionError("v")])
def test_invalid_stored_values_are_reported_as_damage(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(HistoryFailure, match="is damaged; restore a copy"), history_read_errors(tmp_path / "h"):
        raise error
    with pytest.raises(type(error)), history_errors(tmp_path / "h"):
        raise error


def test_read_only_connections_create_no_file(tmp_path: Path) -> None:
    path = tmp_path / "a file?mode=rwc#%"
    with pytest.raises(sqlite3.OperationalError, match="unable to open"), closing(connect(path)):
        pass
    historyfile._create_file(path, "c-1")
    with closing(connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)  # incremental: retention frees disk space
        assert connection.execute("PRAGMA synchronous").fetchone() == (1,)
        assert connection.execute("PRAGMA user_version").fetchone() == (historyfile.SCHEMA_VERSION,)
        meta = dict(connection.execute("SELECT key, value FROM meta"))
    assert (meta["cluster_id"], meta["trimmed"], len(meta["epoch"])) == ("c-1", "0", 8)
    with closing(connect(path, "ro")) as connection, pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM meta")
    assert path.read_bytes()[68:72] == b"KRMH"
