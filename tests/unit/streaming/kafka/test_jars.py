from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streaming.kafka import jars
from streaming.kafka.jars import Coordinate, InvalidCoordinate, JarsMissing, fetch
from streaming.kafka.java import NoJava, java

if TYPE_CHECKING:
    from pathlib import Path

WANTED = ["org.apache.kafka:kafka_2.13:9.9.9"]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REBALANCE_MONITOR_CACHE", str(tmp_path / "cache"))


def fill(folder: Path, *names: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"")
    return sorted(folder.glob("*.jar"))


def test_coordinates() -> None:
    assert Coordinate.parse("a.b:c-d_2.13:1.0:test") == Coordinate("a.b", "c-d_2.13", "1.0", "test")
    assert Coordinate.parse("a:b:1").file == "b-1.jar"
    assert Coordinate.parse("a:b:1:test").file == "b-1-test.jar"


@pytest.mark.parametrize("text", ["", "a:b", "a:b:1:c:d", 'a:b:1"/><x'])
def test_what_is_no_coordinate(text: str) -> None:
    with pytest.raises(InvalidCoordinate, match="group:artifact:version"):
        fetch([text])


@pytest.mark.parametrize("inside", [".", "kafka_2.13-9.9.9"])
def test_a_folder_for_hosts_without_a_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    found = fill(tmp_path / "jars" / inside, "kafka_2.13-9.9.9.jar", "other-1.jar")
    fill(tmp_path / "jars/another-set", "kafka-clients-3.jar")
    monkeypatch.setenv("KAFKA_JARS", str(tmp_path / "jars"))

    assert [path.resolve() for path in fetch(WANTED)] == [path.resolve() for path in found]


def test_a_folder_without_the_jar_is_named_with_the_jar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_JARS", str(tmp_path))

    with pytest.raises(JarsMissing, match=rf"KAFKA_JARS={tmp_path}: kafka_2.13-9.9.9.jar not there"):
        fetch(WANTED)


def test_a_finished_set_is_found_again_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(_wanted: object, done: Path, **_: object) -> None:
        fill(done, "b.jar", "a.jar")

    monkeypatch.setattr(jars, "_download", download)
    first = fetch(WANTED)
    monkeypatch.setattr(jars, "_download", None)

    assert fetch(WANTED) == first
    assert [path.name for path in first] == ["a.jar", "b.jar"]
    assert first[0].is_relative_to(tmp_path / "cache")


@pytest.fixture
def _fresh_java() -> object:
    java.cache_clear()
    yield
    java.cache_clear()


def fake_java(folder: Path, said: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "java"
    script.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    script.chmod(0o755)
    return script


@pytest.mark.usefixtures("_fresh_java")
def test_no_java_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(NoJava, match="No Java 17 or newer: install one"):
        fetch(WANTED)


@pytest.mark.usefixtures("_fresh_java")
def test_an_old_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "bin", 'openjdk version "11.0.2" 2019-01-15')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(NoJava, match=r"11\.0\.2.*Java 17 or newer is needed"):
        java()


@pytest.mark.usefixtures("_fresh_java")
def test_java_home_goes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = fake_java(tmp_path / "bin", 'openjdk version "21.0.1" 2023-10-17')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert java() == (script, 21)
    java.cache_clear()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(NoJava, match=r"JAVA_HOME=.*nowhere: no bin/java in it"):
        java()
