"""The archive of Spark's classes as a JVM sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.kafka.cache import cache_dir
from streaming.spark import classes
from streaming.spark.session import SessionOptions, session

pytestmark = [pytest.mark.spark, pytest.mark.full]


def test_spark_s_classes_come_from_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jars").symlink_to(cache_dir("jars"))
    monkeypatch.setenv("REBALANCE_MONITOR_CACHE", str(tmp_path))
    archive = classes.make(None)
    assert archive.stat().st_size > 50_000_000
    file = tmp_path / "classes.txt"
    options = SessionOptions(
        log_file=tmp_path / "spark.log", connector=False, java_options=f"-Xlog:class+load:file={file}"
    )
    with session(options):
        pass
    lines = [line for line in file.read_text().splitlines() if "Lambda" not in line]
    ours = [line for line in lines if "] org.apache.spark." in line]
    shared = [line for line in ours if line.endswith("shared objects file (top)")]
    assert len(shared) > 0.8 * len(ours) > 0
