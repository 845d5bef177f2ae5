from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from streaming.collect.broker_reasons import LogTail, LogUnreadable

if TYPE_CHECKING:
    from pathlib import Path


def read(tail: LogTail) -> bytes:
    return b"".join(tail.chunks())


def test_bytes_come_once(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("one\ntw")
    tail = LogTail(log)

    assert read(tail) == b"one\ntw"
    assert read(tail) == b""
    with log.open("a") as file:
        file.write("o\nthree\n")
    assert read(tail) == b"o\nthree\n"


def test_log_that_appears_later_is_awaited(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = tmp_path / "server.log"
    tail = LogTail(log)

    assert read(tail) == b""
    log.write_text("one\n")
    assert read(tail) == b"one\n"
    assert caplog.messages == [f"coordinator log {log} is not there yet; waiting for it"]
    LogTail(log).close()
    assert len(caplog.messages) == 1


def test_rotation_loses_nothing(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("one\n")
    tail = LogTail(log)
    read(tail)
    with log.open("a") as file:
        file.write("two\ncut")
    log.rename(tmp_path / "server.log.1")
    log.write_text("three\n")

    assert read(tail) == b"two\ncut\nthree\n"


def test_a_truncated_log_is_read_again(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("a longer first line\n")
    tail = LogTail(log)
    read(tail)
    log.write_text("short\n")

    assert read(tail) == b"\nshort\n"


def test_the_last_64_mib_of_an_existing_log_are_read_in_chunks(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with log.open("wb") as file:
        file.write(b"long ago\n")
        file.seek(64 * 2**20 - 1, os.SEEK_CUR)  # a hole: no disk is filled
        file.write(b"\n")
    tail = LogTail(log)
    sizes = [len(chunk) for chunk in tail.chunks()]
    assert (sum(sizes), max(sizes)) == (64 * 2**20, 2**20)
    assert tail.within_line
    assert not LogTail(tmp_path / "other.log").within_line


def test_a_closed_tail_keeps_no_file_open(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("one\n")
    tail = LogTail(log)
    file = tail._file
    assert file is not None
    assert not file.closed
    tail.close()
    assert file.closed
    tail.close()  # again: nothing is open


def test_a_directory_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(LogUnreadable, match=r"--coordinator-log .*: Is a directory"):
        LogTail(tmp_path)


def test_a_fifo_and_a_device_are_refused_at_once(tmp_path: Path) -> None:
    fifo, link = tmp_path / "fifo", tmp_path / "link"
    os.mkfifo(fifo)
    link.symlink_to("/dev/zero")
    for path in (fifo, link):
        with pytest.raises(LogUnreadable, match="not a regular file"):
            LogTail(path)


def test_a_fifo_that_replaces_the_log_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("one\n")
    tail = LogTail(log)
    log.unlink()
    os.mkfifo(log)
    with pytest.raises(LogUnreadable, match="not a regular file"):
        read(tail)
