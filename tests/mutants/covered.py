"""Which tests run which line: learned by running them once, and again when what they run has changed."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import coverage
import msgspec

from tests.mutants.drawing import Mutant
from tests.mutants.running import KEPT, Chosen, in_a_child, say

#: The tiers of `make test-unit`.
TIERS = ("tests/unit", "tests/property", "tests/golden", "tests/fuzz")
#: What tests import from tests, or run with ``-m``, and what of it.
_NAMED = re.compile(r"\btests(?:\.\w+)+")
_FROM = re.compile(r"^from (tests[.\w]*) import (\([^)]*\)|.*)", re.MULTILINE)
_WORD = re.compile(r"\w+")


class Covered:
    """The tests that run a line, and how long each takes."""

    def __init__(self, tree: Path) -> None:
        KEPT.mkdir(exist_ok=True)
        kept = KEPT / "learned.json"
        self._learned: dict[str, _Learned] = (
            msgspec.json.decode(kept.read_bytes(), type=dict[str, _Learned]) if kept.exists() else {}
        )
        files = sorted(
            str(path.relative_to(tree)) for tier in TIERS for path in (tree / tier).rglob("test_*.py")
        )
        state = _States(tree)
        stale = [
            name
            for name in files
            if name not in self._learned or self._learned[name].state != state(name, self._learned[name].ran)
        ]
        if stale:
            self._learn(tree, stale, state)
        self._learned = {name: self._learned[name] for name in files}
        kept.write_bytes(msgspec.json.encode(self._learned))
        failed = sorted(test for one in self._learned.values() for test in one.failed)
        if failed:
            say(f"left out, as they fail without any mutation: {', '.join(failed)}")
        self.took = {
            test: took
            for one in self._learned.values()
            for test, took in one.took.items()
            if test not in one.failed
        }
        self._data: dict[str, coverage.CoverageData] = {}
        for run in {one.run for one in self._learned.values()}:
            self._data[run] = coverage.CoverageData(str(KEPT / run))
            self._data[run].read()

    def _learn(self, tree: Path, stale: Sequence[str], state: _States) -> None:
        """Run these files of tests once, and take note of what they ran."""
        say(f"running {len(stale)} files of tests once, to learn what runs which line")
        run = f"coverage-{time.time_ns()}"
        times = KEPT / f"times-{run}.json"  # coverage clears away what begins with the name of its file
        os.environ["COVERAGE_FILE"] = str(KEPT / run)
        arguments = [*stale, "--cov=streaming", "--cov=assignors", "--cov-context=test", "--cov-report="]
        if in_a_child(tree, arguments, Chosen(), 3600, times) not in (0, 1):
            sys.exit(f"error: the fast tests do not run: see {times}.log")
        found = json.loads(times.read_text())
        data = coverage.CoverageData(str(KEPT / run))
        data.read()
        ran: dict[str, set[str]] = {name: set() for name in stale}
        for path in data.measured_files():
            for context in {one for several in data.contexts_by_lineno(path).values() for one in several}:
                ran.get(context.partition("::")[0], set()).add(_within(path))
        for name in stale:
            took = {test: took for test, took in found["took"].items() if test.startswith(f"{name}::")}
            failed = [test for test in found["failed"] if test in took]
            self._learned[name] = _Learned(run, state(name, ran[name]), sorted(ran[name]), took, failed)

    def of(self, mutant: Mutant, tree: Path) -> list[str]:
        """The tests that run the mutated statement; of what runs at import or in children, the folder's."""
        by_line: dict[int, set[str]] = defaultdict(set)
        for run, data in self._data.items():
            path = next((path for path in data.measured_files() if _within(path) == mutant.path), None)
            for line, contexts in data.contexts_by_lineno(path).items() if path else ():
                by_line[line] |= {one for one in contexts if not one or self._is_of(one, run)}
        first, last = _statement((tree / mutant.path).read_text(encoding="utf-8"), mutant.line)
        names = {context for line in range(first, last + 1) for context in by_line.get(line, ())}
        if "" in names:
            names = {context for contexts in by_line.values() for context in contexts}
        tests = {name.rpartition("|")[0] for name in names}
        if "" in tests or not tests:  # at import, or in a child process
            folder = mutant.path.rpartition("/")[0]
            tests |= {test for test in self.took if f"{folder}/" in test}
        return sorted(tests & self.took.keys())

    def _is_of(self, context: str, run: str) -> bool:
        """Whether that run is the last that the test was in."""
        learned = self._learned.get(context.partition("::")[0])
        return learned is not None and learned.run == run


class _Learned(msgspec.Struct, frozen=True):
    """A file of tests: the run it was last in, what stood then in it and in what it ran, and how long it took."""

    run: str
    state: str
    ran: list[str]
    took: dict[str, float]
    failed: list[str]


class _States:
    """Names for what stands in files of a tree."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        self._text = cache(self._read)

    def __call__(self, tests: str, ran: Iterable[str]) -> str:
        """Of a file of tests, of what it shares with others, and of these modules."""
        names = [tests, *sorted(self._shared(tests)), *sorted(ran)]
        return hashlib.sha256("\0".join(map(self._text, names)).encode()).hexdigest()[:32]

    def _shared(self, tests: str) -> set[str]:
        """The files below ``tests`` that it imports, or that those do, and each ``conftest.py`` above it."""
        found = {str(folder / "conftest.py") for folder in Path(tests).parents}
        pending = [tests, *found]
        while pending:
            text = self._text(pending.pop())
            names = {
                *_NAMED.findall(text),
                *(
                    f"{module}.{name}"
                    for module, several in _FROM.findall(text)
                    for name in _WORD.findall(several)
                ),
            }
            paths = {f"{name.replace('.', '/')}{end}" for name in names for end in (".py", "/__init__.py")}
            fresh = {path for path in paths if (self._tree / path).exists()} - found - {tests}
            found |= fresh
            pending += fresh
        return found

    def _read(self, name: str) -> str:
        path = self._tree / name
        return path.read_text(encoding="utf-8") if path.exists() else ""


def _within(path: str) -> str:
    """A measured file by its path within the tree, whichever copy of the tree that was."""
    parts = Path(path).parts
    start = next(place for place, part in enumerate(parts) if part in ("streaming", "assignors"))
    return "/".join(parts[start:])


def _statement(source: str, line: int) -> tuple[int, int]:
    """First and last line of the smallest statement there; of one with a body, its head."""
    best = (line, line)
    size = len(source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            last = node.end_lineno or node.lineno
            body = getattr(node, "body", None)
            if isinstance(body, list):
                if line >= body[0].lineno:
                    continue
                last = max(node.lineno, body[0].lineno - 1)
            if last - node.lineno < size:
                best, size = (node.lineno, last), last - node.lineno
    return best
