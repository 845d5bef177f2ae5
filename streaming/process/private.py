"""Files that may hold a secret: for this user's eyes only, whatever the umask is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any

_FILE = 0o600
_FOLDER = 0o700


def open_private(path: Path, mode: str) -> IO[Any]:
    """Open a file that nobody else may read, nor one that stood there before."""
    file = open(path, mode, opener=lambda name, flags: os.open(name, flags, _FILE))  # noqa: SIM115 - who asked for it closes it
    os.fchmod(file.fileno(), _FILE)
    return file


def make_private(folder: Path) -> None:
    """Make a folder that nobody else may look into; one that is there stays as it is."""
    folder.mkdir(_FOLDER, parents=True, exist_ok=True)
