"""Which file of the state is not as Spark wrote it: Spark says that one is, and not which."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def unreadable(spark: SparkSession, files: Iterable[Path]) -> Path | None:
    """The first file that the state store's codec (``lz4``, Spark's default) can't read to its end.

    None when it reads them all, or nobody can say.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # py4j has no types

    jvm: Any = getattr(spark, "_jvm", None)  # pyspark's own name of it
    if jvm is None:
        return None
    for file in files:
        try:
            stream = jvm.net.jpountz.lz4.LZ4BlockInputStream(jvm.java.io.FileInputStream(str(file)))
            try:
                stream.transferTo(jvm.java.io.OutputStream.nullOutputStream())
            finally:
                stream.close()
        except Py4JJavaError:
            return file
    return None
