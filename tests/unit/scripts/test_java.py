import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "java.sh"


def home(folder: Path, *programs: tuple[str, str]) -> Path:
    """Return a JAVA_HOME in which each named program prints its line on standard error, as Java does."""
    (folder / "bin").mkdir(parents=True)
    for name, line in programs:
        path = folder / "bin" / name
        path.write_text(f"#!/bin/sh\necho '{line}' >&2\n")
        path.chmod(0o755)
    return folder


def check(java_home: Path, java_kind: str = "jre") -> tuple[int, list[str]]:
    # If JAVA_HOME is set, the script installs nothing, because it would not use another Java.
    command, environment = ["sh", str(SCRIPT), java_kind], {**os.environ, "JAVA_HOME": str(java_home)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize(
    "line",
    [
        'openjdk version "17.0.15" 2025-04-15',
        'openjdk version "21" 2023-09-19 LTS',
        'java version "25.0.1" 2025-10-21 LTS',
    ],
)
def test_java_17_and_newer_are_accepted(tmp_path: Path, line: str) -> None:
    assert check(home(tmp_path / "jdk", ("java", line))) == (0, [])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('java version "1.8.0_402"', "is Java 8"),
        ('openjdk version "11.0.2" 2019-01-15', "is Java 11"),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.".replace("'", ""), "has none"),
    ],
)
def test_old_or_missing_java_is_reported_with_the_remedy(tmp_path: Path, line: str, reason: str) -> None:
    place = home(tmp_path / "jdk", ("java", line))
    status, lines = check(place)
    assert status == 3
    assert lines[0] == f"error: Kafka and Spark need Java 17 or newer, but JAVA_HOME={place} {reason}:"
    assert len(lines) == 2


def test_java_home_without_java_is_reported(tmp_path: Path) -> None:
    status, lines = check(tmp_path / "nowhere")
    error = f"error: Kafka and Spark need Java 17 or newer, but JAVA_HOME={tmp_path / 'nowhere'} has none:"
    assert (status, lines[0]) == (3, error)


def test_java_without_a_compiler_is_reported_for_the_oracle(tmp_path: Path) -> None:
    java = ("java", 'openjdk version "17.0.15" 2025-04-15')
    status, lines = check(home(tmp_path / "jre", java), "jdk")
    error = f"error: Kafka and Spark need the Java compiler, but JAVA_HOME={tmp_path / 'jre'} has no javac:"
    assert (status, lines[0]) == (3, error)
    assert check(home(tmp_path / "jdk", java, ("javac", "javac 17.0.15")), "jdk") == (0, [])
