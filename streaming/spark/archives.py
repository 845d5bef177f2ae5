"""The Python archive for a cluster's executors, and the JVM options for an archive of Spark's classes."""

import hashlib
import os
import sys
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from assignors.errors import BadInput, OutsideFailure
from streaming.kafka.jars import CacheUnusable, cache_dir, java

#: The folder in which executors unpack the Python archive, below their working directory.
UNPACKED_FOLDER: Final = "rebalance-monitor"
#: Distributions that Python workers import, for any supported release of pandas.
_DISTRIBUTIONS: Final = (
    "msgspec",
    "numpy",
    "pandas",
    "pyarrow",
    "python-dateutil",
    "pytz",
    "six",
    "tzdata",
    "typing-extensions",
    "rebalance-kernel",
)
#: Files that workers don't need; they make up half of the total size.
_EXCLUDED_FOLDERS: Final = frozenset({"tests", "include", "__pycache__"})
_EXCLUDED_SUFFIXES: Final = frozenset({".pyc", ".pyx", ".pxd", ".pxi", ".h", ".hpp", ".a"})
#: JVM options that suppress the JVM's warnings about class archives.
SILENT_ARCHIVE_OPTIONS: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def python() -> str:
    """Return the name of the Python interpreter that executors must have on their PATH."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def require_python(option: str, file: Path, *, exists: bool) -> None:
    """Check the path of a Python archive; ``exists``: also check that the file exists."""
    if not file.name.endswith(".tar.gz"):
        raise BadInput(f"{option} {file}: the name must end in .tar.gz, or Spark does not unpack the file")
    if forbidden_characters := set(" ,#%") & set(str(file.absolute())):
        raise BadInput(f"{option} {file}: Spark does not accept {min(forbidden_characters)!r} in the path")
    if exists and not file.is_file():
        raise BadInput(f"{option} {file}: no such file; `stream archive --output {file}` writes it")


def write_python(file: Path) -> int:
    """Write the Python archive atomically, and return its number of files.

    Some imported modules are compiled: the executors' Python must have this process's minor version and platform.
    """
    require_python("--output", file, exists=False)
    part = file.with_name(f".{file.name}.part")
    contents = sorted(_python_files())
    try:
        # Most of the archive is compiled code, which hardly shrinks at a higher compression level.
        with tarfile.open(part, "w:gz", compresslevel=1) as archive:
            for name, path in contents:
                archive.add(path, name, recursive=False)
        part.replace(file)
    except OSError as error:
        raise OutsideFailure(f"--output {file}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
    return len(contents)


def _python_files() -> Iterator[tuple[str, Path]]:
    for package in ("assignors", "streaming"):
        spec = find_spec(package)
        for place in spec.submodule_search_locations or () if spec else ():
            for path in Path(place).rglob("*.py"):
                yield str(path.relative_to(Path(place).parent)), path
    for name in _DISTRIBUTIONS:
        try:
            installed_version = distribution(name)
        except PackageNotFoundError:
            continue
        for file in installed_version.files or ():
            if file.suffix not in _EXCLUDED_SUFFIXES and not {"..", *_EXCLUDED_FOLDERS} & set(file.parts):
                yield str(file), Path(str(installed_version.locate_file(file)))


def class_archive(connector: Iterable[Path]) -> Path:
    """Return the path of the AppCDS archive for this Java, PySpark and connector, which ``make classes`` writes."""
    path, major = java()
    files = [*connector, *sorted((spark_home() / "jars").glob("*.jar")), path.resolve()]
    file_stamps = "\n".join(f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files)
    return cache_dir("classes") / f"spark-java{major}-{hashlib.sha256(file_stamps.encode()).hexdigest()[:12]}.jsa"


def java_options(connector: Iterable[Path]) -> str:
    """Return the JVM options with which Spark uses the class archive; an empty string if there is no archive."""
    with suppress(CacheUnusable):  # in a read-only image, for example
        archive = class_archive(connector)
        if archive.is_file() and " " not in str(archive):  # Spark splits the JVM options at spaces
            return f"-XX:SharedArchiveFile={archive} {SILENT_ARCHIVE_OPTIONS}"
    return ""


def spark_home() -> Path:
    """Return the folder of Spark: SPARK_HOME, or the installed PySpark."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    spec = find_spec("pyspark")
    return Path(next(iter((spec.submodule_search_locations if spec else None) or []), "pyspark"))
