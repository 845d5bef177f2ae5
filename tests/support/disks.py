"""File systems that can be filled, made read-only and slowed down, and files that are damaged."""

from __future__ import annotations

import shutil
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def small_disk(folder: Path, megabytes: int = 16) -> Iterator[Path | None]:
    """A file system that can be filled; None where this user may not mount one."""
    folder.mkdir()
    with _mounted(folder, "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs") as disk:
        yield disk


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """No block is left on the disk."""
    ballast = disk / "ballast"
    try:
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        assert shutil.disk_usage(disk).free < 4096
        yield
    finally:
        ballast.unlink()


@contextmanager
def block_disk(folder: Path, megabytes: int) -> Iterator[Path | None]:
    """A file system (ext4) that can fail as a real one does; None where this user may not mount one."""
    folder.mkdir()
    image = folder.with_name(f"{folder.name}.img")
    with image.open("wb") as file:
        file.truncate(megabytes * 2**20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-b", "4096", str(image)], check=True)
    with _mounted(folder, *_looped(folder)) as disk:
        yield disk


@contextmanager
def read_only(disk: Path) -> Iterator[None]:
    """Remount read-only, as ext4 does when its block device fails. At the end nobody may use it."""
    subprocess.run(["sync", "--file-system", str(disk)], check=True)
    subprocess.run(["mount", "-o", "remount,abort", str(disk)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(disk)], check=True)
        subprocess.run(["mount", *_looped(disk), str(disk)], check=True)


def _looped(folder: Path) -> tuple[str, ...]:
    """Return the ``mount`` options for the image of :func:`block_disk`."""
    return ("-o", "loop", str(folder.with_name(f"{folder.name}.img")))


@contextmanager
def _mounted(folder: Path, *what: str) -> Iterator[Path | None]:
    if subprocess.run(["mount", *what, str(folder)], capture_output=True, check=False).returncode:
        warnings.warn("no file system may be mounted here: what disks do is left out", stacklevel=3)
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
