"""Provides file systems that can be filled, made read-only or slowed down, and functions that damage files."""

import shutil
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def small_disk(folder: Path, megabytes: int = 16) -> Iterator[Path | None]:
    """Mount a small file system that a test can fill; yield None if this user may not mount."""
    folder.mkdir()
    with _mounted_folder(folder, "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs") as disk:
        yield disk


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """Keep the disk full, without a free block, while the block runs."""
    fill_file = disk / "ballast"
    try:
        with suppress(OSError), fill_file.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        assert shutil.disk_usage(disk).free < 4096
        yield
    finally:
        fill_file.unlink()


@contextmanager
def block_disk(folder: Path, megabytes: int) -> Iterator[Path | None]:
    """Mount an ext4 file system that can fail as a real disk does; yield None if this user may not mount."""
    folder.mkdir()
    image = folder.with_name(f"{folder.name}.img")
    with image.open("wb") as file:
        file.truncate(megabytes * 2**20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-b", "4096", str(image)], check=True)
    with _mounted_folder(folder, *_loop_options(folder)) as disk:
        yield disk


@contextmanager
def read_only(disk: Path) -> Iterator[None]:
    """Keep a disk read-only during the block, as ext4 does when its device fails."""
    subprocess.run(["sync", "--file-system", str(disk)], check=True)
    subprocess.run(["mount", "-o", "remount,abort", str(disk)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(disk)], check=True)
        subprocess.run(["mount", *_loop_options(disk), str(disk)], check=True)


def _loop_options(folder: Path) -> tuple[str, ...]:
    """Return the ``mount`` options for the image file of :func:`block_disk`."""
    return ("-o", "loop", str(folder.with_name(f"{folder.name}.img")))


@contextmanager
def _mounted_folder(folder: Path, *options: str) -> Iterator[Path | None]:
    if subprocess.run(["mount", *options, str(folder)], capture_output=True, check=False).returncode:
        warnings.warn("no permission to mount file systems: disk faults are not tested", stacklevel=3)
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def folder_bytes(folder: Path, pattern: str = "*") -> int:
    """Return the bytes of all files below a folder; a file that is deleted during the count has 0 bytes."""
    total = 0
    for path in folder.rglob(pattern):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total
