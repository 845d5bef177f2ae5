"""Downloads Maven artifacts with their dependencies into the user's cache, and finds the Java that runs them.

The Ivy inside pyspark downloads the artifacts, so only Java is needed. A finished set is one folder under ``jars/``,
put in place by one rename. Ivy's own cache keeps each finished file, so that a new attempt continues the download.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from assignors.errors import OutsideFailure
from streaming.process import escape_unprintable

#: Environment variable with a folder of jars, for hosts without a repository; it may have one subfolder per set.
JARS_VARIABLE = "KAFKA_JARS"
#: Environment variable with the address of a repository to use in place of Maven Central, as in Spark.
REPOSITORY_VARIABLE = "DEFAULT_ARTIFACT_REPOSITORY"


class DownloadFailed(OutsideFailure):
    """The jars could not be downloaded from the repository."""


class MavenCoordinate(NamedTuple):
    """A Maven artifact: the parts of ``group:artifact:version``."""

    group: str
    name: str
    version: str

    @property
    def file(self) -> str:
        """The file name of a Maven artifact's jar."""
        return f"{self.name}-{self.version}.jar"


def kafka_coordinates(version: str) -> list[str]:
    """Return the Maven coordinates of the artifacts that an embedded broker needs."""
    # Every Kafka since 2.x logs through slf4j 1.7; slf4j-simple binds it without a configuration file.
    return [f"org.apache.kafka:kafka_2.13:{version}", "org.slf4j:slf4j-simple:1.7.36"]


def spark_connector(version: str) -> str:
    """Return the Maven coordinates of Spark's Kafka source and sink for this PySpark version."""
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"


def print_progress(message: str) -> None:
    """Write a progress message to standard error: on a terminal as one overwritten line, which ``""`` clears."""
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r\033[K{escape_unprintable(message)[:width]}")
        if not message:
            sys.stderr.write("\r")
    elif message:
        sys.stderr.write(f"{escape_unprintable(message)}\n")
    sys.stderr.flush()


def fetch(coordinates: Sequence[str], *, transitive: bool = True) -> list[Path]:
    """Return the jars of these artifacts, sorted by name; with ``transitive`` also the jars of their dependencies.

    Several processes may call this function at once: one process downloads, and the others wait. ``coordinates``:
    ``group:artifact:version``.

    Raises OutsideFailure if KAFKA_JARS is set and its folder does not have the jars, and DownloadFailed if the
    repository does not answer or does not have the artifacts.
    """
    artifacts = [MavenCoordinate(*text.split(":")) for text in coordinates]
    if folder := os.environ.get(JARS_VARIABLE):
        return _find_jars_in_folder(Path(folder).expanduser(), artifacts)
    key = hashlib.sha256("\n".join([*coordinates, str(transitive)]).encode()).hexdigest()[:12]
    jars_folder = cache_dir("jars") / f"{artifacts[0].name}-{artifacts[0].version}-{key}"
    create_if_missing(jars_folder, lambda: _download(artifacts, jars_folder, transitive=transitive))
    return sorted(jars_folder.glob("*.jar"))


def create_if_missing(path: Path, create_file: Callable[[], None]) -> None:
    """Call ``create_file`` to create ``path`` if it does not exist; concurrent processes wait for the first one."""
    if not path.exists():
        with lock_file(path.with_name(f".{path.name}.lock")):
            if not path.exists():
                create_file()


def _find_jars_in_folder(folder: Path, artifacts: Sequence[MavenCoordinate]) -> list[Path]:
    for place in (folder, *sorted(path for path in folder.glob("*") if path.is_dir())):
        if all((place / coordinate.file).is_file() for coordinate in artifacts):
            return sorted(place.glob("*.jar"))
    names = ", ".join(coordinate.file for coordinate in artifacts)
    raise OutsideFailure(
        f"{JARS_VARIABLE}={folder}: neither the folder nor a subfolder contains {names}; "
        f"copy the jars folder from the cache of a host with a connection, or unset {JARS_VARIABLE}"
    )


def _download(artifacts: Sequence[MavenCoordinate], jars_folder: Path, *, transitive: bool) -> None:
    names = ", ".join(f"{coordinate.name} {coordinate.version}" for coordinate in artifacts)
    print_progress(f"fetching {names} (once, into {jars_folder.parent})")
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=jars_folder.parent) as temporary_folder:
        work = Path(temporary_folder)
        (work / "settings.xml").write_text(_settings())
        (work / "ivy.xml").write_text(_ivy_module(artifacts, transitive=transitive))
        _run_ivy(work, names)
        missing = [coordinate.file for coordinate in artifacts if not (work / "lib" / coordinate.file).is_file()]
        if missing:
            raise DownloadFailed(f"fetching {names} failed: the repository has no {', '.join(missing)}")
        (work / "lib").rename(jars_folder)
    print_progress("")


def _settings() -> str:
    root = os.environ.get(REPOSITORY_VARIABLE)
    return f"""<ivysettings>
  <!-- two look-ups less for each module -->
  <property name="ivy.maven.lookup.sources" value="false"/>
  <property name="ivy.maven.lookup.javadoc" value="false"/>
  <settings defaultResolver="repository"/>
  <caches defaultCacheDir={quoteattr(str(cache_dir("ivy")))} lockStrategy="artifact-lock-nio"/>
  <resolvers>
    <ibiblio name="repository" m2compatible="true" useMavenMetadata="false" checkmodified="false"
             checkconsistency="false" checksums="sha1" {f"root={quoteattr(root)}" if root else ""}/>
  </resolvers>
</ivysettings>
"""


def _ivy_module(artifacts: Iterable[MavenCoordinate], *, transitive: bool) -> str:
    options = f'conf="default->default" transitive="{str(transitive).lower()}"'
    lines = (f'<dependency org="{group}" name="{name}" rev="{rev}" {options}/>' for group, name, rev in artifacts)
    return f"""<ivy-module version="2.0">
  <info organisation="local" module="fetch"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{"".join(lines)}</dependencies>
</ivy-module>
"""


def _ivy() -> Path:
    pyspark_spec = find_spec("pyspark")  # does not import pyspark
    for folder in pyspark_spec.submodule_search_locations or () if pyspark_spec else ():
        for jar in sorted(Path(folder).glob("jars/ivy-*.jar")):
            return jar
    raise DownloadFailed(f"pyspark has no jars/ivy-*.jar to download with: reinstall it, or set {JARS_VARIABLE}")


def _run_ivy(work: Path, names: str) -> None:
    command = [
        *(str(java()[0]), "-XX:TieredStopAtLevel=1", "-jar", str(_ivy())),
        *("-settings", str(work / "settings.xml"), "-ivy", str(work / "ivy.xml"), "-confs", "default"),
        *("-retrieve", str(work / "lib/[artifact]-[revision](-[classifier]).[ext]")),
    ]
    module_count, problems = 0, []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
        try:
            for line in ivy.stdout or ():
                text = line.strip()
                if text.startswith("found "):
                    module_count += 1
                    print_progress(f"resolving {names}: {module_count} modules")
                elif text.startswith("downloading "):
                    print_progress(f"downloading {text.split('/')[-1].removesuffix(' ...')}")
                elif re.search(r"not found|unresolved|error|exception|FAILED", text, re.IGNORECASE):
                    problems.append(text.strip(":= \t"))
        except BaseException:
            ivy.kill()
            raise
    if ivy.returncode != 0:
        print_progress("")
        problems.append(f"Ivy ended with {ivy.returncode}")
        reason = next((text for text in problems if "exception" in text.lower()), problems[0])
        raise DownloadFailed(
            f"fetching {names} failed ({reason}); finished downloads are kept, and the next attempt continues from "
            f"there; or set {REPOSITORY_VARIABLE} to a mirror, {JARS_VARIABLE} to a folder"
        )


#: The oldest Java version that Kafka 4 and Spark 4 support.
MIN_JAVA_VERSION = 17


class NoJava(OutsideFailure):
    """Java 17 or newer is missing: install it (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME."""


@cache
def java() -> tuple[Path, int]:
    """Return the path of ``java``, from JAVA_HOME if set and else from PATH, and its major version."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if path is None:
        raise NoJava(f"JAVA_HOME={home}: no bin/java in it; point it at Java 17 or newer") if home else NoJava
    try:
        answer = subprocess.run([path, "-version"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise NoJava(f"{path} does not start ({error}): install Java 17 or newer, or set JAVA_HOME") from error
    match = re.search(r'version "(\d+)', answer.stderr)
    java_version = int(match[1]) if match else 0
    if java_version < MIN_JAVA_VERSION:
        first = answer.stderr.partition("\n")[0]
        raise NoJava(f"{path} is {first}: Java 17 or newer is needed; install one or set JAVA_HOME")
    return Path(path), java_version


#: Environment variable with the path of the cache folder.
CACHE_VARIABLE = "REBALANCE_MONITOR_CACHE"


class CacheUnusable(OutsideFailure):
    """The cache folder can't be written."""


def cache_dir(*parts: str) -> Path:
    """Return the cache folder, or the folder ``parts`` in it; create the folder if it is missing.

    The cache folder is ``$REBALANCE_MONITOR_CACHE``, else a folder in the platform's caches (``$XDG_CACHE_HOME`` or
    ``~/.cache``; ``~/Library/Caches`` on macOS).
    """
    cache_root = "~/Library/Caches" if sys.platform == "darwin" else os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    # Only a path with ~ needs the home folder, which a container's user may lack.
    root = Path(os.environ.get(CACHE_VARIABLE) or f"{cache_root}/kafka-rebalance-monitor").expanduser()
    path = root.joinpath(*parts).resolve()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CacheUnusable(f"{path}: {error.strerror}; set {CACHE_VARIABLE} to a folder to write in") from error
    return path


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Hold a lock on the file ``path`` during the ``with`` block; the kernel releases it if the process ends."""
    try:
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
    except PermissionError as error:
        raise CacheUnusable(f"{path}: {error.strerror}; set {CACHE_VARIABLE} to a folder to write in") from error
