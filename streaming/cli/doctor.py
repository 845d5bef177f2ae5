"""The command ``doctor``: checks everything that the monitor needs, and reports what to do if a check fails."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import typer
from msgspec import Struct

from assignors.errors import MonitorError
from assignors.registry import NATIVE_FUNCTIONS
from streaming.cli.options import AsJson, CoordinatorLogs, connected, option
from streaming.cli.output import answer
from streaming.collect.broker_log.log import BrokerLog
from streaming.collect.broker_reasons import LogTail
from streaming.kafka import access
from streaming.kafka.clients import check_reachable
from streaming.kafka.jars import java
from streaming.kafka.topics import describe_topics
from streaming.settings.config import Settings
from streaming.spark.checkpoint import settle
from streaming.spark.resize import resize_advice
from streaming.spark.session import installed_pyspark, kafka_connector

#: File that ``make packages`` creates if the build of the native code failed.
_FAILED_BUILD_MARK: Final = Path(sys.prefix) / "without-kernel"


class AssignmentCode(NamedTuple):
    """The code that computes assignments (native or Python), and advice if it is not the intended code."""

    text: str
    is_chosen: bool


def assignment_code() -> AssignmentCode:
    """Return whether native code (``rebalance-kernel``) or Python computes assignments in this environment."""
    try:
        module = import_module("rebalance_kernel")
    except ModuleNotFoundError:
        if _FAILED_BUILD_MARK.exists():
            return AssignmentCode("in Python, as kernel/ could not be built; `make packages` shows why", False)
        return AssignmentCode("in Python; with cargo installed, `make packages` builds the native code", True)
    except ImportError as error:
        return AssignmentCode(f"in Python, as the native code does not load ({error}); run `make packages`", False)
    missing = [name for name in NATIVE_FUNCTIONS if not hasattr(module, name)]
    if not missing:
        return AssignmentCode("native", True)
    how = "in Python" if len(missing) == len(NATIVE_FUNCTIONS) else "partly in Python"
    why = f"as the native code is of another release and lacks {', '.join(missing)}; run `make packages`"
    return AssignmentCode(f"{how}, {why}", False)


class CheckResult(Struct, frozen=True):
    """The result of one check: ``ok`` is None if the check could not run; ``text`` is the result, or what to do."""

    check: str
    ok: bool | None
    text: str


def run_checks(settings: Settings, checkpoint: Path | None, logs: Iterable[Path] = ()) -> Iterator[CheckResult]:
    """Run all checks in the order of their dependencies; ``logs``: logs in addition to those in the settings."""
    yield from _run_check("java", lambda: f"Java {java()[1]} at {java()[0]}")
    yield from _run_check("spark", lambda: f"PySpark {installed_pyspark()}")
    yield from _run_check("jars", lambda: f"{len(kafka_connector())} jars of Spark's connector")
    yield CheckResult("assignments", True, assignment_code().text)  # native code and Python have equal results
    broker_results = list(_run_check("broker", lambda: f"cluster {check_reachable(settings.kafka)}"))
    yield from broker_results
    if broker_results[0].ok:
        yield from _check_permissions(settings)
        yield from _catch_errors("topics", lambda: _check_topics(settings))
    else:
        yield from (CheckResult(check, None, "not tried: no broker answers") for check in ("permissions", "topics"))
    if checkpoint is not None:
        yield from _catch_errors("checkpoint", partial(map, _check_checkpoint, [checkpoint]))
    for path in (*settings.collect.coordinator_logs, *logs):
        yield from _catch_errors("log", partial(map, _check_coordinator_log, [path]))


def _run_check(check: str, work: Callable[[], str]) -> Iterator[CheckResult]:
    return _catch_errors(check, lambda: [CheckResult(check, True, work())])


def _catch_errors(check: str, work: Callable[[], Iterable[CheckResult]]) -> Iterator[CheckResult]:
    try:
        yield from work()
    except MonitorError as error:
        yield CheckResult(check, False, str(error))


def _check_permissions(settings: Settings) -> Iterator[CheckResult]:
    parts = (find(settings, part) for part in access.COMPONENTS for find in (access.missing, access.optional_acl_hints))
    missing = dict.fromkeys(chain.from_iterable(parts))
    yield from (CheckResult("permissions", False, line) for line in missing)
    if not missing:
        yield CheckResult("permissions", True, f"{', '.join(access.COMPONENTS)} have the permissions they need")


def _check_topics(settings: Settings) -> Iterator[CheckResult]:
    states = describe_topics(settings, settings.topics.made)
    problems = [state.problem for state in states if state.problem is not None]
    if missing_topics := [state.name for state in states if not state.exists]:
        how = "`rebalance-monitor topics --create` creates them"
        problems.append(f"missing, or hidden from this user: {', '.join(missing_topics)}; {how}")
    yield from (CheckResult("topics", False, problem) for problem in problems)
    if not problems:
        yield CheckResult("topics", True, f"{len(states)} topics with the right cleanup policies")


def _check_coordinator_log(path: Path) -> CheckResult:
    if not path.exists():
        return CheckResult("log", False, f"{path}: no such file; name the broker's server.log")
    tail = LogTail(path)
    log = BrokerLog(begins_within_line=tail.begins_within_line)
    for chunk in tail.chunks():
        log.read(chunk)
    log.finish()
    tail.close()
    counts = log.counts
    problem = counts.problem(is_whole=True)
    undated_text = f", {counts.undated_lines} without a timestamp that can be read" if counts.undated_lines else ""
    understood_text = f"{counts.understood_messages} of {counts.read} lines understood{undated_text}"
    return CheckResult("log", problem is None, f"{path}: {problem or understood_text}")


def _check_checkpoint(folder: Path) -> CheckResult:
    settle(folder)
    if not folder.exists():
        parent = next(parent for parent in folder.absolute().parents if parent.exists())
        is_writable = os.access(parent, os.W_OK | os.X_OK)
        text = "`stream` will create it" if is_writable else f"can't be created: {parent} is not writable for this user"
        return CheckResult("checkpoint", is_writable, f"{folder}: {text}")
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return CheckResult("checkpoint", False, f"{folder}: no folder that this user can write to; choose another")
    if any(folder.iterdir()) and not ((folder / "metadata").is_file() and (folder / "offsets").is_dir()):
        return CheckResult("checkpoint", False, f"{folder}: has files that are not a checkpoint's; choose another")
    advice = resize_advice(folder)
    return CheckResult("checkpoint", True, f"{folder}: writable" + (f", but {advice}" if advice else ""))


#: Result of a check → the mark shown beside it.
_RESULT_MARKS: Final = {True: "ok", False: "!!", None: "--"}


@connected("rebalance-monitor doctor --bootstrap-servers kafka:9092 --checkpoint ./state")
def doctor(
    settings: Settings,
    *,
    checkpoint: Path | None = option("DIR", "Check this checkpoint too.", None),
    coordinator_log: CoordinatorLogs = None,
    as_json: AsJson = False,
) -> None:
    """Check Java, jars, broker, permissions, topics, checkpoint and logs, and print what to do if a check fails.

    The exit status is 3 if a check fails.
    """
    is_healthy = True
    for result in run_checks(settings, checkpoint, coordinator_log or ()):
        is_healthy = is_healthy and result.ok is True
        answer([result], [f"{_RESULT_MARKS[result.ok]}  {result.check:<12} {result.text}"], as_json=as_json)
    if not is_healthy:
        raise typer.Exit(3)
