"""Which of Spark's state stores keeps the groups: what Spark is told, and which of its files a start reads.

``memory`` is Spark's HDFS-backed store: a task's state in a map on the JVM's heap, and on disk what each batch
changed (``N.delta``) with the whole now and then (``N.snapshot``). ``rocksdb`` has it in files of its own on the
executor's disk; the checkpoint gets what each batch changed (``N.changelog``), and now and then what is new of
those files (``SSTs/….sst``), with a list of all (``metadata`` in ``N.zip``).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Annotated, Final, Literal
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import msgspec

from streaming.wire.codec import UNREADABLE

StateStore = Literal["memory", "rocksdb"]
#: A new checkpoint's, when nobody says.
DEFAULT: Final = "memory"
#: Spark's property that names one; Spark notes it with every batch, and goes by what it has noted.
PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
_PACKAGE: Final = "org.apache.spark.sql.execution.streaming.state"
_PROVIDERS: Final[dict[StateStore, str]] = {
    "memory": f"{_PACKAGE}.HDFSBackedStateStoreProvider",
    "rocksdb": f"{_PACKAGE}.RocksDBStateStoreProvider",
}
#: How each names the whole state of a version, and what one changed.
_ENDINGS: Final[dict[StateStore, tuple[str, str]]] = {
    "memory": (".snapshot", ".delta"),
    "rocksdb": (".zip", ".changelog"),
}
#: What Spark numbers: batches and tasks, which are Java's ``long`` at most.
_NUMBER: Final = re.compile(r"[0-9]{1,19}")
#: The list of RocksDB's files, and what else is in the archive, have some kilobytes.
_MOST_LISTED: Final = 2**26
#: What Python raises for an archive that is cut, garbled, or lacks the list.
_NO_ZIP: Final = (BadZipFile, zlib.error, KeyError, ValueError, EOFError, NotImplementedError)


class _Table(msgspec.Struct, rename="camel"):
    dfs_sst_file_name: Annotated[str, msgspec.Meta(pattern=r"^[\w.-]+\.sst$")]
    size_bytes: Annotated[int, msgspec.Meta(ge=0)]


class _Listed(msgspec.Struct, rename="camel"):
    sst_files: list[_Table]


def properties(store: StateStore | None) -> dict[str, str]:
    """Spark's properties; of None those that hold whatever the checkpoint has."""
    return {
        **({} if store is None else {PROVIDER: provider(store)}),
        # RocksDB would write its files with every batch; so they follow in the background.
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }


def provider(store: StateStore) -> str:
    """Spark's class."""
    return _PROVIDERS[store]


def of(checkpoint: Path) -> StateStore:
    """Which one has written a checkpoint's state, by the names of its files."""
    written = {file.suffix for task in tasks(checkpoint) for file in task.iterdir()}
    return "rocksdb" if written.intersection(_ENDINGS["rocksdb"]) else "memory"


def tasks(checkpoint: Path) -> list[Path]:
    """The folder of each task's state."""
    folder = checkpoint / "state" / "0"
    return [one for one in sorted(folder.iterdir()) if _NUMBER.fullmatch(one.name)] if folder.is_dir() else []


def files(checkpoint: Path, version: int) -> Iterator[Path]:
    """The files that a start from this version reads, each task's in the order in which it reads them."""
    whole, change = _ENDINGS[of(checkpoint)]
    for task in tasks(checkpoint):
        first = max((number for number in numbers(task, whole) if number <= version), default=0)
        if first:
            snapshot = task / f"{first}{whole}"
            yield snapshot
            yield from tables(snapshot) or ()
        yield from (task / f"{number}{change}" for number in range(first + 1, version + 1))


def numbers(folder: Path, suffix: str = "") -> list[int]:
    """The numbers that files are named by, ascending."""
    names = [one.name for one in folder.iterdir()] if folder.exists() else []
    found = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return sorted(int(number) for number in found if _NUMBER.fullmatch(number))


def tables(snapshot: Path) -> dict[Path, int] | None:
    """The files of RocksDB's that its snapshot lists, with their sizes; None when it can't be read.

    None are listed by a snapshot of the other store, and by one that is not there.
    """
    if snapshot.suffix != ".zip" or not snapshot.exists():
        return {}
    content = BytesIO(snapshot.read_bytes())  # a garbled offset is no error of the disk's
    try:
        with ZipFile(content) as archive:
            if not all(_readable(one) for one in archive.infolist()) or archive.testzip() is not None:
                return None
            _version, listed = archive.read("metadata").split(b"\n", 1)
        found = msgspec.json.decode(listed, type=_Listed).sst_files
    except (*UNREADABLE, *_NO_ZIP):
        return None
    return {snapshot.parent / "SSTs" / table.dfs_sst_file_name: table.size_bytes for table in found}


def _readable(entry: ZipInfo) -> bool:
    """Whether Java may have written it."""
    packed = entry.compress_type in (ZIP_STORED, ZIP_DEFLATED) and not entry.flag_bits & 1
    return packed and entry.file_size <= _MOST_LISTED


def sizes(read: Iterable[Path]) -> dict[Path, int]:
    """About how many bytes each task's state has, by its folder.

    A snapshot's, or the largest change's while there is none; RocksDB's snapshot is the files that it lists.
    """
    largest: dict[Path, int] = {}
    listed: dict[Path, int] = {}
    for file in read:
        size = file.stat().st_size
        if file.suffix == ".sst":
            task = file.parents[1]
            listed[task] = listed.get(task, 0) + size
        else:
            largest[file.parent] = max(largest.get(file.parent, 0), size)
    return {task: max(size, listed.get(task, 0)) for task, size in largest.items()}
