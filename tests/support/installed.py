"""The project as ``pip install`` leaves it: built, and installed with its dependencies into an empty environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Literal

from streaming.kafka.jars import JARS_VARIABLE
from tests.support.connectors import jars

ROOT = Path(__file__).parents[2]


def build(folder: Path, kind: Literal["wheel", "sdist"]) -> Path:
    """Build the wheel and return its path."""
    _uv("build", "--quiet", f"--{kind}", "--out-dir", str(folder), str(ROOT))
    (built,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


def install(built: Path, folder: Path) -> Path:
    """Install the wheel into a new environment and return the folder of its commands.

    ``uv pip`` does what pip does, with uv's cache of downloads.
    """
    python = folder / "bin/python"
    _uv("venv", "--quiet", "--python", sys.executable, str(folder))
    _uv("pip", "install", "--quiet", "--no-config", "--python", str(python), str(built))
    return python.parent


def release(commands: Path, package: str) -> str:
    """Return the installed version of a package."""
    ask = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([commands / "python", "-c", ask], capture_output=True, text=True, check=True).stdout.strip()


def environment(commands: Path, **others: str) -> dict[str, str]:
    """Return environment variables for that installation, without any path of this repository.

    The newest PySpark may be newer than the connectors that can be had.
    """
    if JARS_VARIABLE not in os.environ:
        found = jars(release(commands, "pyspark"), commands.parent / "jars")
        assert found is not None
        others = {JARS_VARIABLE: str(found), **others}
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return kept | {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"} | others


def _uv(*arguments: str) -> None:
    uv = shutil.which("uv") or str(ROOT / ".uv/bin/uv")
    # Outside the repository, whose settings must not apply to an installed package.
    done = subprocess.run([uv, *arguments], cwd=ROOT.anchor, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
