"""Fuzzes one target for some seconds in a process of its own.

Atheris (libFuzzer, guided by the coverage of Python code) has wheels only for Linux on x86-64. On other platforms the
same mutations are applied to the seeds without guidance by coverage.
"""

import importlib.util
import itertools
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, given, settings

from tests.fuzz.case import Case, FuzzTarget, dump, load, pack, unpack
from tests.fuzz.limits import limit_memory, limited
from tests.fuzz.mutate import CaseMutator
from tests.fuzz.targets import get

#: The longest generated case in bytes.
_MAX_CASE_BYTES = 1 << 16
#: Approximate number of seeds at the start.
_SEEDS = 40
#: One case in this many is drawn from the target's shapes instead of a mutation.
_STRUCTURED_CASE_INTERVAL = 8
#: Seconds for shrinking a finding.
_SHRINKING_SECONDS = 15.0
#: Names of a run's files: the case that is being checked, the finding, and the number of cases so far.
CURRENT_CASE_FILE, FINDING_FILE, COUNT_FILE = "current.case", "finding.txt", "count"
_STARTED_AT = time.monotonic()
HAS_ATHERIS = importlib.util.find_spec("atheris") is not None


def fuzz_target(name: str, seconds: float, seed: int, folder: Path) -> None:
    """Fuzz one target; a finding is stored in ``folder`` and ends the process with exit status 1.

    ``seconds`` includes the start of this process; all seeds are checked even if the time is over.
    """
    ends = _STARTED_AT + seconds
    logging.disable(logging.CRITICAL)
    if HAS_ATHERIS:
        import atheris

        with atheris.instrument_imports(include=["assignors", "streaming"], enable_loader_override=False):
            target = get(name)
    else:
        target = get(name)
    cases = _FuzzCases(target, folder)
    (_run_coverage_guided_cases if HAS_ATHERIS else _run_without_coverage)(cases, ends, seed)
    cases.store_count()


class _FuzzCases:
    """Generates and checks the test cases of one fuzzing run."""

    def __init__(self, target: FuzzTarget, folder: Path) -> None:
        limit_memory()
        self._target = target
        self._folder = folder
        self._current = (folder / CURRENT_CASE_FILE).open("wb", buffering=0)
        self.count = 0
        seeds = [list(case) for case in target.seeds()]
        self.seeds = seeds[:: max(1, len(seeds) // _SEEDS)]
        self.mutator = CaseMutator(target, self.seeds)
        self._make_random_case = _make_random_case(target)

    def made(self, case: Case, random: Random) -> Case:
        """Return the next test input: a mutation of ``case`` or, sometimes, a new well-typed case."""
        if self._make_random_case is not None and random.randrange(_STRUCTURED_CASE_INTERVAL) == 0:
            new_cases = self._make_random_case(random.randbytes(2048))
            if new_cases is not None:
                return new_cases if random.random() < 0.5 else self.mutator.mutate_case(new_cases, random)
        return self.mutator.mutate_case(case, random)

    def run(self, case: Case) -> None:
        """Run a case; if it fails, store the shrunk case with the traceback, and end the process."""
        self.count += 1
        self._current.seek(0)
        self._current.write(pack(case))
        self._current.truncate()
        try:
            limited(self._target.check, case)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is a finding
            shrunk_case = shrink_case(self._target, case, error)
            text = "".join(traceback.format_exception(error))
            (self._folder / CURRENT_CASE_FILE).write_bytes(pack(shrunk_case))
            (self._folder / FINDING_FILE).write_text(text, errors="backslashreplace")
            self.store_count()
            sys.stderr.flush()
            os._exit(1)

    def store_count(self) -> None:
        """Write the number of checked cases to a file."""
        (self._folder / COUNT_FILE).write_text(str(self.count))


def _run_coverage_guided_cases(cases: _FuzzCases, ends: float, seed: int) -> None:
    import atheris

    corpus_folder = cases._folder / "corpus"
    corpus_folder.mkdir()
    for number, case in enumerate(cases.seeds):
        (corpus_folder / str(number)).write_bytes(pack(case))

    def check(data: bytes) -> None:
        case = unpack(data)
        if case is not None:
            cases.run(case)
        if time.monotonic() > ends and cases.count >= len(cases.seeds):
            cases.store_count()
            sys.stderr.flush()
            os._exit(0)

    def changed(data: bytes, most: int, number: int) -> bytes:
        random = Random(number)
        case = cases.made(unpack(data) or cases.mutator.seed(random), random)
        if case and random.random() < 0.2:
            at = random.randrange(len(case))
            case[at] = bytes(atheris.Mutate(case[at] or b"", len(case[at] or b"") + 64))
        packed = pack(case)
        return packed if len(packed) <= most else data

    options = [f"-seed={seed}", f"-max_len={_MAX_CASE_BYTES}", "-len_control=0", "-timeout=120", "-rss_limit_mb=0"]
    quiet = ["-print_final_stats=0", "-verbosity=0", f"-artifact_prefix={cases._folder}/"]
    atheris.Setup([sys.argv[0], *options, *quiet, str(corpus_folder)], check, custom_mutator=changed)
    atheris.Fuzz()


def _run_without_coverage(cases: _FuzzCases, ends: float, seed: int) -> None:
    random = Random(seed)
    for case in cases.seeds:
        cases.run(case)
    while time.monotonic() < ends:
        case = cases.made(cases.mutator.seed(random), random)
        if len(pack(case)) <= _MAX_CASE_BYTES:
            cases.run(case)


def _make_random_case(target: FuzzTarget) -> Callable[[bytes], Case | None] | None:
    """Return a function that makes a well-typed case from random bytes; None if the target has no ``shape``."""
    if target.shape is None:
        return None
    new_cases: list[Case] = []

    @settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(target.shape)
    def draw(case: Case) -> None:
        new_cases.append(case)

    def draw_case(data: bytes) -> Case | None:
        new_cases.clear()
        draw.hypothesis.fuzz_one_input(data)  # type: ignore[attr-defined] # hypothesis adds it
        return list(new_cases[0]) if new_cases else None

    return draw_case


def shrink_case(target: FuzzTarget, case: Case, error: BaseException) -> Case:
    """Return a smaller case with the same finding, found by removing records, and then bytes from records."""
    wanted, ends = _finding_identity(error), time.monotonic() + _SHRINKING_SECONDS
    has_shrunk = True
    while has_shrunk and time.monotonic() < ends:
        has_shrunk = False
        for attempt in itertools.chain(_cases_without_records(case, target.width), _shorter_cases(case)):
            if time.monotonic() > ends:
                break
            try:
                limited(target.check, attempt)
            except BaseException as raised:  # noqa: BLE001 - compared with the finding
                if _finding_identity(raised) == wanted:
                    case, has_shrunk = attempt, True
                    break
    return case


def _finding_identity(error: BaseException) -> tuple[str, str, int]:
    """Return the identity of a finding: the exception's type, and the file and line that raised it."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    return (type(error).__name__, *((last[0].filename, last[0].lineno or 0) if last else ("", 0)))


def _cases_without_records(case: Case, width: int) -> Iterator[Case]:
    for at in range(0, len(case), width):
        yield case[:at] + case[at + width :]


def _shorter_cases(case: Case) -> Iterator[Case]:
    for at, part in enumerate(case):
        if not part:
            continue
        size = len(part)
        while size:
            for start in range(0, len(part), size):
                yield [*case[:at], part[:start] + part[start + size :], *case[at + 1 :]]
            size //= 2


def replay(target: FuzzTarget, path: Path) -> None:
    """Run the fuzz target on the case in a file; raise the finding, if there is one."""
    limited(target.check, load(path.read_text()))


def text(folder: Path) -> str:
    """Return, as text, the case that was being checked when the run ended."""
    return dump(unpack((folder / CURRENT_CASE_FILE).read_bytes()) or [])
