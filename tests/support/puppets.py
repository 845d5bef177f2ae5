"""Real clients on strings: Java consumers in one JVM, confluent-kafka and kafka-python in a process each.

Every puppet starts, subscribes, leaves, stops (to come back) and crashes on command, and tells what it owns
after each of its rebalance callbacks.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Self

from streaming.kafka.cache import cache_dir
from streaming.kafka.java import java
from tests.oracle.jars import classpath
from tests.support.wait import eventually

_ROOT = Path(__file__).parent
_SOURCES = (_ROOT / "java/Puppets.java", _ROOT.parent / "oracle/java/common/Json.java")
Share = dict[str, list[int]]


class JavaPuppets:
    """One JVM with any number of Java consumers; a context manager."""

    def __init__(self) -> None:
        jars = classpath("current")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._jvm = subprocess.Popen(
            [
                str(java()[0]),
                "-Xmx512m",
                "-XX:+UseSerialGC",
                "-cp",
                f"{_compiled(jars)}{os.pathsep}{jars}",
                "Puppets",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        #: What each puppet owns; None for one that has closed.
        self.owned: dict[str, Share | None] = {}
        self.failures: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._jvm.stdout is not None
        for line in self._jvm.stdout:
            told = json.loads(line)
            if told["event"].startswith("failed"):
                self.failures.append(f"{told['name']}: {told['event']}")
            self.owned[told["name"]] = None if told["event"] == "closed" else told["owned"]

    def _command(self, **command: Any) -> None:
        assert self._jvm.stdin is not None
        self._jvm.stdin.write(json.dumps(command).encode() + b"\n")
        self._jvm.stdin.flush()

    def start(self, name: str, config: dict[str, Any], topics: list[str]) -> None:
        """A consumer with the Java client's own settings."""
        self.owned[name] = {}
        self._command(do="start", name=name, config=config, topics=topics)

    def subscribe(self, name: str, topics: list[str]) -> None:
        """Other topics."""
        self._command(do="subscribe", name=name, topics=topics)

    def close(self, name: str, how: str) -> None:
        """``how``: GroupMembershipOperation (KIP-1092)."""
        self._command(do="close", name=name, how=how)
        eventually(lambda: self.owned[name] is None or self.failures)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        self._jvm.stdin.close()
        self._jvm.wait(timeout=30)
        self._reader.join(timeout=10)
        self._jvm.stdout.close()
        self._errors.close()


def _compiled(jars: str) -> Path:
    """The folder of the compiled classes, keyed by sources and jars."""
    key = hashlib.sha256(jars.encode())
    for source in _SOURCES:
        key.update(source.read_bytes())
    cache = cache_dir("puppets")
    classes = cache / key.hexdigest()[:16]
    if not classes.exists():
        with tempfile.TemporaryDirectory(dir=cache) as fresh:
            done = subprocess.run(
                [
                    "javac",
                    "-nowarn",
                    "-proc:none",
                    "-cp",
                    jars,
                    "-d",
                    f"{fresh}/classes",
                    *map(str, _SOURCES),
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            try:
                Path(fresh, "classes").rename(classes)
            except OSError:
                if not classes.exists():  # another process was first: its classes are the same
                    raise
    return classes


class PythonPuppet:
    """One Python consumer (``streaming.demo.consumer``) in a process of its own."""

    def __init__(self, arguments: list[str]) -> None:
        self.owned: Share = {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "streaming.demo.consumer", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=_ROOT.parents[1],
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.owned = json.loads(line)["owned"]

    def end(self, *, crash: bool) -> None:
        """Leaves the group and ends, or ends without a word."""
        self._process.send_signal(signal.SIGKILL if crash else signal.SIGTERM)
        self._process.wait(timeout=30)
        self._reader.join(timeout=10)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self.owned = {}
