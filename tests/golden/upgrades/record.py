"""``python -m tests.golden.upgrades.record REV``: what a release leaves behind, made by its own code.

Its membership log, the topics and the checkpoint of its stream after the first half of that log, and the history of
its ``serve``, each compressed, in a folder named after the revision. It runs once a release, from a clone with its
history; :mod:`tests.support.upgrades` reads what it leaves. Only the broker is of the release that records.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tests.support.kafka import kafka_under_test, read
from tests.support.upgrades import PREFIX, TOPICS
from tests.support.wait import eventually

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
#: Prints the log of that release, a record a line, in the order of each partition.
LOG = """
import json, sys
from base64 import b64encode
from tests.support.logs import as_topic, membership_log

for partition, rows in enumerate(as_topic(membership_log(360, 22, seed=9), 4).partitions):
    for key, value, headers in rows:
        pairs = [(name, b64encode(data).decode()) for name, data in headers]
        print(json.dumps([partition, b64encode(key).decode(), b64encode(value).decode(), pairs]))
"""
#: Records that give dead letters.
SPOILED: list[list[Any]] = [
    [
        0,
        b64encode(b"g").decode(),
        b64encode(b"{").decode(),
        [["ce_type", b64encode(b"member.joined").decode()]],
    ],
    [1, b64encode(b"g").decode(), None, []],
]


def main() -> None:
    """Record one release."""
    asked = argparse.ArgumentParser(description=main.__doc__)
    asked.add_argument("revision")
    revision = asked.parse_args().revision
    with tempfile.TemporaryDirectory() as scratch:
        old = Path(scratch) / "old"
        old.mkdir()
        archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=True)
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tree:
            tree.extractall(old, filter="data")
        # Native code is of this release: that one goes without.
        (old / "rebalance_kernel.py").write_text("raise ImportError\n")
        _record(old, Path(scratch), HERE / revision)


def _record(old: Path, scratch: Path, target: Path) -> None:
    log = [json.loads(line) for line in _said(old, "-c", LOG).splitlines()]
    halves: tuple[list[Any], list[Any]] = ([], [])
    for partition in range(4):
        rows = [row for row in log if row[0] == partition]
        halves[0].extend(rows[: len(rows) // 2])
        halves[1].extend(rows[len(rows) // 2 :])
    target.mkdir(exist_ok=True)
    checkpoint, history = scratch / "checkpoint", scratch / "history.sqlite"
    with kafka_under_test() as kafka:
        where = ("--bootstrap-servers", kafka.bootstrap_servers, "--topic-prefix", PREFIX)
        _said(old, "-m", "streaming", "topics", "--create", *where)
        _feed(kafka.bootstrap_servers, [*SPOILED, *halves[0]])
        stream = ("stream", "--available-now", "--buckets", "4", "--max-offsets-per-trigger", "60")
        _said(old, "-m", "streaming", *stream, "--checkpoint", str(checkpoint), *where)
        topics = {name: list(_rows(kafka.bootstrap_servers, PREFIX + name)) for name in TOPICS}
        rounds = len(topics["rebalance.diffs"])
        _serve(old, history, rounds, *where)
    with lzma.open(target / "topics.json.xz", "wt") as file:
        json.dump({**topics, "later": halves[1]}, file)
    (target / "history.sqlite.xz").write_bytes(lzma.compress(history.read_bytes()))
    with tarfile.open(target / "checkpoint.tar.xz", "w:xz") as tar:
        tar.add(checkpoint, "checkpoint", filter=_plain)
    sys.stdout.write(
        f"{target}: {rounds} diffs, {sum(one.stat().st_size for one in target.iterdir())} bytes\n"
    )


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """A file without the checksums and the owner that nothing reads."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def _said(old: Path, *arguments: str) -> str:
    """What a program of that release prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=old,
        env={**os.environ, "PYTHONPATH": str(old)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def _feed(servers: str, rows: list[Any]) -> None:
    from tests.support.upgrades import record

    producer = Producer({"bootstrap.servers": servers})
    for row in rows:
        producer.produce(f"{PREFIX}rebalance.membership", **record(row))
    assert producer.flush(60) == 0


def _rows(servers: str, topic: str) -> Iterator[list[Any]]:
    for message in sorted(read(servers, topic), key=lambda one: (one.partition(), one.offset())):
        texts = [
            None if data is None else b64encode(data).decode() for data in (message.key(), message.value())
        ]
        headers = [[name, b64encode(data or b"").decode()] for name, data in message.headers() or ()]
        yield [message.partition(), *texts, headers]


def _serve(old: Path, history: Path, rounds: int, *where: str) -> None:
    """Let that release's ``serve`` read its topics, and end it in order."""
    import sqlite3

    command = [sys.executable, "-m", "streaming", "serve", "--port", "0", "--keep", "5000w"]
    with subprocess.Popen(
        [*command, "--database", str(history), *where],
        cwd=old,
        env={**os.environ, "PYTHONPATH": str(old)},
        stdout=subprocess.DEVNULL,
    ) as serve:

        def read_all() -> bool:
            assert serve.poll() is None
            try:
                with sqlite3.connect(f"file:{history}?mode=ro", uri=True) as file:
                    return file.execute("SELECT count(*) FROM rounds").fetchone()[0] == rounds
            except sqlite3.OperationalError:  # not there yet
                return False

        eventually(read_all, timeout=60)
        serve.terminate()


if __name__ == "__main__":
    main()
