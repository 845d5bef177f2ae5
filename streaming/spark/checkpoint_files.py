"""The files that Spark keeps in a checkpoint folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from streaming.records.codec import UNREADABLE
from streaming.spark import failures

SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
#: Its value: Java's ``int``.
_Partitions = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
#: Spark's numbers of batches and tasks: Java's ``long`` at most.
_NUMBER: Final = re.compile(r"[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class OffsetsFile:
    """A batch's file in ``offsets``.

    ``metadata``: what Spark noted, its properties under ``conf``. ``sources``: where the batch ends in each source, a
    line of JSON each, ``-`` for none. ``shuffle_partitions``: tasks of the stateful stage.
    """

    version: bytes
    metadata: dict[str, Any]
    sources: list[bytes]
    shuffle_partitions: int

    @classmethod
    def read(cls, checkpoint: Path, batch: int) -> OffsetsFile:
        """Read the file of a batch."""
        file = checkpoint / "offsets" / str(batch)
        try:
            version, line, *sources = file.read_bytes().splitlines()
            metadata = msgspec.json.decode(line, type=dict[str, Any])
            partitions = msgspec.convert(metadata["conf"][SHUFFLE_PARTITIONS], _Partitions, strict=False)
        except (*UNREADABLE, OSError, ValueError, KeyError, TypeError) as error:
            raise failures.damaged(str(checkpoint), f"{file} is damaged") from error
        return cls(version, metadata, sources, partitions)

    @classmethod
    def newest(cls, checkpoint: Path) -> OffsetsFile | None:
        """Read the newest batch's file; None before the first batch."""
        batch = last_batch(checkpoint / "offsets")
        return None if batch is None else cls.read(checkpoint, batch)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Return where the batch ends, by partition of a topic."""
        for line in self.sources:
            ends = {} if line == b"-" else msgspec.json.decode(line, type=dict[str, dict[int, int]])
            if topic in ends:
                return ends[topic]
        return {}


def last_batch(folder: Path) -> int | None:
    """Return the newest batch in ``offsets`` or ``commits``; None without one."""
    names = [file.name for file in folder.iterdir()] if folder.is_dir() else []
    return max((int(name) for name in names if _NUMBER.fullmatch(name)), default=None)


def state_bytes(checkpoint: Path) -> int:
    """Return about how many bytes the state has on disk: of each task its largest file."""
    tasks = [path for path in (checkpoint / "state" / "0").glob("*/") if _NUMBER.fullmatch(path.name) and path.is_dir()]
    return sum(max((file.stat().st_size for file in task.iterdir() if file.is_file()), default=0) for task in tasks)
