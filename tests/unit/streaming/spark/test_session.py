"""Properties, start and end of a Spark session, without a JVM."""

import threading
import tomllib
from pathlib import Path
from typing import Any
from unittest.mock import Mock, PropertyMock

import pyspark
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkRuntimeError

from assignors.errors import OutsideFailure
from streaming.kafka.jars import DownloadFailed
from streaming.settings.config import load
from streaming.spark import job, session
from streaming.spark.session import (
    SessionOptions,
    StartInterrupted,
    configuration,
    kafka_connector,
    keep_open_until_context_ends,
)
from streaming.spark.start import StreamOptions

LOG = Path("spark.log")


def context_of_dead_jvm(error: Exception | None) -> Mock:
    """Return a fake SparkContext without a JVM; ``stop`` raises ``error``, if given."""
    context = Mock(stop=Mock(side_effect=error))
    type(context).version = PropertyMock(side_effect=Py4JNetworkError("no answer"))
    return context


def test_a_context_is_always_stopped() -> None:
    context = Mock()
    with keep_open_until_context_ends(context, LOG):
        assert context.stop.call_count == 0
    with pytest.raises(KeyError), keep_open_until_context_ends(context, LOG):
        raise KeyError
    assert context.stop.call_count == 2


@pytest.mark.parametrize(
    "error", [Py4JNetworkError("no answer"), ConnectionRefusedError("no answer"), Py4JError("An error occurred")]
)
@pytest.mark.parametrize("failing_phase", ["meanwhile", "at its end"])
def test_dead_jvm_is_reported_with_its_log(error: Exception, failing_phase: str) -> None:
    context = context_of_dead_jvm(error if failing_phase == "at its end" else None)
    with pytest.raises(OutsideFailure) as raised, keep_open_until_context_ends(context, LOG):
        if failing_phase == "meanwhile":
            raise error
    assert str(raised.value) == (
        "Spark's JVM is gone, killed or out of memory; its log is spark.log. "
        "Start again: the checkpoint has the offsets and the state"
    )
    assert context.stop.call_count == 1


def test_error_of_a_running_jvm_is_raised_unchanged() -> None:
    raised = Py4JError("Method x does not exist")
    with pytest.raises(Py4JError) as error, keep_open_until_context_ends(Mock(), LOG):
        raise raised
    assert error.value is raised


@pytest.mark.parametrize("error", [PySparkRuntimeError("no JVM"), FileNotFoundError("no java")])
def test_a_failed_start_is_reported_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(session, "_set_environment", lambda _: None)
    monkeypatch.setattr(session, "_context", Mock(side_effect=error))
    log_file = tmp_path / "spark.log"
    with (
        pytest.raises(OutsideFailure, match=rf"Spark did not start \(no .*\); its log is {log_file}"),
        session.session(SessionOptions(connector=False, log_file=log_file)),
    ):
        pass


def test_start_is_aborted_when_the_program_stops() -> None:
    stop, unset_event = threading.Event(), threading.Event()

    def start() -> Any:
        stop.set()
        unset_event.wait()

    with pytest.raises(StartInterrupted):
        session._start_context(start, stop)
    unset_event.set()


def test_spark_submit_properties_override_session_properties(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    submitted = {"spark.master": "yarn"}
    monkeypatch.setattr(pyspark, "SparkConf", Mock(return_value=Mock(setIfMissing=submitted.setdefault)))
    spark_context = Mock()
    monkeypatch.setattr(pyspark, "SparkContext", spark_context)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    session_properties = {"spark.master": "local[2]", "spark.app.name": "monitor"}
    context = session._context(session_properties, tmp_path / "log", tmp_path)
    assert context is spark_context.return_value
    assert submitted == session_properties | {"spark.master": "yarn"}
    spark_context.assert_called_once_with(conf=pyspark.SparkConf())


def properties(options: SessionOptions) -> dict[str, str]:
    return configuration(options, [], Path("log4j2.properties"))


def test_executors_import_from_the_unpacked_archive(tmp_path: Path) -> None:
    options = SessionOptions(master="spark://m:7077", archive=tmp_path / "monitor.tar.gz")
    archive_properties = {
        name: value for name, value in properties(options).items() if name not in properties(SessionOptions())
    }
    assert archive_properties == {
        "spark.archives": f"{tmp_path}/monitor.tar.gz#rebalance-monitor",
        "spark.executorEnv.PYTHONPATH": "rebalance-monitor",
    }


def test_checkpoint_url_keeps_the_file_managers_of_spark() -> None:
    raw = {"spark.hadoop.fs.file.impl", "spark.hadoop.fs.AbstractFileSystem.file.impl"}
    assert raw <= properties(SessionOptions()).keys()
    assert not raw & properties(SessionOptions(local_checkpoint=False)).keys()


def test_connector_is_on_the_class_path_of_a_local_jvm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jar = tmp_path / "connector.jar"
    jar.touch()

    def jar_properties(master: str) -> set[tuple[str, str]]:
        settings = configuration(SessionOptions(master=master), [jar, jar], Path("log4j2.properties"))
        return {item for item in settings.items() if jar.name in item[1]}

    assert jar_properties("local[2]") == {("spark.driver.extraClassPath", f"{jar}:{jar}")}
    assert jar_properties("spark://m:7077") == {("spark.jars", f"{jar},{jar}")}
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert jar_properties("local[2]") == {("spark.jars", f"{jar},{jar}")}


def test_only_a_cluster_driver_listens_beyond_loopback() -> None:
    assert properties(SessionOptions())["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.bindAddress" not in properties(SessionOptions(master="spark://m:7077"))


@pytest.mark.parametrize("release", ["3.5.7", "4.0.2"])
def test_an_older_pyspark_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, release: str) -> None:
    monkeypatch.setattr(session, "version", lambda _: release)
    message = rf"^PySpark {release} is installed, which is too old: pip install 'pyspark>=4\.1'$"
    with pytest.raises(OutsideFailure, match=message):
        job.run(load(bootstrap_servers="k:1"), StreamOptions(checkpoint=str(tmp_path)), threading.Event())
    assert list(tmp_path.iterdir()) == []


def test_wheel_requires_the_oldest_supported_pyspark() -> None:
    root = Path(__file__).parents[4]
    project = tomllib.loads((root / "pyproject.toml").read_text())
    assert f"pyspark>={'.'.join(map(str, session.OLDEST_RELEASE))},<4.4" in project["project"]["dependencies"]
    assert project["tool"]["uv"]["constraint-dependencies"] == [f"pyspark=={session.LOCKED_PYSPARK}"]


def test_a_missing_connector_names_the_release_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: object) -> list[Path]:
        raise DownloadFailed("not found")

    monkeypatch.setattr(session, "fetch", missing)
    monkeypatch.setattr(session, "version", lambda _: "4.3.0")
    with pytest.raises(OutsideFailure, match=r"PySpark 4\.3\.0 .*pip install 'pyspark==4\.2\.0' \(not found\)"):
        kafka_connector()
    monkeypatch.setattr(session, "version", lambda _: session.LOCKED_PYSPARK)
    with pytest.raises(DownloadFailed, match="not found"):
        kafka_connector()
