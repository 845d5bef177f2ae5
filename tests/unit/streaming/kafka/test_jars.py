import io
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from assignors.errors import OutsideFailure
from streaming.kafka import jars
from streaming.kafka.jars import DownloadFailed, NoJava, fetch, java

JARS_TO_FETCH = ["org.apache.kafka:kafka_2.13:9.9.9"]


@pytest.fixture(autouse=True)
def _separate_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REBALANCE_MONITOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(jars.JARS_VARIABLE, raising=False)


def create_files(folder: Path, *names: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"")
    return sorted(folder.glob("*.jar"))


@pytest.mark.parametrize("inside", [".", "kafka_2.13-9.9.9"])
def test_jars_are_read_from_folder_in_kafka_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str) -> None:
    files = create_files(tmp_path / "jars" / inside, "kafka_2.13-9.9.9.jar", "other-1.jar")
    create_files(tmp_path / "jars/another-set", "kafka-clients-3.jar")
    monkeypatch.setenv("KAFKA_JARS", str(tmp_path / "jars"))
    assert [path.resolve() for path in fetch(JARS_TO_FETCH)] == [path.resolve() for path in files]


def test_kafka_jars_folder_without_the_jar_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_JARS", str(tmp_path))
    with pytest.raises(OutsideFailure, match=rf"KAFKA_JARS={tmp_path}: neither the folder nor a subfolder"):
        fetch(JARS_TO_FETCH)


@pytest.fixture(autouse=True)
def _remove_cached_java() -> object:
    java.cache_clear()
    yield
    java.cache_clear()


def fake_java(folder: Path, version: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "java"
    script.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    script.chmod(0o755)
    return script


def java_home(home: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> Path:
    monkeypatch.setenv("JAVA_HOME", str(home))
    return fake_java(home / "bin", version)


def test_missing_java_error_names_the_version_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoJava, match="Java 17 or newer is missing: install it"):
        fetch(JARS_TO_FETCH)


def test_java_home_precedes_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = java_home(tmp_path, monkeypatch, 'openjdk version "21.0.1" 2023-10-17')
    assert java() == (script, 21)
    java.cache_clear()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(NoJava, match=r"JAVA_HOME=.*nowhere: no bin/java in it"):
        java()


def test_java_that_does_not_start_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = java_home(tmp_path, monkeypatch, "")
    for content in ("#!/bin/sh\nexit 1\n", "#!/no/such/interpreter\n"):
        script.write_text(content)
        with pytest.raises(NoJava, match=r"bin/java does not start \(.*\): install Java 17 or newer"):
            java()


@pytest.mark.parametrize(("version", "major"), [('"17"', 17), ('"17.0.9"', 17), ('"16.0.2"', 0), ("nonsense", 0)])
def test_java_before_17_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, major: int) -> None:
    script = java_home(tmp_path, monkeypatch, f"openjdk version {version}")
    if major:
        assert java() == (script, major)
    else:
        with pytest.raises(NoJava, match="Java 17 or newer is needed; install one or set JAVA_HOME"):
            java()


class Ivy:
    """A fake ``java`` (a shell script) that answers as Ivy does and records its arguments."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.progress = folder, list[str]()
        self.write_script('for name in kafka_2.13-9.9.9 dependency-1; do : >"$lib/$name.jar"; done')

    def write_script(self, script: str) -> None:
        java_file = fake_java(self._folder / "bin", "")
        java_file.write_text(
            "#!/bin/sh\n"
            'if [ "$1" = -version ]; then echo \'openjdk version "21.0.1"\' >&2; exit; fi\n'
            f'printf "%s\\n" "$@" >"{self._folder}/arguments"\n'
            "while [ $# -gt 0 ]; do case $1 in\n"
            '-retrieve) lib=$(dirname "$2");; -settings) settings=$2;; -ivy) module=$2;; esac; shift; done\n'
            f'cp "$settings" "$module" "{self._folder}"; mkdir -p "$lib"\n{script}\n'
        )

    def fetch(self, *coordinates: str, transitive: bool = True) -> list[str]:
        paths = fetch(coordinates or JARS_TO_FETCH, transitive=transitive)
        return [path.name for path in paths]

    def read(self, name: str) -> str:
        return (self._folder / name).read_text()


@pytest.fixture
def ivy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ivy:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.delenv("DEFAULT_ARTIFACT_REPOSITORY", raising=False)
    monkeypatch.setattr(jars, "_ivy", lambda: tmp_path / "ivy.jar")
    ivy = Ivy(tmp_path / "jdk")
    monkeypatch.setattr(jars, "print_progress", ivy.progress.append)
    return ivy


def test_jars_are_fetched_once_with_dependencies_and_progress(
    ivy: Ivy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ivy.write_script(
        "echo 'found org.apache.kafka#kafka;9 in r'; echo '  found b#c;1 in r'; echo 'something else'\n"
        "echo 'downloading https://r/kafka_2.13-9.9.9.jar ...'\n"
        ': >"$lib/kafka_2.13-9.9.9.jar"; : >"$lib/dependency-1.jar"'
    )
    assert ivy.fetch() == ["dependency-1.jar", "kafka_2.13-9.9.9.jar"]
    assert ivy.progress == [
        f"fetching kafka_2.13 9.9.9 (once, into {tmp_path / 'cache/jars'})",
        "resolving kafka_2.13 9.9.9: 1 modules",
        "resolving kafka_2.13 9.9.9: 2 modules",
        "downloading kafka_2.13-9.9.9.jar",
        "",
    ]
    ivy.progress.clear()
    monkeypatch.setattr(jars, "_download", None)
    assert (ivy.fetch(), ivy.progress) == (["dependency-1.jar", "kafka_2.13-9.9.9.jar"], [])
    assert [path.name for path in (tmp_path / "cache/jars").iterdir() if path.is_dir()] != []
    assert not list((tmp_path / "cache/jars").glob(".fetch-*"))


def dependencies(ivy: Ivy) -> list[dict[str, str]]:
    return [dict(dependency.attrib) for dependency in ET.fromstring(ivy.read("ivy.xml")).iter("dependency")]  # noqa: S314 - own file


def test_configured_repository_is_used(ivy: Ivy, monkeypatch: pytest.MonkeyPatch) -> None:
    ivy.write_script(': >"$lib/b-1.jar"; : >"$lib/d-2.jar"')
    ivy.fetch("a:b:1", "c:d:2")
    usual = {"conf": "default->default", "transitive": "true"}
    assert dependencies(ivy) == [
        {"org": "a", "name": "b", "rev": "1", **usual},
        {"org": "c", "name": "d", "rev": "2", **usual},
    ]
    assert "root=" not in ivy.read("settings.xml")
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "https://mirror/?a&b")
    ivy.fetch("a:b:1", "c:d:2", transitive=False)  # another set of jars
    assert [dependency["transitive"] for dependency in dependencies(ivy)] == ["false", "false"]
    (resolver,) = ET.fromstring(ivy.read("settings.xml")).iter("ibiblio")  # noqa: S314 - own file
    assert resolver.attrib["root"] == "https://mirror/?a&b"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo '== a:b not found =='; echo 'java.io.IOException: no'; exit 1", "java.io.IOException: no"),
        ("echo ':: a:b: NOT FOUND ::'; echo 'unresolved dependency'; exit 1", "a:b: NOT FOUND"),
        ("exit 3", "Ivy ended with 3"),
    ],
)
def test_failed_download_is_reported_and_tried_again(ivy: Ivy, script: str, reason: str) -> None:
    ivy.write_script(script)
    with pytest.raises(DownloadFailed) as failed:
        ivy.fetch()
    assert str(failed.value) == (
        f"fetching kafka_2.13 9.9.9 failed ({reason}); finished downloads are kept, and the next attempt continues "
        "from there; or set DEFAULT_ARTIFACT_REPOSITORY to a mirror, KAFKA_JARS to a folder"
    )
    assert ivy.progress[-1] == ""
    ivy.write_script(': >"$lib/kafka_2.13-9.9.9.jar"')
    assert ivy.fetch() == ["kafka_2.13-9.9.9.jar"]


def test_wrong_file_of_a_repository_is_reported(ivy: Ivy) -> None:
    ivy.write_script(': >"$lib/other-1.jar"')
    with pytest.raises(DownloadFailed, match=r"the repository has no kafka_2\.13-9\.9\.9\.jar"):
        ivy.fetch()


@pytest.mark.parametrize(
    ("terminal", "shown"), [(False, "fetching\\x1b[2J it\ndone\n"), (True, "\r\x1b[Kfetching\\\r\x1b[Kdone\r\x1b[K\r")]
)
def test_progress_is_one_line_on_a_terminal_else_many(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, shown: str
) -> None:
    written = io.StringIO()
    monkeypatch.setattr(written, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setenv("COLUMNS", "10")
    for message in ("fetching\x1b[2J it", "done", ""):
        jars.print_progress(message)
    assert written.getvalue() == shown
