"""Calls released Java classes in one JVM per jar set, with JSON Lines as input and output.

``Oracle("current").ask([{"family": "classic", …}])`` returns results in order. The sources are in ``java/common`` (the
loop) and ``java/<jar set>`` (one handler class per family); they are compiled once into the user's cache, keyed by
their contents.
"""

import hashlib
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from streaming.kafka.jars import cache_dir, java
from tests.oracle.jars import classpath

JAVA = Path(__file__).parent / "java"
#: Jar sets whose sources are not all in the folder of their own name.
SOURCE_FOLDERS = {"zk082": ("zk", "zk082"), "zk011": ("zk", "zk011"), "zk11": ("zk", "zk011")}
JVM_OPTIONS = ("-Xss4m",)


class Oracle:
    """A context manager for a running JVM with the classes of one jar set.

    Raises:
        RuntimeError: javac rejected the sources, or the JVM ended; the message contains Java's output.
    """

    def __init__(self, jarset: str, *, jvm_options: Sequence[str] = JVM_OPTIONS) -> None:
        jars = classpath(jarset)
        folders = ["common", *SOURCE_FOLDERS.get(jarset, (jarset,))]
        sources = sorted(source for folder in folders for source in (JAVA / folder).rglob("*.java"))
        self._error_file = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        classes = str(compile_java(jarset, sources, jars))
        self._jvm = jvm([classes, jars], "oracle.Main", jvm_options, errors=self._error_file)

    def ask(self, requests: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return Java's result of each request, in order; for exceptions ``{"error": {"type", "message", "at"}}``."""
        lines = [json.dumps(request).encode() + b"\n" for request in requests]
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        writer = threading.Thread(target=self._write, args=(lines,), daemon=True)
        writer.start()
        answers = []
        for _ in lines:
            answer = self._jvm.stdout.readline()
            if not answer:
                raise RuntimeError(f"the oracle's JVM ended: {self._error_output()}")
            answers.append(json.loads(answer))
        writer.join()
        return answers

    def _write(self, lines: list[bytes]) -> None:
        stdin = self._jvm.stdin
        assert stdin is not None
        try:
            stdin.writelines(lines)
            stdin.write(b"\n")  # flush
            stdin.flush()
        except BrokenPipeError:
            return  # ask() notices the end of output and raises with Java's message

    def _error_output(self) -> str:
        self._error_file.seek(0)
        return self._error_file.read().decode(errors="replace")[-2000:]

    def close(self) -> None:
        """End the JVM by closing its standard input."""
        if self._jvm.stdin is not None:
            self._jvm.stdin.close()
        self._jvm.wait(timeout=30)
        if self._jvm.stdout is not None:
            self._jvm.stdout.close()
        self._error_file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def jvm(
    classes: Sequence[str], main: str, options: Sequence[str] = (), *, errors: IO[bytes] | int
) -> subprocess.Popen[bytes]:
    """Run the ``main`` class of these folders and jars, with pipes as its standard streams."""
    return subprocess.Popen(
        [str(java()[0]), "-XX:+UseSerialGC", *options, "-cp", os.pathsep.join(classes), main],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
    )


def compile_java(name: str, sources: Sequence[Path], jars: str) -> Path:
    """Return the folder of the compiled classes; compile the classes if the sources or jars have changed."""
    key = hashlib.sha256(jars.encode())
    for source in sources:
        key.update(source.name.encode() + b"\0" + source.read_bytes())
    cache = cache_dir("oracle")
    classes = cache / f"{name}-{key.hexdigest()[:16]}"
    if not classes.exists():
        with tempfile.TemporaryDirectory(dir=cache) as new_folder:
            done = subprocess.run(
                ["javac", "-nowarn", "-proc:none", "-cp", jars, "-d", f"{new_folder}/classes", *map(str, sources)],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise RuntimeError(f"javac refused {name}:\n{done.stderr}")
            try:
                Path(new_folder, "classes").rename(classes)
            except OSError:
                if not classes.exists():  # another process was faster: its classes are the same
                    raise
    return classes
