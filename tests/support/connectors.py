"""Kafka connector jars for PySpark versions whose connector a Maven repository lacks or has only in part."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from streaming.kafka.jars import DownloadFailed, fetch, kafka_coordinates, spark_connector

#: The locked PySpark release, whose connector is complete.
LOCKED = "4.2.0"
BROKER = "4.3.1"


def jars(release: str, folder: Path) -> Path | None:
    """Return a folder for KAFKA_JARS with a connector for this PySpark and broker; None if there is none.

    In place of one that is missing the newest earlier one of the same minor release runs, under its name.
    """
    found = _connector(release)
    if found is None:
        return None
    for name, part in (("connector", found), ("broker", _links(fetch(kafka_coordinates(BROKER))))):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for link, jar in part.items():
            (folder / name / link).unlink(missing_ok=True)
            (folder / name / link).symlink_to(jar)
    return folder


def _connector(release: str) -> dict[str, Path] | None:
    """Return the connector's jars by the file names that Spark expects."""
    minor, _, patch = release.rpartition(".")
    for number in range(int(patch), -1, -1):
        earlier = f"{minor}.{number}"
        try:
            own = fetch([spark_connector(earlier)], transitive=False)
        except DownloadFailed:
            continue
        try:
            found = fetch([spark_connector(earlier)])
        except DownloadFailed:
            others = fetch([spark_connector(LOCKED)])
            found = [*own, *(jar for jar in others if not jar.name.startswith("spark-sql-kafka"))]
        names = {jar.name for jar in own}
        return {jar.name.replace(earlier, release) if jar.name in names else jar.name: jar for jar in found}
    return None


def _links(found: Iterable[Path]) -> dict[str, Path]:
    return {jar.name: jar for jar in found}
