"""An archive with the Python code that the executors of a cluster need, which Spark hands to them.

The file goes to ``spark.archives``: each executor unpacks it in its working directory and imports from there. It
holds this package, everything that a worker imports beyond PySpark, and the native module where it is installed. As
some of that is compiled, the executors' Python has to be of this process's minor version and platform.
"""

from __future__ import annotations

import sys
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from assignors.errors import BadInput, OutsideFailure

#: The folder that executors unpack it to, below their working directory.
FOLDER = "rebalance-monitor"
_OURS = ("assignors", "streaming")
#: What means something in a list of URIs, and is no part of a name there.
_NOT_IN_LISTS = frozenset(" ,#%")
#: What workers import, by distribution; which of them pandas asks for depends on its release.
_OTHERS = (
    *("msgspec", "numpy", "pandas", "pyarrow", "python-dateutil", "pytz", "six", "tzdata"),
    *("typing-extensions", "rebalance-kernel"),
)
#: Of no use to a worker, and half of the whole.
_LEFT_OUT_FOLDERS = frozenset({"tests", "include", "__pycache__"})
_LEFT_OUT_SUFFIXES = frozenset({".pyc", ".pyx", ".pxd", ".pxi", ".h", ".hpp", ".a"})


class ArchiveNotWritten(OutsideFailure):
    """The archive can't be written."""


class NoArchive(BadInput):
    """There is no archive at that place, or it can't be used."""


def python() -> str:
    """Return the name of the Python interpreter that executors must have on their PATH."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def check(file: Path) -> None:
    """Check an archive before it goes to executors, which would only report what they can't import.

    Raises:
        NoArchive: it is not there, is none, or does not end in ``.tar.gz``.
    """
    _check_name("--archive", file)
    if strange := _NOT_IN_LISTS & set(str(file.absolute())):
        raise NoArchive(
            f"--archive {file}: its path has {min(strange)!r} in it, which means something else to Spark"
        )
    try:
        whole = tarfile.is_tarfile(file)
    except FileNotFoundError:
        raise NoArchive(
            f"--archive {file}: no such file; `stream archive --output {file}` writes it"
        ) from None
    except OSError as error:
        raise NoArchive(f"--archive {file}: {error.strerror}") from error
    if not whole:
        raise NoArchive(f"--archive {file}: is no archive; `stream archive --output {file}` writes one")


def _check_name(option: str, file: Path) -> None:
    if not file.name.endswith(".tar.gz"):
        raise NoArchive(
            f"{option} {file}: the name has to end in .tar.gz, by which Spark knows how to unpack it"
        )


def write(file: Path) -> int:
    """Write the archive, whole or not at all, and return how many files it has.

    Raises:
        NoArchive: its name does not end in ``.tar.gz``.
        ArchiveNotWritten: it can't be written there.
    """
    _check_name("--output", file)
    part = file.with_name(f".{file.name}.part")
    contents = sorted(_contents())
    try:
        # Mostly compiled code: more effort makes it hardly smaller.
        with tarfile.open(part, "w:gz", compresslevel=1) as archive:
            for name, path in contents:
                archive.add(path, name, recursive=False)
        part.replace(file)
    except OSError as error:
        raise ArchiveNotWritten(f"--output {file}: {error.strerror}") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return len(contents)


def _contents() -> Iterator[tuple[str, Path]]:
    """Yield each file's name in the archive, and where it is."""
    for package in _OURS:
        spec = find_spec(package)
        for place in spec.submodule_search_locations or () if spec else ():
            for path in Path(place).rglob("*.py"):
                yield str(path.relative_to(Path(place).parent)), path
    for name in _OTHERS:
        try:
            known = distribution(name)
        except PackageNotFoundError:
            continue
        for file in known.files or ():
            if file.suffix not in _LEFT_OUT_SUFFIXES and not {"..", *_LEFT_OUT_FOLDERS} & set(file.parts):
                yield str(file), Path(str(known.locate_file(file)))
