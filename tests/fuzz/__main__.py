"""Fuzzes every decoder and every endpoint, one target after the other: ``make fuzz``."""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz import engine
from tests.fuzz.case import FINDINGS_FOLDER
from tests.fuzz.targets import NAMES, get

#: Seconds beyond its own limit after which a target counts as hung.
_HANG_SECONDS = 300


def main() -> int:
    """Fuzz the given targets (decoders and endpoints), list them, or replay a case; return 1 if there is a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=main.__doc__)
    parser.add_argument("--target", action="append", metavar="NAME", help="only this one; repeatable")
    parser.add_argument("--seconds", type=float, default=60, help="for each target, its start included")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="name the targets")
    parser.add_argument("--case", type=Path, help="replay the case in this file; its folder names the target")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder:
        engine.fuzz_target(options.target[0], options.seconds, options.seed, options.folder)
        return 0
    names = options.target or list(NAMES)
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"--target {unknown[0]}: there are {', '.join(NAMES)}")
    if options.list:
        _print("\n".join(names))
        return 0
    if options.case:
        name = options.target[0] if options.target else options.case.resolve().parent.name
        engine.replay(get(name), options.case)
        _print("nothing found")
        return 0
    how = "guided by coverage (atheris)" if engine.HAS_ATHERIS else "not guided: atheris is not installed"
    _print(f"{len(names)} targets, {options.seconds:g} s each, seed {options.seed}, {how}")
    return max([_fuzz_target(name, options.seconds, options.seed) for name in names])


def _fuzz_target(name: str, seconds: float, seed: int) -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as temporary_folder:
        folder = Path(temporary_folder)
        command = [sys.executable, "-m", "tests.fuzz", "--target", name, "--folder", temporary_folder]
        command += ["--seconds", str(seconds), "--seed", str(seed)]
        try:
            # A seed also fixes the order of Python's sets; each target writes to its own folder.
            child = subprocess.run(
                command,
                env={**os.environ, "PYTHONHASHSEED": "0", "TMPDIR": temporary_folder},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=seconds + _HANG_SECONDS,
                check=False,
            )
            status, stderr = child.returncode, child.stderr.decode(errors="replace")
        except subprocess.TimeoutExpired as expired:
            status, stderr = -1, f"hung for {_HANG_SECONDS} s\n{(expired.stderr or b'').decode(errors='replace')}"
        took = time.monotonic() - began
        count = (folder / engine.COUNT_FILE).read_text() if (folder / engine.COUNT_FILE).exists() else "?"
        _print(f"{name:20} {count:>9} cases {took:6.0f} s  {'nothing found' if status == 0 else 'FOUND'}")
        if status == 0:
            return 0
        finding = folder / engine.FINDING_FILE
        _report(name, seed, engine.text(folder), finding.read_text() if finding.exists() else stderr[-4000:])
        return 1


def _report(name: str, seed: int, case: str, finding: str) -> None:
    path = FINDINGS_FOLDER / name / f"{hashlib.sha256(case.encode()).hexdigest()[:12]}.case"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(case)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    _print(f"{finding}\nThe case (seed {seed}), kept in {shown}:\n{case[:4000]}")
    _print(f"Again: make fuzz CASE={shown}\n")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
