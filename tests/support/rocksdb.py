"""A snapshot as Spark leaves one of RocksDB's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile


def snapshot(task: Path, version: int, tables: Mapping[str, bytes]) -> Path:
    """Write it into a task's folder: the archive, and the tables that it lists."""
    (task / "SSTs").mkdir(exist_ok=True)
    for name, content in tables.items():
        (task / "SSTs" / name).write_bytes(content)
    listed = [
        {"localFileName": f"{name.partition('-')[0]}.sst", "dfsSstFileName": name, "sizeBytes": len(content)}
        for name, content in tables.items()
    ]
    file = task / f"{version}.zip"
    with ZipFile(file, "w", ZIP_DEFLATED) as archive:
        archive.writestr("MANIFEST-000008", "of RocksDB " * 20)
        archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": listed, "logFiles": [], "numKeys": 3}))
    return file
