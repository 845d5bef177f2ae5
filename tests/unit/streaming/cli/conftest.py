"""Fixtures that run the command line in the test's own process."""

import io
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from streaming.cli.main import main
from streaming.records.codec import encode
from streaming.records.episodes import key as key_of
from tests.support.built_diffs import DiffBuilder
from tests.support.compacted import ASSIGNMENTS, EPISODES, FLAPPY_INCIDENTS, INCIDENTS, checkout_group, records
from tests.support.memory_kafka import MemoryKafka
from tests.support.wait import eventually


class Command:
    """Runs ``rebalance-monitor`` in the test's process and returns the exit status, standard output and errors."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *words: str, stdin: str = "") -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["rebalance-monitor", *words])
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as end:
            main()
        captured_output = self._capsys.readouterr()
        return int(end.value.code or 0), captured_output.out, captured_output.err


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """Yield the command; afterwards, restore the signal handlers and the root logger's handlers."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    monkeypatch.setenv("COLUMNS", "200")
    yield Command(monkeypatch, capsys)
    for number, handler in kept.items():
        signal.signal(number, handler)
    root.handlers[:] = handlers
    root.setLevel(level)  # it also clears the loggers' caches


def json_answers(command: Command, *words: str, lines: Sequence[Any]) -> tuple[int, list[Any]]:
    """Run a command on lines of JSON, or on other text; return the exit status and the answers."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    status, out, errors = command(*words, stdin="\n".join(texts))
    assert errors == ""
    return status, [json.loads(line) for line in out.splitlines()]


def table_cells(out: str) -> list[list[str]]:
    """Return the cells of the printed table's body rows."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if "│" in line]


@contextmanager
def stopped_when(condition: Callable[[], object], number: signal.Signals = signal.SIGTERM) -> Iterator[None]:
    """Send a signal to this process when the condition is true, or when the wait for it has failed."""

    def later() -> None:
        try:
            eventually(condition)
        finally:
            if callable(signal.getsignal(number)):  # the default handler would end the test process
                os.kill(os.getpid(), number)

    thread = threading.Thread(target=later)
    thread.start()
    yield
    thread.join()


def publish_diffs(kafka: MemoryKafka, builder: DiffBuilder) -> None:
    for ce_id, diff in builder.diffs:
        headers = [("ce_id", ce_id.encode()), ("ce_type", b"rebalance.diff")]
        kafka.append("rebalance.diffs", encode(diff), key=diff.group_id.encode(), headers=headers)


@pytest.fixture
def groups(kafka: MemoryKafka) -> MemoryKafka:
    """Return compacted topics with two groups: ``team/checkout`` has settled, ``flappy`` is in a storm.

    Two incidents of ``flappy`` are open, and one incident is closed.
    """
    flappy_group = DiffBuilder(12, group_id="flappy").join("a@h1#1", "b@h2#1")
    for _ in range(3):
        flappy_group.fence("a@h1#1", after=40, reason="member a@h1#1 overran max.poll.interval.ms")
        flappy_group.join("a@h1#1", after=2)
    for topic in (ASSIGNMENTS, EPISODES, INCIDENTS):
        kafka.create(topic, 2)
    for place, builder in enumerate((checkout_group(), flappy_group)):
        for topic, key, value in records(builder, over=place == 0):
            kafka.append(topic, value, key=key, partition=place)
    for incident in FLAPPY_INCIDENTS:
        kafka.append(INCIDENTS, encode(incident), key=key_of(incident.group_id, incident.incident))
    return kafka


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make standard output and standard error look like a terminal of 100 columns."""
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "dumb"), ("COLUMNS", "100"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
