"""Which of Spark's state stores keeps the groups, and the files of a checkpoint that tell how large it is.

``memory`` is Spark's HDFS-backed store: a task's state in a map on the JVM's heap, and on disk what each batch
changed (``N.delta``) with the whole state now and then (``N.snapshot``). ``rocksdb`` keeps it in files of its own
on the executor's disk. Its checkpoint gets what each batch changed (``N.changelog``) and, now and then, new files
(``SSTs/….sst``) with a list of all (``N.zip``).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

StateStore = Literal["memory", "rocksdb"]
#: A new checkpoint's, unless configured.
DEFAULT: Final = "memory"
#: Spark's property that names one; Spark notes it with every batch, and goes by what it has noted.
PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
_PACKAGE: Final = "org.apache.spark.sql.execution.streaming.state"
_PROVIDERS: Final[dict[StateStore, str]] = {
    "memory": f"{_PACKAGE}.HDFSBackedStateStoreProvider",
    "rocksdb": f"{_PACKAGE}.RocksDBStateStoreProvider",
}
#: Spark's numbers of batches and tasks: Java's ``long`` at most.
_NUMBER: Final = re.compile(r"[0-9]{1,19}")


def properties(store: StateStore | None) -> dict[str, str]:
    """Return Spark's properties; of None those that hold whatever the checkpoint has."""
    return {
        **({} if store is None else {PROVIDER: provider(store)}),
        # RocksDB would write its files with every batch; so they follow in the background.
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }


def provider(store: StateStore) -> str:
    """Return Spark's class."""
    return _PROVIDERS[store]


def of(checkpoint: Path) -> StateStore:
    """Return the store that has written a checkpoint's state, by the names of its files."""
    written = {file.suffix for task in tasks(checkpoint) for file in task.iterdir()}
    return "rocksdb" if {".zip", ".changelog"} & written else "memory"


def tasks(checkpoint: Path) -> list[Path]:
    """Return the folder of each task's state."""
    folder = checkpoint / "state" / "0"
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [place for place in found if _NUMBER.fullmatch(place.name) and place.is_dir()]


def numbers(folder: Path) -> list[int]:
    """Return the batches in ``offsets`` or ``commits``, ascending."""
    names = [file.name for file in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(name) for name in names if _NUMBER.fullmatch(name))


def last(folder: Path) -> int | None:
    """Return the newest batch in ``offsets`` or ``commits``; None when there is none."""
    return max(numbers(folder), default=None)


def size(checkpoint: Path) -> int:
    """Return about how many bytes the state has on disk: of each task its largest file, or RocksDB's files."""
    total = 0
    for task in tasks(checkpoint):
        files = [file.stat().st_size for file in task.iterdir() if file.is_file()]
        tables = sum(file.stat().st_size for file in task.glob("SSTs/*.sst"))
        total += max([tables, *files])
    return total
