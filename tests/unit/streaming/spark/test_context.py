"""What happens around a Spark context; contexts themselves are started in the integration tests."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkRuntimeError

from streaming.spark import context
from streaming.spark.context import SparkGone, SparkUnavailable, open_until_gone, starting, without_handler

LOG = Path("spark.log")


class OneContext:
    """In a context's place: counts how often it is stopped, which may meet a JVM that is gone."""

    def __init__(self, error: Exception | None = None, *, answers: bool = False) -> None:
        self.stopped, self._error = 0, error
        self._jvm = SimpleNamespace(System=SimpleNamespace(nanoTime=self._time if answers else self._silence))

    def _time(self) -> int:
        return 1

    def _silence(self) -> int:
        raise Py4JNetworkError("no answer")

    def stop(self) -> None:
        self.stopped += 1
        if self._error is not None:
            raise self._error


def test_a_context_is_stopped_whatever_happens_while_it_is_open() -> None:
    one = OneContext()
    with open_until_gone(one, LOG):  # type: ignore[arg-type] # what is used of it
        assert one.stopped == 0
    with pytest.raises(KeyError), open_until_gone(one, LOG):  # type: ignore[arg-type] # same
        raise KeyError
    assert one.stopped == 2


@pytest.mark.parametrize(
    "error",
    [Py4JNetworkError("no answer"), ConnectionRefusedError("no answer"), Py4JError("An error occurred")],
)
@pytest.mark.parametrize("when", ["meanwhile", "at its end"])
def test_a_jvm_that_is_gone_is_told_with_its_log_and_what_to_do(error: Exception, when: str) -> None:
    one = OneContext(error if when == "at its end" else None)
    with pytest.raises(SparkGone) as told, open_until_gone(one, LOG):  # type: ignore[arg-type] # same
        if when == "meanwhile":
            raise error
    assert str(told.value) == (
        "Spark's JVM is gone, killed or out of memory; its log is spark.log. "
        "Start again: the checkpoint has the place and the state"
    )
    assert one.stopped == 1


def test_what_a_jvm_says_that_is_there_is_not_taken_for_its_end() -> None:
    said = Py4JError("Method x does not exist")
    with pytest.raises(Py4JError) as told, open_until_gone(OneContext(answers=True), LOG):  # type: ignore[arg-type] # same
        raise said
    assert told.value is said


@pytest.mark.parametrize("error", [PySparkRuntimeError("no JVM"), FileNotFoundError("no java")])
def test_a_start_that_fails_is_told_with_its_log(error: Exception) -> None:
    says = r"Spark did not start \(no .*\); its log is spark\.log"
    with pytest.raises(SparkUnavailable, match=says), starting(LOG):
        raise error


def test_ctrl_c_stays_ours() -> None:
    before = signal.getsignal(signal.SIGINT)

    def make() -> int:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return 7

    def fail() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyError

    assert without_handler(make) == 7
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyError):
        without_handler(fail)
    assert signal.getsignal(signal.SIGINT) is before


def test_what_is_started_meanwhile_writes_to_a_log_of_this_user_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "spark.log"
    log.write_text("before\n")
    log.chmod(0o600)
    with pytest.raises(KeyError), context._console(log):
        subprocess.run(["sh", "-c", "echo out; echo err >&2"], check=True)
        raise KeyError
    os.write(1, b"ours\n")
    os.write(2, b"ours too\n")
    assert log.read_text() == "before\nout\nerr\n"
    assert capfd.readouterr() == ("ours\n", "ours too\n")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_what_spark_submit_was_given_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    class Conf:
        """In the place of a SparkConf, which needs a JVM: what spark-submit was given."""

        def __init__(self, loadDefaults: bool = True) -> None:  # noqa: N803 - Spark's name
            self.given = {"spark.master": "yarn"} if loadDefaults else {}

        def setAll(self, pairs: list[tuple[str, str]]) -> Conf:  # noqa: N802 - same
            self.given |= dict(pairs)
            return self

        def setIfMissing(self, name: str, value: str) -> None:  # noqa: N802 - same
            self.given.setdefault(name, value)

    asked: list[str] = []
    monkeypatch.setattr(pyspark, "SparkConf", Conf)
    monkeypatch.setattr(pyspark.SparkContext, "getSystemProperty", asked.append)
    ours = {"spark.master": "local[2]", "spark.app.name": "monitor"}
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert context._conf(ours).given == ours  # type: ignore[attr-defined] # of the class above
    assert asked == []
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert context._conf(ours).given == ours | {"spark.master": "yarn"}  # type: ignore[attr-defined] # same
    assert asked == ["spark.master"]
