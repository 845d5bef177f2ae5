"""Runs tests against mutants: in a copy of the tree, each time in a fork that has the big libraries loaded."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path

import confluent_kafka  # noqa: F401 - loaded once, for every fork
import coverage
import hypothesis
import pytest
from cosmic_ray.mutating import mutate_code

from tests.mutants.drawing import ROOT, Mutant, operators

#: What is kept between runs: which test runs which line.
KEPT = ROOT / ".mutants"
TIERS = ("tests/unit", "tests/property", "tests/golden")
MARKS = "not full and not oracle and not broker and not spark and not container and not browser"
#: A mutant that loops for ever is killed after this many times what its tests took, and so many seconds.
SLOWER, GRACE_S = 4, 30
#: So much time of tests in other places than beside the module, s.
ENOUGH_S = 20


def say(text: str) -> None:
    """A line for whoever waits."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Chosen:
    """A plugin of pytest that runs these tests only, or all, and takes their times."""

    def __init__(self, only: frozenset[str] | None = None) -> None:
        self.only = only
        self.took: dict[str, float] = defaultdict(float)
        self.failed: set[str] = set()

    def pytest_sessionstart(self) -> None:
        """The same examples each time, none kept, none made smaller: that a test fails is all that is asked."""
        hypothesis.settings.register_profile(
            "mutants",
            derandomize=True,
            deadline=None,
            database=None,
            phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
        )
        hypothesis.settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Others are deselected."""
        if self.only is not None:
            config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in self.only])
            items[:] = [item for item in items if item.nodeid in self.only]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Set-up and tear-down belong to it."""
        self.took[report.nodeid] += report.duration
        if report.failed:
            self.failed.add(report.nodeid)


def in_a_child(
    tree: Path, arguments: Sequence[str], plugin: Chosen, limit_s: float, save: Path | None = None
) -> int:
    """Run pytest in a fork of this process, which has the big libraries loaded; its status, -1 past the limit."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 3
        try:
            os.setsid()
            os.chdir(tree)
            quiet = os.open(
                os.devnull if save is None else f"{save}.log", os.O_RDWR | os.O_CREAT | os.O_TRUNC
            )
            for stream in (0, 1, 2):
                os.dup2(quiet, stream)
            os.environ |= {"TMPDIR": str(tree / ".tmp"), "PYTHONPATH": str(tree)}
            tempfile.tempdir = None
            _forget_this_tree(tree)
            status = int(
                pytest.main([*arguments, "-q", "-p", "no:cacheprovider", "-m", MARKS], plugins=[plugin])
            )
            if save is not None:
                save.write_text(json.dumps({"took": plugin.took, "failed": sorted(plugin.failed)}))
        finally:
            os._exit(status)
    return _waited(child, limit_s)


def _forget_this_tree(tree: Path) -> None:
    """From here on the copy is what is imported, and Ctrl-C works, as it would not in a background job."""
    for name in [
        name for name in sys.modules if name.partition(".")[0] in ("tests", "streaming", "assignors")
    ]:
        del sys.modules[name]
    sys.path[:] = [str(tree), *(path for path in sys.path if path not in ("", str(ROOT)))]
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _waited(child: int, limit_s: float) -> int:
    end = time.monotonic() + limit_s
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # what its tests left running
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -1
        time.sleep(0.02)


@contextlib.contextmanager
def copied_tree() -> Iterator[Path]:
    """What git knows of the tree, as it stands, in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder)
        names = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for name in filter(None, names.split("\0")):
            if (ROOT / name).is_file():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, tree / name)
        (tree / ".tmp").mkdir()
        yield tree


class Covered:
    """Which tests run which line, and how long each takes; collected once for a state of the tree."""

    def __init__(self, tree: Path) -> None:
        KEPT.mkdir(exist_ok=True)
        data, times = KEPT / "coverage", KEPT / "times.json"
        state = _state(tree)
        if not (KEPT / "state").exists() or (KEPT / "state").read_text() != state:
            say("running every fast test once, to learn what runs which line")
            arguments = [*TIERS, "--cov=streaming", "--cov=assignors", "--cov-context=test", "--cov-report="]
            os.environ["COVERAGE_FILE"] = str(data)
            if in_a_child(tree, arguments, Chosen(), 3600, times) not in (0, 1):
                sys.exit(f"error: the fast tests do not run: see {times}.log")
            (KEPT / "state").write_text(state)
        found = json.loads(times.read_text())
        if found["failed"]:
            say(f"left out, as they fail without any mutation: {', '.join(found['failed'])}")
        self.took: dict[str, float] = {
            test: took for test, took in found["took"].items() if test not in found["failed"]
        }
        self._data = coverage.CoverageData(str(data))
        self._data.read()
        self._prefix = next(
            name for name in self._data.measured_files() if name.endswith("assignors/model.py")
        )
        self._prefix = self._prefix.removesuffix("assignors/model.py")

    def of(self, mutant: Mutant, source: str) -> list[str]:
        """The tests that run the mutated statement; of what runs at import or in children, the folder's."""
        by_line = self._data.contexts_by_lineno(self._prefix + mutant.path)
        first, last = _statement(source, mutant.line)
        names = {context for line in range(first, last + 1) for context in by_line.get(line, ())}
        if "" in names:
            names = {context for contexts in by_line.values() for context in contexts}
        tests = {name.rpartition("|")[0] for name in names}
        if "" in tests or not tests:  # at import, or in a child process
            folder = mutant.path.rpartition("/")[0]
            tests |= {test for test in self.took if f"/{folder}/" in test}
        return sorted(tests & self.took.keys())


def _state(tree: Path) -> str:
    """A name for what stands in the tree's code and tests."""
    found = hashlib.sha256()
    for folder in ("assignors", "streaming", "tests/support", *TIERS):
        for path in sorted((tree / folder).rglob("*.py")):
            found.update(str(path.relative_to(tree)).encode() + path.read_bytes())
    return found.hexdigest()


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


def killed(tree: Path, mutant: Mutant, covered: Covered) -> bool:
    """Whether a test fails on it: first those beside the module, then others that run the line, the quickest."""
    path = tree / mutant.path
    source = path.read_text(encoding="utf-8")
    tests = covered.of(mutant, source)
    beside = f"{Path(mutant.path).parent}/test_{Path(mutant.path).name}"
    near = [test for test in tests if beside in test]
    mutated = mutate_code(source, operators()[mutant.operator], mutant.occurrence)
    _replace(path, mutated or source)
    try:
        for chosen in (near, _quickest(set(tests) - set(near), covered.took)):
            if not chosen:
                continue
            limit = GRACE_S + SLOWER * sum(covered.took[test] for test in chosen)
            files = sorted({test.split("::")[0] for test in chosen})
            if in_a_child(tree, [*files, "-x"], Chosen(frozenset(chosen)), limit) != 0:
                return True
    finally:
        _replace(path, source)
    return False


def _quickest(tests: set[str], took: Mapping[str, float]) -> list[str]:
    """As many as take :data:`ENOUGH_S` in all: what many tests run, some quick one would notice."""
    ends = accumulate(took[test] for test in sorted(tests, key=took.__getitem__))
    return [
        test for test, end in zip(sorted(tests, key=took.__getitem__), ends, strict=True) if end <= ENOUGH_S
    ]


def _replace(path: Path, source: str) -> None:
    """Write a module, and forget what was compiled of it: within a second Python sees no difference."""
    path.write_text(source, encoding="utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()
