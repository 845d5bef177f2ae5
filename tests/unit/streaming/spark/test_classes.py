"""Where the archive of Spark's classes is, and when it is used."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from streaming.spark import classes
from streaming.spark.classes import ClassesNotKept


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark with one jar and a Java, and an empty cache."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark.jar").touch()
    (tmp_path / "java").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setenv("REBALANCE_MONITOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(classes, "java", lambda: (tmp_path / "java", 17))
    return tmp_path


def test_each_java_and_pyspark_has_its_own_archive(home: Path) -> None:
    first = classes.place()
    assert first == classes.place()
    (home / "jars" / "spark.jar").write_text("another")
    assert classes.place() != first


def test_the_archive_is_used_once_it_is_there(home: Path) -> None:
    assert classes.java_options() == ""
    classes.place().touch()
    assert classes.java_options().startswith(f"-XX:SharedArchiveFile={classes.place()} ")


def test_a_cache_that_can_not_be_made_is_done_without(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").touch()
    monkeypatch.setenv("REBALANCE_MONITOR_CACHE", str(home / "file"))
    assert classes.java_options() == ""


def written(command: list[object], **_: object) -> SimpleNamespace:
    """In place of spark-submit: writes the archive that its JVM is asked for."""
    (option,) = (part for part in str(command[2]).split() if "ArchiveClassesAtExit" in part)
    Path(option.partition("=")[2]).write_text("classes")
    return SimpleNamespace(returncode=0, stderr="")


def test_it_is_made_once_and_old_ones_go(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", written)
    for number in range(classes.KEPT):
        (classes.place().parent / f"old-{number}.jsa").touch()
    found = classes.make(None)
    assert found.read_text() == "classes"
    monkeypatch.delattr(subprocess, "run")
    assert classes.make(None) == found
    assert len(list(found.parent.glob("*.jsa"))) == classes.KEPT


def test_what_keeps_it_from_being_made_is_reported(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = SimpleNamespace(returncode=1, stderr="first\nno memory\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(ClassesNotKept, match="its starts take longer: no memory"):
        classes.make(None)
    assert not classes.place().exists()
