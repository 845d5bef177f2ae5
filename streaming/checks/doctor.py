"""What the monitor needs before it runs, checked one by one, each with what to do about it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from assignors.errors import MonitorError
from streaming.checks.kernel import decider
from streaming.collect.broker_log.log import BrokerLog
from streaming.collect.broker_log.tail import LogTail, LogUnreadable
from streaming.kafka import access
from streaming.kafka.access import written
from streaming.kafka.clients import check_reachable
from streaming.kafka.jars import java
from streaming.kafka.topics import describe_topics
from streaming.settings.config import Settings
from streaming.spark.checkpoint import settle
from streaming.spark.resize import outgrown
from streaming.spark.session import installed_pyspark, kafka_connector


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: ``ok`` is None when it could not be tried; ``text`` says what was found, or what to do."""

    check: str
    ok: bool | None
    text: str


def examine(
    settings: Settings, checkpoint: Path | None, coordinator_logs: Iterable[Path] = ()
) -> Iterator[Finding]:
    """Yield every check, those that others depend on first; ``coordinator_logs`` besides those in the settings."""
    yield from _tried("java", lambda: [f"Java {java()[1]} at {java()[0]}"])
    yield from _tried("spark", lambda: [f"PySpark {installed_pyspark()}"])
    yield from _tried("jars", lambda: [f"{len(kafka_connector())} jars of Spark's connector"])
    yield Finding("assignments", True, decider().text)  # the answers are the same, whoever gives them
    reached = list(_tried("broker", lambda: [f"cluster {check_reachable(settings.kafka)}"]))
    yield from reached
    if not all(finding.ok for finding in reached):
        yield Finding("permissions", None, "not tried: no broker answers")
        yield Finding("topics", None, "not tried: no broker answers")
    else:
        yield from _permissions(settings)
        yield from _topics(settings)
    if checkpoint is not None:
        yield _checkpoint(checkpoint)
    for path in (*settings.collect.coordinator_logs, *coordinator_logs):
        yield _coordinator_log(path)


def _tried(check: str, work: Callable[[], list[str]]) -> Iterator[Finding]:
    try:
        for text in work():
            yield Finding(check, True, text)
    except MonitorError as error:
        yield Finding(check, False, str(error))


def _permissions(settings: Settings) -> Iterator[Finding]:
    lacking = [
        line
        for component in access.COMPONENTS
        for line in (*access.missing(settings, component), *access.missed(settings, component))
    ]
    for line in dict.fromkeys(lacking):
        yield Finding("permissions", False, line)
    if not lacking:
        yield Finding("permissions", True, f"{', '.join(access.COMPONENTS)} may do what they must")


def _topics(settings: Settings) -> Iterator[Finding]:
    try:
        states = describe_topics(settings, written(settings))
    except MonitorError as error:
        yield Finding("topics", False, str(error))
        return
    absent = [state.name for state in states if not state.exists]
    for state in states:
        if state.problem is not None:
            yield Finding("topics", False, state.problem)
    if absent:
        yield Finding(
            "topics",
            False,
            f"missing, or not to be seen by this user: {', '.join(absent)}; "
            "`rebalance-monitor topics --create` makes them",
        )
    elif all(state.problem is None for state in states):
        yield Finding("topics", True, f"{len(states)} topics with the right cleanup policies")


def _coordinator_log(path: Path) -> Finding:
    """Return whether the messages in a broker's log are understood, by its last 64 MiB."""
    if not path.exists():
        return Finding("log", False, f"{path}: no such file; name the file that the broker writes")
    try:
        tail = LogTail(path)
        log = BrokerLog(within_line=tail.within_line)
        for chunk in tail.chunks():
            log.read(chunk)
        log.finish()
        tail.close()
    except LogUnreadable as error:
        return Finding("log", False, str(error))
    counts = log.counts
    problem = counts.problem(is_whole=True)
    undated = f", {counts.undated} without a timestamp that can be read" if counts.undated else ""
    understood = f"{counts.understood} of {counts.read} lines understood{undated}"
    return Finding("log", problem is None, f"{path}: {problem or understood}")


def _checkpoint(folder: Path) -> Finding:
    """A checkpoint is Spark's: its offsets folder and its metadata stand together, and it must be writable."""
    settle(folder)
    if not folder.exists():
        parent = next(parent for parent in folder.absolute().parents if parent.exists())
        writable = os.access(parent, os.W_OK | os.X_OK)
        text = (
            "will be made by `stream`"
            if writable
            else f"can't be made: {parent} is not writable for this user"
        )
        return Finding("checkpoint", writable, f"{folder}: {text}")
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return Finding("checkpoint", False, f"{folder}: no folder that this user may write; choose another")
    if any(folder.iterdir()) and not ((folder / "metadata").is_file() and (folder / "offsets").is_dir()):
        return Finding(
            "checkpoint", False, f"{folder}: holds other files than a checkpoint's; choose another"
        )
    try:
        advice = outgrown(folder)
    except MonitorError as error:
        return Finding("checkpoint", False, str(error))
    return Finding("checkpoint", True, f"{folder}: writable" + (f", but {advice}" if advice else ""))
