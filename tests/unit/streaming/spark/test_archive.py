"""What a cluster's executors are given: enough to import the job's operator with PySpark alone beside it."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from streaming.spark import archive
from streaming.spark.archive import ArchiveNotWritten, NoArchive
from streaming.spark.options import StreamOptions
from streaming.spark.session import SessionOptions

#: What a worker imports; where it found our code; whether the bytes of rounds are native there.
WORKER = """
import pandas, pyspark.testing.utils, streaming.spark.daemon, streaming.spark.operator
from assignors.classic import native
from pyspark import __version__
print(streaming.__file__, native.client_shares.__module__.startswith("rebalance_kernel"), __version__)
"""


def test_it_holds_what_runs_and_nothing_that_only_builds_or_tests() -> None:
    names = {name for name, path in archive._contents() if path.is_file()}
    packages = {Path(name).parts[0] for name in names}
    assert {"assignors", "streaming", "msgspec", "numpy", "pandas", "pyarrow", "dateutil"} <= packages
    assert ("rebalance_kernel" in packages) == (find_spec("rebalance_kernel") is not None)
    assert {"streaming/spark/operator.py", "streaming/spark/daemon.py"} <= names
    assert not [name for name in names if "/tests/" in name or name.endswith((".h", ".a")) or ".." in name]


@pytest.mark.full  # the cluster's own test runs one, too
@pytest.mark.parametrize("kernel", [True, False], ids=["native", "python"])
def test_a_bare_python_with_spark_s_own_folder_runs_the_operator_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: bool
) -> None:
    if not kernel:
        others = [name for name in archive._OTHERS if name != "rebalance-kernel"]
        monkeypatch.setattr(archive, "_OTHERS", others)
    file = tmp_path / "monitor.tar.gz"
    count = archive.write(file)
    with tarfile.open(file) as packed:
        assert len(packed.getnames()) == count
        packed.extractall(tmp_path / archive.FOLDER, filter="data")
    spec = find_spec("pyspark")
    assert spec is not None
    (place,) = spec.submodule_search_locations or ()
    zips = [str(one) for one in Path(place, "python/lib").glob("*.zip")]  # as an executor has PySpark
    done = subprocess.run(
        [sys.executable, "-S", "-c", WORKER],
        env={"PYTHONPATH": ":".join([*zips, archive.FOLDER])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    file_name, native, release = done.stdout.split()
    assert file_name.endswith(f"{archive.FOLDER}/streaming/__init__.py")
    assert (native == "True") == (kernel and find_spec("rebalance_kernel") is not None)
    assert release.startswith("4.")


def test_it_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(NoArchive, match=r"--output .*monitor.zip: the name has to end in .tar.gz"):
        archive.write(tmp_path / "monitor.zip")
    with pytest.raises(ArchiveNotWritten, match=r"--output .*No such file or directory"):
        archive.write(tmp_path / "nowhere" / "monitor.tar.gz")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_one_that_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tarfile.TarFile, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        archive.write(tmp_path / "monitor.tar.gz")
    assert list(tmp_path.iterdir()) == []


def test_one_that_is_not_there_or_has_no_use_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "monitor.tar.gz"
    with pytest.raises(NoArchive, match="no such file; `stream archive --output"):
        StreamOptions("c", session=SessionOptions(master="spark://m:7077", archive=file))
    with tarfile.open(file, "w:gz"):
        pass
    with pytest.raises(NoArchive, match=r"for a cluster's executors, and --master is local\[2,4\]"):
        StreamOptions("c", session=SessionOptions(archive=file))
    StreamOptions("c", session=SessionOptions(master="spark://m:7077", archive=file))


def test_a_file_that_is_no_archive_is_refused_before_executors_see_it(tmp_path: Path) -> None:
    def refusal(name: str) -> str:
        with pytest.raises(NoArchive) as refused:
            StreamOptions("c", session=SessionOptions(master="spark://m:7077", archive=tmp_path / name))
        return str(refused.value).removeprefix(f"--archive {tmp_path}/")

    (tmp_path / "text.tar.gz").write_text("not compressed")
    (tmp_path / "monitor.zip").touch()
    (tmp_path / "folder.tar.gz").mkdir()
    assert refusal("text.tar.gz").startswith("text.tar.gz: is no archive; `stream archive --output")
    assert refusal("monitor.zip").startswith("monitor.zip: the name has to end in .tar.gz")
    assert refusal("folder.tar.gz") == "folder.tar.gz: Is a directory"
    for letter in " ,#%":
        assert refusal(f"a{letter}.tar.gz").startswith(f"a{letter}.tar.gz: its path has {letter!r} in it")
    assert refusal(f"{'a' * 300}.tar.gz").endswith(".tar.gz: File name too long")
