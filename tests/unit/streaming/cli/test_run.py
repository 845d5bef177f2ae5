"""``run`` starts its three parts with the options that it was given, and ends them together."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from assignors.errors import OutsideFailure
from streaming.process import children
from tests.support.memory_kafka import MemoryKafka
from tests.support.wait import eventually

Command = Callable[..., tuple[int, str, str]]


class Part:
    """In a child's place: notes what became of it."""

    started: list[list[str]] = []  # noqa: RUF012 - emptied for each test
    ended: list[str] = []  # noqa: RUF012 - same
    dies = ""

    def __init__(self, name: str, words: Sequence[str]) -> None:
        self.name = name
        self.started.append([name, *words])

    def check(self) -> None:
        if self.name == self.dies:
            raise OutsideFailure(f"{self.name} ended with status 3; its reason stands above")

    def terminate(self) -> None:
        self.ended.append(self.name)

    def wait(self) -> int:
        return 0


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch, kafka: MemoryKafka) -> type[Part]:
    monkeypatch.setattr(children, "Child", Part)
    for name, value in (("started", []), ("ended", []), ("dies", "")):
        monkeypatch.setattr(Part, name, value)
    return Part


def test_each_part_gets_the_options_and_all_end_the_last_first(
    command: Command, parts: type[Part], kafka: MemoryKafka, tmp_path: Path
) -> None:
    def later() -> None:
        eventually(lambda: len(parts.started) == 3)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=later)
    thread.start()
    words = ("--bootstrap-servers", "k:1", "--topic-prefix", "p.", "--log-format", "json", "--verbose")
    own = ("--checkpoint", str(tmp_path / "c"), "--coordinator-log", "a.log", "--coordinator-log", "b.log")
    status, _, _ = command("run", *own, *words, "--port", "1234")
    thread.join()
    common = ["--log-format", "json", "--bootstrap-servers", "k:1", "--topic-prefix", "p.", "--verbose"]
    logs = ["--coordinator-log", "a.log", "--coordinator-log", "b.log"]
    assert status == 0
    assert parts.started == [
        ["collect", "streaming", "collect", *common, *logs],
        ["stream", "streaming", "stream", *common, "--checkpoint", str(tmp_path / "c")],
        ["serve", "streaming", "serve", *common, "--port", "1234"],
    ]
    assert parts.ended == ["serve", "stream", "collect"]
    assert "p.rebalance.membership" in kafka.topics


def test_a_part_that_ends_by_itself_ends_the_others(command: Command, parts: type[Part]) -> None:
    parts.dies = "stream"
    assert command("run") == (3, "", "error: stream ended with status 3; its reason stands above\n")
    assert parts.ended == ["serve", "stream", "collect"]
