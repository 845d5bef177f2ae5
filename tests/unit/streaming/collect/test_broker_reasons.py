import os
from pathlib import Path

import pytest
from msgspec import structs

from assignors.errors import OutsideFailure
from streaming.collect.broker_log.group_reasons import GroupReasons
from streaming.collect.broker_reasons import BrokerReasons, LogTail, add_reasons
from streaming.records.events import Event, Evidence, GroupDeleted, GroupObserved
from tests.support.broker_logs import read_lines

LEAVE_LINES = (
    "INFO [GroupCoordinator id=1] [GroupId g] Member m left the consumer group. (GroupMetadataManager)\n"
    "INFO [GroupCoordinator id=1] [GroupId g] Bumped group epoch to 5 with metadata hash 7.\n"
)
LOGGED_LEAVE = Evidence(
    source="coordinator-log", reason="left the consumer group.", member_ids=["m"], kind="member.left"
)


def guessed_evidence(member: str) -> Evidence:
    return Evidence(source="offset-commits", reason="guess", member_ids=[member], kind="group.observed")


def epoch(number: int, *evidence: Evidence) -> Event:
    data = GroupObserved(
        group_id="g", timestamp=1, members=[], group_epoch=number, group_protocol="consumer", evidence=list(evidence)
    )
    return Event("s", "i", data)


@pytest.fixture
def log() -> GroupReasons:
    return read_lines(*LEAVE_LINES.splitlines())


def find_evidence(event: Event) -> list[Evidence]:
    assert isinstance(event.data, GroupObserved)
    return event.data.evidence


def test_all_snapshots_of_an_epoch_have_the_same_evidence(log: GroupReasons) -> None:
    assert [find_evidence(add_reasons(epoch(5), log)) for _ in range(3)] == [[LOGGED_LEAVE]] * 3
    assert add_reasons(epoch(6), log) == epoch(6)


def test_broker_log_reason_replaces_a_guessed_reason(log: GroupReasons) -> None:
    assert find_evidence(add_reasons(epoch(5, guessed_evidence("m"), guessed_evidence("other")), log)) == [
        LOGGED_LEAVE,
        guessed_evidence("other"),
    ]


def test_events_without_a_generation_get_no_reasons(log: GroupReasons) -> None:
    event = Event("s", "i", GroupDeleted(group_id="g", timestamp=1))
    assert add_reasons(event, log) == event


def test_lines_appended_to_a_log_are_read(tmp_path: Path) -> None:
    first, second = tmp_path / "1.log", tmp_path / "2.log"
    first.write_text("")
    second.write_text("")
    reasons = BrokerReasons((first, second))
    assert find_evidence(add_reasons(epoch(5), reasons.reasons)) == []
    second.write_text(LEAVE_LINES)
    reasons.read()
    assert find_evidence(add_reasons(epoch(5), reasons.reasons)) == [LOGGED_LEAVE]
    reasons.close()


def test_reasons_of_broken_generations_belong_to_the_next() -> None:
    other_evidence = structs.replace(LOGGED_LEAVE, member_ids=["n"])
    log = read_lines(
        *LEAVE_LINES.splitlines(),
        *LEAVE_LINES.replace("Member m", "Member n").replace("epoch to 5", "epoch to 6").splitlines(),
    )
    expected = {6: [other_evidence], 5: [other_evidence], 4: [LOGGED_LEAVE, other_evidence]}
    assert find_evidence(add_reasons(epoch(6), log)) == [other_evidence]
    for last, evidence in expected.items():
        assert find_evidence(add_reasons(epoch(6), log, epoch(last).data)) == evidence


def test_a_log_that_is_not_understood_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "access.log"
    path.write_text("GET / 200\n" * 2000)
    reasons = BrokerReasons((path,))
    total = reasons.read()
    assert (total.read, total.understood_messages) == (2000, 0)
    with path.open("a") as file:
        file.write("GET / 200\n")
    assert reasons.read().read == 2001
    (message,) = caplog.messages
    assert message.startswith(f"coordinator log {path}: none of 2000 lines is")
    assert "such as: GET / 200" in message
    reasons.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_text("one\n")
    return path


def read(tail: LogTail) -> bytes:
    return b"".join(tail.chunks())


def test_log_that_appears_later_is_awaited(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.unlink()
    tail = LogTail(path)
    assert read(tail) == b""
    path.write_text("one\n")
    assert read(tail) == b"one\n"
    LogTail(path).close()
    assert caplog.messages == [f"coordinator log {path} does not exist yet; waiting for it"]


def test_rotated_log_is_read_completely(path: Path) -> None:
    tail = LogTail(path)
    assert read(tail) == b"one\n"
    with path.open("a") as file:
        file.write("two\ncut")
    path.rename(path.with_suffix(".1"))
    path.write_text("three\n")
    assert read(tail) == b"two\ncut\nthree\n"
    assert read(tail) == b""


def test_a_truncated_log_is_read_again(path: Path) -> None:
    tail = LogTail(path)
    read(tail)
    path.write_text("x\n")
    assert read(tail) == b"\nx\n"


def test_the_last_64_mib_of_an_existing_log_are_read_in_chunks(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with log.open("wb") as file:
        file.write(b"long ago\n")
        file.seek(64 * 2**20 - 1, os.SEEK_CUR)  # a sparse file takes no disk space
        file.write(b"\n")
    tail = LogTail(log)
    sizes = [len(chunk) for chunk in tail.chunks()]
    assert (sum(sizes), max(sizes)) == (64 * 2**20, 2**20)
    assert tail.begins_within_line
    assert not LogTail(tmp_path / "other.log").begins_within_line


def test_closed_log_tail_closes_its_file(path: Path) -> None:
    tail = LogTail(path)
    file = tail._file
    assert file is not None
    assert not file.closed
    tail.close()
    assert file.closed
    tail.close()  # the second close finds no open file


def test_directories_fifos_and_devices_are_refused(tmp_path: Path) -> None:
    fifo, link = tmp_path / "fifo", tmp_path / "link"
    os.mkfifo(fifo)
    link.symlink_to("/dev/zero")
    for path, message in ((tmp_path, "Is a directory"), (fifo, "not a regular file"), (link, "not a regular file")):
        with pytest.raises(OutsideFailure, match=rf"--coordinator-log .*{message}"):
            LogTail(path)


def test_a_fifo_that_replaces_the_log_is_refused(path: Path) -> None:
    tail = LogTail(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(OutsideFailure, match="not a regular file"):
        read(tail)
