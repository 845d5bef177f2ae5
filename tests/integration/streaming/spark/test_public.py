"""The query on PySpark writes the same bytes as the pure functions.

The test reads files and needs no broker, so it runs with every PySpark release (``make test-spark``). In ``make test``,
``test_job.py`` and ``test_determinism.py`` compare the same query over Kafka.
"""

import pickle
import subprocess
from pathlib import Path
from typing import Any

import pytest

from streaming.spark import checkpoint
from tests.support.command import command
from tests.support.disks import folder_bytes
from tests.support.file_stream import WrittenRecords
from tests.support.histories import Topic, log_by_partition
from tests.support.pure_stream import SINKS, by_key
from tests.support.pure_stream import run as pure
from tests.support.recorded import membership_log

pytestmark = [pytest.mark.spark, pytest.mark.full]


def log_with_unusable_records() -> Topic:
    log: Any = log_by_partition(membership_log(400, 11, seed=21), 4)
    log[0].insert(1, (b"g", b'{"groupId":"g","timest', [("ce_type", b"member.joined")]))
    log[1].append((b"g", b"{}", []))
    log[2].append((None, b"\x00\xff", [("only", None)]))
    log[3].insert(5, (b"g", None, [("ü", b"\xff"), ("ce_id", b"")]))
    return log


def played(folder: Path, log: Path, records: int) -> tuple[WrittenRecords, int]:
    done = subprocess.run(
        command(
            "--log", str(log), "--folder", str(folder), "--records", str(records), module="tests.support.file_stream"
        ),
        capture_output=True,
        text=True,
        timeout=570,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    written, diffs = pickle.loads((folder / "written.pickle").read_bytes())  # noqa: S301 - the test's own
    return written, diffs


def test_query_writes_the_same_bytes_as_the_pure_functions(tmp_path: Path) -> None:
    log = tmp_path / "log.pickle"
    log.write_bytes(pickle.dumps(log_with_unusable_records()))
    writes = pure(log_with_unusable_records(), batch=8, buckets=4, sinks=SINKS)
    wanted = {place: [(value, list(headers)) for value, headers in rows] for place, rows in by_key(writes).items()}
    written, diffs = played(tmp_path / "played", log, 8)
    for (topic, key), rows in written.items():
        if topic in (SINKS.assignments, SINKS.episodes, SINKS.incidents):  # compacted
            del rows[:-1]
        if topic == SINKS.dead_letters:  # records of one key from several partitions have no defined order
            rows.sort(key=repr)
            wanted[topic, key].sort(key=repr)
    assert written == wanted
    assert diffs == sum(len(rows) for (topic, _), rows in wanted.items() if topic == SINKS.diffs)
    folder = tmp_path / "played/checkpoint"
    assert folder_bytes(folder) <= 20 * checkpoint.state_bytes(folder)
