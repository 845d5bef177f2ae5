"""Runs tests against mutants: in a copy of the tree, each time in a fork that has the big libraries loaded."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path

import confluent_kafka  # noqa: F401 - loaded once, for every fork
import hypothesis
import pytest
from cosmic_ray.mutating import mutate_code

from tests.mutants.drawing import ROOT, Mutant, operators

#: What is kept between runs: which test runs which line.
KEPT = ROOT / ".mutants"
MARKS = "not full and not oracle and not broker and not spark and not container and not browser"
#: A mutant that loops for ever is killed after this many times what its tests took, and so many seconds, of its own
#: CPU time, and one that waits for ever after so many times as long, once it has asked for no CPU time for a while
#: (nine looks of ten, one a second): other work on the machine kills none.
SLOWER, GRACE_S, PATIENCE = 4, 30, 3
STILL_LOOKS = 20
#: What pytest ends with when it ran no test: that shows nothing.
_NOTHING_RUN = 5
#: So much time of tests in other places than beside the module, s.
ENOUGH_S = 40


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
    """Run pytest in a fork, which has the big libraries loaded; its status, below 0 if it had to be ended."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 3
        try:
            os.setsid()
            os.chdir(tree)
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s), resource.RLIM_INFINITY))
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
    return _waited(child, PATIENCE * limit_s)


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
    looks: deque[bool] = deque(maxlen=STILL_LOOKS)
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # what its tests left running
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            looks.append(_works(child))
            if len(looks) == STILL_LOOKS and sum(looks) <= STILL_LOOKS // 10:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return -1
            time.sleep(1)
        time.sleep(0.02)


def _works(process: int) -> bool:
    """Whether a thread of the process, or of one that it started, runs, waits for its turn or for a disk."""
    parents: dict[int, int] = {}
    working: set[int] = set()
    for path in Path("/proc").glob("[0-9]*/task/*/stat"):
        with contextlib.suppress(OSError):
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            number = int(path.parts[2])
            parents[number] = int(parent)
            if state in "RD":
                working.add(number)
    for number in working:
        ancestor = number
        while ancestor not in (0, process):
            ancestor = parents.get(ancestor, 0)
        if ancestor == process:
            return True
    return False


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


def killed(tree: Path, mutant: Mutant, tests: Sequence[str], took: Mapping[str, float]) -> bool:
    """Whether one of these tests fails on it: those beside the module, then quick others, the room's first."""
    path = tree / mutant.path
    source = path.read_text(encoding="utf-8")
    beside = f"{Path(mutant.path).parent}/test_{Path(mutant.path).name}"
    near = [
        test for test in took if beside in test
    ]  # some run it in a child process, where nobody counts lines
    others = _quickest(set(tests) - set(near), took)
    room = "/".join(Path(mutant.path).parts[: 2 if mutant.path.startswith("streaming/") else 1])
    own = [test for test in others if f"{room}/" in test]
    far = [test for test in others if test not in own]
    mutated = mutate_code(source, operators()[mutant.operator], mutant.occurrence)
    _replace(path, mutated or source)
    try:
        return any(_noticed(tree, mutant, chosen, took) for chosen in (near, own, far))
    finally:
        _replace(path, source)


def _noticed(tree: Path, mutant: Mutant, tests: Sequence[str], took: Mapping[str, float]) -> bool:
    """Whether one of these tests fails, twice: one that fails only now and then tells of the machine."""
    while tests:
        status, failed = _run(tree, tests, took)
        if status < 0:
            say(f"{mutant.path}:{mutant.line} no end: {mutant.was} -> {mutant.became}")
        if status in (0, _NOTHING_RUN):
            return False
        if status < 0 or not failed or _run(tree, failed, took)[0]:
            return True
        say(f"{', '.join(failed)} failed once and passed then: left out")
        tests = [test for test in tests if test not in failed]
    return False


def _run(tree: Path, tests: Sequence[str], took: Mapping[str, float]) -> tuple[int, list[str]]:
    """How a run of these tests ends, up to the first failure, and what failed."""
    limit = GRACE_S + SLOWER * sum(took[test] for test in tests)
    files = sorted({test.split("::")[0] for test in tests})
    told = tree / ".tmp" / "told.json"
    told.unlink(missing_ok=True)
    status = in_a_child(tree, [*files, "-x"], Chosen(frozenset(tests)), limit, told)
    return status, json.loads(told.read_text())["failed"] if told.exists() else []


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
