"""Which file of the state is not as Spark wrote it: Spark says that one is, and not which."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What is packed as one stream, by the state store's codec (``lz4``, Spark's default).
_PACKED = (".delta", ".snapshot", ".changelog")


def unreadable(spark: SparkSession, files: Iterable[Path]) -> Path | None:
    """The first file that can't be read to its end: a stream that is not as packed, or a checksum that is wrong.

    None when it reads them all, or nobody can say.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # py4j has no types

    jvm: Any = getattr(spark, "_jvm", None)  # pyspark's own name of it
    if jvm is None:
        return None
    for file in files:
        try:
            if file.suffix in _PACKED:
                _read(jvm, jvm.net.jpountz.lz4.LZ4BlockInputStream(jvm.java.io.FileInputStream(str(file))))
            else:
                _read(jvm, _checked(jvm, file))
        except Py4JJavaError:
            return file
    return None


def _checked(jvm: Any, file: Path) -> Any:
    """The file as Hadoop reads it, which compares the checksums beside it where there are some."""
    hadoop = jvm.org.apache.hadoop
    return hadoop.fs.FileSystem.getLocal(hadoop.conf.Configuration()).open(hadoop.fs.Path(str(file)))


def _read(jvm: Any, stream: Any) -> None:
    try:
        stream.transferTo(jvm.java.io.OutputStream.nullOutputStream())
    finally:
        stream.close()
