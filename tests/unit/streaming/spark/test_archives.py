"""The archive of Python code for executors, and the archive of the JVM's classes."""

import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from assignors.errors import BadInput, OutsideFailure
from streaming.spark import archives
from streaming.spark.session import SessionOptions
from streaming.spark.start import StreamOptions

#: Prints a worker's imports, the location of the monitor's code, and whether assignors are native.
WORKER = """
import pandas, pyspark.testing.utils, streaming.spark.daemon, streaming.spark.operator
from assignors.registry import find
from pyspark import __version__
ranges = find("classic", "range")
print(streaming.__file__, ranges.assign is not ranges.python, __version__)
"""


def test_archive_has_runtime_code_without_tests_or_headers() -> None:
    names = {name for name, path in archives._python_files() if path.is_file()}
    packages = {Path(name).parts[0] for name in names}
    assert {"assignors", "streaming", "msgspec", "numpy", "pandas", "pyarrow", "dateutil"} <= packages
    assert ("rebalance_kernel" in packages) == (find_spec("rebalance_kernel") is not None)
    assert {"streaming/spark/operator.py", "streaming/spark/daemon.py"} <= names
    assert not [name for name in names if "/tests/" in name or name.endswith((".h", ".a")) or ".." in name]


@pytest.mark.full  # the cluster test in the default suite also runs a worker
@pytest.mark.parametrize("native_module", [True, False], ids=["native", "python"])
def test_a_bare_python_imports_the_operator_from_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native_module: bool
) -> None:
    if not native_module:
        others = [name for name in archives._DISTRIBUTIONS if name != "rebalance-kernel"]
        monkeypatch.setattr(archives, "_DISTRIBUTIONS", others)
    file = tmp_path / "monitor.tar.gz"
    count = archives.write_python(file)
    with tarfile.open(file) as packed:
        assert len(packed.getnames()) == count
        packed.extractall(tmp_path / archives.UNPACKED_FOLDER, filter="data")
    spec = find_spec("pyspark")
    assert spec is not None
    (place,) = spec.submodule_search_locations or ()
    zip_files = [str(file) for file in Path(place, "python/lib").glob("*.zip")]  # an executor has PySpark as zip files
    done = subprocess.run(
        [sys.executable, "-S", "-c", WORKER],
        env={"PYTHONPATH": ":".join([*zip_files, archives.UNPACKED_FOLDER])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    file_name, native, release = done.stdout.split()
    assert file_name.endswith(f"{archives.UNPACKED_FOLDER}/streaming/__init__.py")
    assert (native == "True") == (native_module and find_spec("rebalance_kernel") is not None)
    assert release.startswith("4.")


def test_archive_is_written_atomically(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"--output .*monitor.zip: the name must end in .tar.gz"):
        archives.write_python(tmp_path / "monitor.zip")
    with pytest.raises(OutsideFailure, match=r"--output .*No such file or directory"):
        archives.write_python(tmp_path / "nowhere" / "monitor.tar.gz")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_archive_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tarfile.TarFile, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        archives.write_python(tmp_path / "monitor.tar.gz")
    assert list(tmp_path.iterdir()) == []


def test_missing_archive_or_archive_for_local_mode_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "monitor.tar.gz"
    with pytest.raises(BadInput, match="no such file; `stream archive --output"):
        StreamOptions("c", session=SessionOptions(master="spark://m:7077", archive=file))
    with tarfile.open(file, "w:gz"):
        pass
    with pytest.raises(BadInput, match=r"only for executors of a cluster, not for --master local\[2,4\]"):
        StreamOptions("c", session=SessionOptions(archive=file))
    StreamOptions("c", session=SessionOptions(master="spark://m:7077", archive=file))


def test_archive_name_that_spark_cannot_unpack_is_refused(tmp_path: Path) -> None:
    def refusal(name: str) -> str:
        with pytest.raises(BadInput) as refused:
            StreamOptions("c", session=SessionOptions(master="spark://m:7077", archive=tmp_path / name))
        return str(refused.value).removeprefix(f"--archive {tmp_path}/")

    assert refusal("monitor.zip").startswith("monitor.zip: the name must end in .tar.gz")
    for letter in " ,#%":
        assert refusal(f"a{letter}.tar.gz") == f"a{letter}.tar.gz: Spark does not accept {letter!r} in the path"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a Spark home with one jar, a Java executable, and an empty cache."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark.jar").touch()
    (tmp_path / "java").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setenv("REBALANCE_MONITOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(archives, "java", lambda: (tmp_path / "java", 17))
    return tmp_path


def test_java_pyspark_and_connector_decide_the_class_archive(home: Path) -> None:
    connector = [home / "java"]
    first = archives.class_archive(connector)
    assert first == archives.class_archive(connector)
    (home / "jars" / "spark.jar").write_text("another")
    assert len({first, archives.class_archive(connector), archives.class_archive([])}) == 3


def test_existing_class_archive_is_in_the_java_options(home: Path) -> None:
    assert archives.java_options([]) == ""
    archives.class_archive([]).touch()
    assert archives.java_options([]).startswith(f"-XX:SharedArchiveFile={archives.class_archive([])} ")


def test_without_a_cache_there_is_no_class_archive(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").touch()
    monkeypatch.setenv("REBALANCE_MONITOR_CACHE", str(home / "file"))
    assert archives.java_options([]) == ""
