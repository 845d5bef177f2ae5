from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streaming.collect.log_tail import LogTail, LogUnreadable

if TYPE_CHECKING:
    from pathlib import Path


def test_lines_come_whole_and_once(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("one\ntw")
    tail = LogTail(log)

    assert tail.lines() == ["one"]
    assert tail.lines() == []
    with log.open("a") as file:
        file.write("o\nthree\n")
    assert tail.lines() == ["two", "three"]


def test_a_log_that_appears_later_is_waited_for_and_said_to_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "server.log"
    tail = LogTail(log)

    assert tail.lines() == []
    log.write_text("one\n")
    assert tail.lines() == ["one"]
    assert caplog.messages == [f"coordinator log {log} is not there yet; waiting for it"]
    LogTail(log).close()
    assert len(caplog.messages) == 1


def test_rotation_loses_nothing(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("one\n")
    tail = LogTail(log)
    tail.lines()
    with log.open("a") as file:
        file.write("two\n")
    log.rename(tmp_path / "server.log.1")
    log.write_text("three\n")

    assert tail.lines() == ["two", "three"]


def test_a_log_that_is_cut_is_read_again(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("a longer first line\n")
    tail = LogTail(log)
    tail.lines()
    log.write_text("short\n")

    assert tail.lines() == ["short"]


def test_of_a_log_that_is_there_already_the_last_64_mib_are_read(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with log.open("wb") as file:
        file.write(b"long ago\n")
        file.seek(64 * 2**20 - 1, 1)  # a hole: no disk is filled
        file.write(b"\n")
    assert list(map(len, LogTail(log).lines())) == [64 * 2**20 - 1]
    with log.open("ab") as file:
        file.write(b"x\n")
    assert list(map(len, LogTail(log).lines())) == [64 * 2**20 - 3, 1]


def test_who_lets_go_of_a_log_keeps_no_file_open(tmp_path: Path) -> None:
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
