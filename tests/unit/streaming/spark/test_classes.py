"""Where the archive of Spark's classes is, and when it is used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streaming.kafka.java import NoJava, java
from streaming.spark import classes


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark of one jar, a Java of our own and an empty cache."""
    (tmp_path / "spark/jars").mkdir(parents=True)
    (tmp_path / "spark/jars/spark-core.jar").write_bytes(b"one")
    (tmp_path / "java").write_bytes(b"17")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("REBALANCE_MONITOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(classes, "java", lambda: (tmp_path / "java", 17))
    return tmp_path


def test_another_jar_or_java_has_another_archive(home: Path) -> None:
    first = classes.place()
    assert first == classes.place()
    assert first.parent == home / "cache/classes"
    (home / "spark/jars/spark-sql.jar").write_bytes(b"two")
    second = classes.place()
    os.utime(home / "java", (1, 1))
    assert len({first, second, classes.place()}) == 3


def test_a_jvm_is_told_of_an_archive_that_is_there(home: Path) -> None:
    assert classes.java_options() == []
    classes.place().touch()
    assert classes.java_options()[0] == f"-XX:SharedArchiveFile={classes.place()}"
    assert classes.java_options(home / "new")[0] == f"-XX:ArchiveClassesAtExit={home}/new"


def test_spark_would_part_a_path_with_a_space(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REBALANCE_MONITOR_CACHE", str(home / "my cache"))
    classes.place().touch()
    assert classes.java_options() == []


def test_a_cache_that_can_t_be_written_keeps_no_stream_from_starting(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "file").touch()
    monkeypatch.setenv("REBALANCE_MONITOR_CACHE", str(home / "file"))
    assert classes.java_options() == []


def test_what_is_there_is_not_made_again(home: Path) -> None:
    classes.place().write_bytes(b"made")
    said: list[str] = []
    assert classes.make(said.append).read_bytes() == b"made"
    assert said == []


def test_an_archive_that_can_t_be_made_is_told_with_its_reason(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no Spark behind that jar: the process that should write the archive ends with an error."""
    monkeypatch.setattr(classes, "__name__", "streaming.no_such_module")
    said: list[str] = []
    with pytest.raises(
        classes.ClassesNotKept, match=r"take longer: .*No module named streaming\.no_such_module"
    ):
        classes.make(said.append)
    assert said == ["preparing Spark (once)", ""]
    assert [file.suffix for file in classes.place().parent.iterdir()] == [".lock"]


def test_only_the_newest_archives_stay(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(command: list[str], **_: object) -> None:
        Path(command[-1]).write_bytes(b"new")

    monkeypatch.setattr(classes.subprocess, "run", write)
    for number in range(classes.KEPT):
        old = classes.place().with_name(f"old-{number}.jsa")
        old.touch()
        os.utime(old, (number, number))
    made = classes.make(None)
    assert made.read_bytes() == b"new"
    kept = {file.name for file in made.parent.glob("*.jsa")}
    assert kept == {made.name, *(f"old-{number}.jsa" for number in range(1, classes.KEPT))}


def test_without_java_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    java.cache_clear()
    try:
        with pytest.raises(NoJava):
            classes.place()
    finally:
        java.cache_clear()
