"""Spark's Python workers have no jars in their import path."""

import sys

import pytest

from streaming.spark.daemon import leave_out_jars


def test_jars_are_left_out_of_the_workers_import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/a", "/jars/spark-core.jar", "/python/lib/pyspark.zip"])
    leave_out_jars()
    assert sys.path == ["/a", "/python/lib/pyspark.zip"]
