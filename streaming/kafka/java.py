"""Finds a Java that is new enough; says what to do when there is none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from assignors.errors import OutsideFailure

#: Kafka 4 and Spark 4 both need it.
MINIMUM_VERSION = 17


class NoJava(OutsideFailure):
    """No Java 17 or newer: install one (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME."""


@cache
def java() -> tuple[Path, int]:
    """The ``java`` to run, JAVA_HOME before PATH, and its major version.

    Raises:
        NoJava: there is none, it does not start, or it is older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        raise NoJava(f"JAVA_HOME={home}: no bin/java in it; point it at Java 17 or newer") if home else NoJava
    try:
        answer = subprocess.run([found, "-version"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise NoJava(
            f"{found} does not start ({error}): install Java 17 or newer, or set JAVA_HOME"
        ) from error
    match = re.search(r'version "(\d+)', answer.stderr)
    major = int(match[1]) if match else 0
    if major < MINIMUM_VERSION:
        first = answer.stderr.partition("\n")[0]
        raise NoJava(f"{found} is {first}: Java 17 or newer is needed; install one or set JAVA_HOME")
    return Path(found), major
