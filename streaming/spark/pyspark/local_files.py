"""Checkpoint files in a folder are written without forked commands.

Spark's usual manager forks a ``chmod`` and an ``ls`` for every file where Hadoop's native library is missing, as it
nearly everywhere is. Another one of Spark's own does not.
"""

from __future__ import annotations

from pathlib import Path
from zipfile import BadZipFile, ZipFile

_CLASS = "FileSystemBasedCheckpointFileManager"
#: Where it stands in Spark 4.0, and from 4.1 on.
_PACKAGES = (
    "org.apache.spark.sql.execution.streaming",
    "org.apache.spark.sql.execution.streaming.checkpointing",
)


def unfit() -> str | None:
    """Why this does not fit the installed PySpark; None when it does."""
    return None if _manager() else f"Spark's jars have no {_CLASS}"


def properties() -> dict[str, str]:
    """Spark's properties that ask for it."""
    manager = _manager()
    return {} if manager is None else {"spark.sql.streaming.checkpointFileManagerClass": manager}


def _manager() -> str | None:
    import pyspark

    for jar in sorted(Path(pyspark.__file__).parent.glob("jars/spark-sql_*.jar")):
        try:
            with ZipFile(jar) as archive:
                for package in _PACKAGES:
                    if f"{package.replace('.', '/')}/{_CLASS}.class" in archive.NameToInfo:
                        return f"{package}.{_CLASS}"
        except (OSError, BadZipFile):
            continue
    return None
