"""Golden files of what pure parts answered to random questions: sections of lines, compressed."""

from __future__ import annotations

import lzma
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

_TITLE = "# "


@cache
def recorded(path: Path) -> dict[str, list[str]]:
    """The lines under each title."""
    found: dict[str, list[str]] = {}
    for line in lzma.decompress(path.read_bytes()).decode().splitlines():
        if line.startswith(_TITLE):
            found[line.removeprefix(_TITLE)] = lines = []
        else:
            lines.append(line)
    return found


def record(path: Path, sections: Mapping[str, Callable[[], Iterable[str]]]) -> None:
    """Write them anew."""
    text = "".join(
        f"{_TITLE}{title}\n" + "".join(f"{line}\n" for line in made()) for title, made in sections.items()
    )
    path.write_bytes(lzma.compress(text.encode(), preset=9))
