import re
from pathlib import Path
from uuid import UUID

import pytest

from assignors.errors import OutsideFailure
from streaming.kafka import runtime
from streaming.kafka.runtime import (
    Runtime,
    new_uuid,
    prepare_runtime,
    server_properties,
    write_properties,
    write_storage,
)


class FakeJava:
    """A fake ``java`` (a shell script) that records its arguments."""

    def __init__(self, folder: Path) -> None:
        self._file, self._call_file = folder / "java", folder / "calls"

    def write_script(self, script: str) -> None:
        self._file.write_text(f'#!/bin/sh\necho "$@" >> {self._call_file}\n{script}\n')
        self._file.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        return self._call_file.read_text().splitlines() if self._call_file.exists() else []


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeJava:
    monkeypatch.setenv("REBALANCE_MONITOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(runtime, "java", lambda: (tmp_path / "java", 17))
    monkeypatch.setattr(runtime, "fetch", lambda *_, **__: [tmp_path / "kafka.jar", tmp_path / "other.jar"])
    return FakeJava(tmp_path)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo out; echo first >&2; echo 'No space left' >&2; exit 5", "ended with 5: No space left"),
        ("echo 'said on stdout'; exit 1", "ended with 1: said on stdout"),
        ("exit 2", "ended with 2: no output"),
    ],
)
def test_failing_storage_tool_is_reported_and_tried_again(
    tool: FakeJava, tmp_path: Path, script: str, words: str
) -> None:
    tool.write_script(script)
    for number in (1, 2):
        with pytest.raises(OutsideFailure, match=re.escape(f"Kafka's storage tool {words}") + "$"):
            prepare_runtime("9.9.9")
        assert len(tool.calls) == number
    assert "kafka.tools.StorageTool format -t" in tool.calls[0]
    left = [path.name for path in (tmp_path / "cache" / "broker").iterdir()]
    assert [name for name in left if not name.endswith(".lock")] == []


#: Formats storage, or acts as a broker that ends at once, without writing the class archive.
FORMATS = """
case "$*" in
  *StorageTool*)
    for last; do :; done
    dir=$(sed -n 's/^log.dirs=//p' "$last"); mkdir "$dir"
    echo 'cluster.id=AAAAAAAAAAAAAAAAAAAAAQ' > "$dir/meta.properties"; echo kept > "$dir/log" ;;
  *) exit 1 ;;
esac
"""


def test_class_archive_is_made_once_for_all_brokers(
    tool: FakeJava, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool.write_script(FORMATS)
    progress: list[str] = []
    monkeypatch.setattr(runtime, "print_progress", progress.append)
    prepared_runtime = prepare_runtime("9.9.9")
    assert progress == ["preparing the broker (once)", ""]
    calls = tool.calls
    assert prepare_runtime("9.9.9") == prepared_runtime
    assert tool.calls == calls
    for name in ("a", "b"):
        write_storage(prepared_runtime, tmp_path / name)
        assert (tmp_path / name / "log").read_text() == "kept\n"
    ids = {(tmp_path / name / "meta.properties").read_text() for name in ("a", "b")}
    assert len(ids) == 2
    assert all(re.fullmatch(r"cluster.id=[\w-]{22}\n", text) for text in ids)


def test_command_uses_archived_classes_if_present(tool: FakeJava, tmp_path: Path) -> None:
    runtime = Runtime((tmp_path / "a.jar", tmp_path / "b.jar"), tmp_path)
    command = runtime.command("kafka.Kafka", "server.properties", jvm=["-Xmx1g"])
    assert command[0] == str(tmp_path / "java")
    assert command[-5:] == ["-Xmx1g", "-cp", f"{tmp_path}/a.jar:{tmp_path}/b.jar", "kafka.Kafka", "server.properties"]
    (tmp_path / "classes.jsa").touch()
    command_with_archive = runtime.command("kafka.Kafka", "server.properties", jvm=["-Xmx1g"])
    assert [word for word in command_with_archive if word not in command] == [
        f"-XX:SharedArchiveFile={tmp_path}/classes.jsa",
        "-Xlog:cds=off",
        "-Xlog:cds+dynamic=off",
    ]


def test_generated_id_is_valid_in_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    uuid_with_hyphen = UUID(bytes=b"\xfb" + b"\0" * 15)  # "-wAA…" would be parsed as an option
    monkeypatch.setattr(runtime.uuid, "uuid4", lambda: uuid_with_hyphen)
    assert new_uuid() == "_w" + "A" * 20


def test_single_broker_listens_locally_and_takes_options(tmp_path: Path) -> None:
    properties = server_properties(tmp_path, 1, 2, {"log.dirs": "x", "mine": "y"})
    assert (properties["listeners"], properties["advertised.listeners"], properties["controller.quorum.voters"]) == (
        "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
        "PLAINTEXT://127.0.0.1:1",
        "1@127.0.0.1:2",
    )
    assert (properties["log.dirs"], properties["mine"]) == ("x", "y")


def test_properties_are_private_and_keep_backslashes(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    write_properties(file, {"a": "b\\c", "d": "e"})
    assert file.read_text() == "a=b\\\\c\nd=e\n"
    assert file.stat().st_mode & 0o777 == 0o600
