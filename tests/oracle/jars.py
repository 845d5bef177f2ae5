"""The jar sets of the oracle, fetched from Maven Central by the Ivy that ships inside pyspark."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-rebalance-monitor" / "jars"

#: Maven coordinates of each jar set; ``current`` is the release the project answers as.
JARSETS: dict[str, tuple[str, ...]] = {
    "current": ("org.apache.kafka:kafka_2.13:4.3.1", "org.apache.kafka:connect-runtime:4.3.1"),
    "admin": ("org.apache.kafka:kafka-server-common:4.0.2",),  # the last with AdminUtils
    "zk082": ("org.apache.kafka:kafka_2.11:0.8.2.2",),
    "zk011": ("org.apache.kafka:kafka_2.11:0.11.0.3",),
    "zk11": ("org.apache.kafka:kafka_2.11:1.1.1",),
}


def classpath(jarset: str) -> str:
    """Every jar of the set, with what it needs, as ``java -cp`` takes it.

    Raises:
        RuntimeError: Ivy could not fetch them; the message carries its last lines.
    """
    coordinates = JARSETS[jarset]
    into = CACHE / f"{jarset}-{hashlib.sha256(' '.join(coordinates).encode()).hexdigest()[:12]}"
    if not into.exists():
        _retrieve(coordinates, into)
    return os.pathsep.join(str(jar) for jar in sorted(into.glob("*.jar")))


def _retrieve(coordinates: tuple[str, ...], into: Path) -> None:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    ivy = next(Path(spec.origin).parent.glob("jars/ivy-*.jar"))
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into.parent) as fresh:
        module = Path(fresh, "ivy.xml")
        module.write_text(_module(coordinates))
        command = [
            "java",
            "-jar",
            str(ivy),
            "-m2compatible",
            "-confs",
            "default",
            "-cache",
            f"{into.parent}/ivy",
        ]
        done = subprocess.run(
            [
                *command,
                "-ivy",
                str(module),
                "-types",
                "jar",
                "bundle",
                "-retrieve",
                f"{fresh}/lib/[artifact]-[revision].[ext]",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(
                f"Ivy could not fetch {coordinates}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        Path(fresh, "lib").rename(into)


def _module(coordinates: tuple[str, ...]) -> str:
    rows = []
    for coordinate in coordinates:
        org, name, revision = coordinate.split(":")
        rows.append(f'<dependency org="{org}" name="{name}" rev="{revision}" conf="default->default"/>')
    return (
        '<ivy-module version="2.0"><info organisation="oracle" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(rows)}</dependencies></ivy-module>"
    )
