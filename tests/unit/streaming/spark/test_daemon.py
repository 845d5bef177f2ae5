"""Archives on the path of Spark's Python workers."""

from __future__ import annotations

import os
import sys
import zipfile
import zipimport
from pathlib import Path

import pytest

from streaming.spark.daemon import cache_zip_directories as install


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="CPython 3.13 reads archives lazily by itself")
def test_an_unchanged_archive_is_not_read_and_a_changed_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        zipimport.zipimporter, "invalidate_caches", zipimport.zipimporter.invalidate_caches
    )  # restores it afterwards
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("one.py", "")
    importer = zipimport.zipimporter(str(path))
    install()
    files = importer._files
    importer.invalidate_caches()
    assert importer._files is files
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("two.py", "")
    os.utime(path, (1, 1))
    importer.invalidate_caches()
    assert importer.find_spec("two") is not None
