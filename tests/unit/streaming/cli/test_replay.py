"""The commands ``replay`` and ``record``: diffs from the membership log, compared with a topic, and recordings."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from msgspec import UNSET, structs

from streaming.cli.replay import differences, replayed_diffs
from streaming.kafka.diff_reader import DiffRecord
from streaming.kafka.topics import ensure_topics
from streaming.records import codec
from streaming.records.events import Event
from streaming.settings.config import Settings, StreamSettings
from streaming.settings.connection import KafkaSettings
from tests.support.histories import Log, diffs, play, static_member_handover
from tests.support.memory_kafka import MemoryKafka
from tests.unit.streaming.cli.conftest import Command

SETTINGS = Settings(kafka=KafkaSettings(bootstrap_servers="memory:1"))


@pytest.fixture
def log(kafka: MemoryKafka) -> MemoryKafka:
    """Return a cluster with the log of two groups, each in its own partition, and one unusable record."""
    ensure_topics(SETTINGS)
    for partition, group in enumerate(("g", "h")):
        kafka.publish(*member_event(group), partition=partition)
    kafka.append(SETTINGS.topics.membership, b"{", key=b"g", partition=0)
    return kafka


def member_event(group: str) -> list[Event]:
    log = Log(group)
    return [log.topics(t=4), log.join("c1"), log.join("c2"), log.leave("c1"), log.delete()]


def write(kafka: MemoryKafka, records: Iterable[DiffRecord]) -> None:
    for record in records:
        headers = [("ce_id", record.id.encode()), ("ce_type", b"rebalance.diff")]
        kafka.append(SETTINGS.topics.diffs, record.value, key=record.diff.group_id.encode(), headers=headers)


def test_replay_equals_the_pure_functions(log: MemoryKafka) -> None:
    records = list(replayed_diffs(SETTINGS))
    expected = [diff for group in ("g", "h") for diff in diffs(play(member_event(group))[1])]
    assert [record.diff for record in records] == expected
    assert [(record.partition, record.offset) for record in records] == [
        (partition, offset) for partition in (0, 1) for offset in (1, 2, 3, 4)
    ]
    assert [msgspec.json.decode(record.value) for record in records] == [msgspec.to_builtins(diff) for diff in expected]


def test_replay_of_one_group_can_stop_early(log: MemoryKafka) -> None:
    assert [record.diff.group_id for record in replayed_diffs(SETTINGS, "h")] == ["h"] * 4
    assert list(replayed_diffs(SETTINGS, "nobody")) == []
    assert list(replayed_diffs(SETTINGS, until=lambda: True)) == []


def test_replay_prints_diffs_as_json_and_text(command: Command, log: MemoryKafka) -> None:
    expected = [msgspec.to_builtins(record.diff) for record in replayed_diffs(SETTINGS, "h")]
    status, out, errors = command("replay", "--group", "h", "--json")
    assert (status, [json.loads(line) for line in out.splitlines()], errors) == (0, expected, "")
    _, out, _ = command("replay", "--group", "h")
    heads = [line.split(" ", 1)[1][:14] for line in out.splitlines() if "joined" in line]
    assert heads == ["h generation 1", "h generation 2"]
    assert command("replay", "--group", "other") == (0, "", "")


def test_check_exits_with_1_on_differences(command: Command, log: MemoryKafka) -> None:
    status, out, errors = command("replay", "--check", "--group", "h")
    assert (status, len(out.splitlines()), errors) == (1, 4, "4 differences\n")
    assert command("replay", "--check", "--group", "other") == (0, "", "no differences\n")


def test_too_long_event_gives_no_diff(log: MemoryKafka) -> None:
    log.topics[SETTINGS.topics.diffs].config["max.message.bytes"] = "600"
    assert list(replayed_diffs(SETTINGS)) == []


def test_diffs_written_twice_equal_the_replay(log: MemoryKafka) -> None:
    records = list(replayed_diffs(SETTINGS))
    write(log, [*records, *records[:2]])
    assert list(differences(SETTINGS)) == []
    assert list(differences(SETTINGS, "g")) == []


def test_missing_changed_and_surplus_diffs_are_named(log: MemoryKafka) -> None:
    missing, changed, *rest = replayed_diffs(SETTINGS)
    changed_diff = msgspec.structs.replace(changed.diff, moved=changed.diff.moved + 1)
    changed_record = DiffRecord(changed.id, changed_diff, msgspec.json.encode(changed_diff), 0, 0)
    extra_record = DiffRecord("extra", changed_diff, msgspec.json.encode(changed_diff), 0, 0)
    write(log, [changed_record, *rest, extra_record])
    log.append(SETTINGS.topics.diffs, b"no diff", key=b"g", headers=[("ce_id", b"x")])
    unreadable_line, *lines = differences(SETTINGS)
    assert unreadable_line.startswith("rebalance.diffs partition 0 offset 8: ")
    assert lines == [
        f"g, event at partition 0 offset 1: the diff {missing.id} is not in the topic",
        f"g, event at partition 0 offset 2: the diff {changed.id} has other content in the topic",
        "g: no event explains the diff extra in the topic",
    ]


def test_diffs_with_omitted_members_equal_the_replay(log: MemoryKafka) -> None:
    """Stored diffs with only changed members equal replayed diffs, whatever the setting ``diffs`` is now."""
    log.publish(*static_member_handover(Log("big")), partition=2)
    changed_members_settings = Settings(kafka=SETTINGS.kafka, stream=StreamSettings(diffs="changed"))
    records = list(replayed_diffs(changed_members_settings, "big"))
    assert [record.diff.unchanged for record in records] != [UNSET] * len(records)
    write(log, records)
    assert list(differences(SETTINGS, "big")) == list(differences(changed_members_settings, "big")) == []
    last = records[-1]
    wrong = structs.replace(last.diff, unchanged=(last.diff.unchanged or 0) + 1)
    del log.topics[SETTINGS.topics.diffs].logs[0].entries[-1]
    write(log, [replace(last, diff=wrong, value=codec.encode(wrong))])
    (line,) = differences(SETTINGS, "big")
    assert line.endswith(f"the diff {last.id} has other content in the topic")


@pytest.fixture
def orders_log(kafka: MemoryKafka) -> MemoryKafka:
    """Return a cluster with the log of group ``orders``: topics at 1 s, then joins of c1 and c2, and a leave of c1."""
    ensure_topics(SETTINGS)
    for group in ("orders", "other"):
        g = Log(group)
        kafka.publish(g.topics(t=4), g.join("c1"), g.join("c2"), g.leave("c1"))
    return kafka


def record(command: Command, file: Path, *words: str) -> tuple[int, str, str]:
    return command("record", "orders", "-o", str(file), *words)


def test_a_recording_replays_without_a_cluster(command: Command, orders_log: MemoryKafka, tmp_path: Path) -> None:
    file = tmp_path / "a.rmlog"
    lines = command("replay", "--group", "orders", "--json")[1].splitlines()
    live = [line for line in lines if json.loads(line)["timestamp"] >= 3000]
    status, out, errors = record(command, file, "--from", "3000", "--to", "1970-01-01T00:00:04Z")
    assert (status, out.startswith(f"{file}: 4 events and ")) == (0, True)
    assert "3 published diffs differ" in errors
    assert file.stat().st_mode & 0o777 == 0o600
    orders_log.topics.clear()
    assert command("replay", str(file), "--json") == (0, "\n".join([*live, ""]), "")
    assert command("replay", str(file), "--check") == (0, "", "no differences\n")
    lines = command("replay", str(file))[1].splitlines()
    assert ["orders  settled " in lines[0], " generation 2 " in lines[1]] == [True, True]


def test_publish_writes_the_recorded_events(command: Command, orders_log: MemoryKafka, tmp_path: Path) -> None:
    file, topic = tmp_path / "a.rmlog", f"x.{SETTINGS.topics.membership}"
    record(command, file)
    ensure_topics(Settings(kafka=SETTINGS.kafka, topics=SETTINGS.topics.model_copy(update={"prefix": "x."})))
    status, out, _ = command("replay", str(file), "--publish", "--topic-prefix", "x.")
    assert (status, out) == (0, f"4 events written to {topic}\n")
    assert command("replay", "--topic-prefix", "x.", "--json")[1] == command("replay", str(file), "--json")[1]
    for option in ("--page", "--publish"):
        assert command("replay", option) == (2, "", f"error: {option}: needs the FILE of a recording\n")


def test_anonymised_recording_has_no_names(command: Command, orders_log: MemoryKafka, tmp_path: Path) -> None:
    file = tmp_path / "a.rmlog"
    status, out, _ = record(command, file, "--anonymise")
    assert (status, "orders" in out) == (0, False)
    diffs = command("replay", str(file), "--json")[1]
    assert ("orders" in diffs, len(diffs.splitlines())) == (False, 3)


@pytest.mark.usefixtures("orders_log")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--from", "5000"), "group orders: the membership topic has no event of it in that time"),
        (("-o", "{}/no/a.rmlog"), "--output {}/no/a.rmlog: No such file or directory"),
    ],
)
def test_recordings_are_refused_with_a_reason(
    command: Command, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    words = tuple(word.format(tmp_path) for word in words)
    status, out, errors = record(command, tmp_path / "a.rmlog", *words)
    assert (status, out, errors.splitlines()[-1]) == (2, "", f"error: {message.format(tmp_path)}")


def test_a_damaged_recording_is_refused(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "a.rmlog"
    file.write_bytes(b"x" * 100)
    status, out, errors = command("replay", str(file))
    assert (status, out, errors.startswith(f"error: {file}: is not a recording: ")) == (2, "", True)
    assert command("replay", str(tmp_path))[2] == f"error: {tmp_path}: Is a directory\n"
