"""What Spark is told."""

from __future__ import annotations

from pathlib import Path

from streaming.spark import state_store
from streaming.spark.pyspark import survey
from streaming.spark.session import SessionOptions, configuration


def told(options: SessionOptions) -> dict[str, str]:
    return configuration(options, survey(public=True), [], Path("log4j2.properties"))


def test_executors_import_from_the_archive_where_they_unpack_it(tmp_path: Path) -> None:
    options = SessionOptions(master="spark://m:7077", archive=tmp_path / "monitor.tar.gz")
    archived = {name: value for name, value in told(options).items() if name not in told(SessionOptions())}
    assert archived == {
        "spark.archives": f"{tmp_path}/monitor.tar.gz#rebalance-monitor",
        "spark.executorEnv.PYTHONPATH": "rebalance-monitor",
    }


def test_rocksdb_s_checkpoint_has_the_files_of_the_only_file_system_that_it_takes() -> None:
    raw = {"spark.hadoop.fs.file.impl", "spark.hadoop.fs.AbstractFileSystem.file.impl"}
    assert raw <= told(SessionOptions()).keys()
    rocksdb = told(SessionOptions(state_store="rocksdb"))
    assert rocksdb.items() >= state_store.properties("rocksdb").items()
    unknown = told(SessionOptions(state_store=None))
    assert state_store.PROVIDER not in unknown
    assert not raw & (rocksdb.keys() | unknown.keys())


def test_a_cluster_s_driver_can_be_reached_and_one_machine_s_only_from_there() -> None:
    assert told(SessionOptions())["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.bindAddress" not in told(SessionOptions(master="spark://m:7077"))


def test_the_state_may_be_larger_than_what_spark_lets_a_driver_collect() -> None:
    assert told(SessionOptions())["spark.driver.maxResultSize"] == "0"
    assert (
        told(SessionOptions(conf=(("spark.driver.maxResultSize", "1g"),)))["spark.driver.maxResultSize"]
        == "1g"
    )
