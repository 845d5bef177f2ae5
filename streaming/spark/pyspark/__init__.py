"""The one door to PySpark's internals: what this project uses beyond its public interface.

Each module is one shortcut. They are written for the releases that :func:`require_fit` lets through.
"""

from __future__ import annotations

from importlib.metadata import version

from assignors.errors import OutsideFailure

#: The first release that fits, and the first that does not any more.
BOUNDS = ((4, 0), (4, 1))


class PySparkUnfit(OutsideFailure):
    """The installed PySpark is another release than this one is made for."""


def require_fit(installed: str | None = None) -> str:
    """The version of the installed PySpark, which is one that the shortcuts are made for.

    Raises:
        PySparkUnfit: it is not; the message says what to install.
    """
    found = installed or version("pyspark")
    least, beyond = BOUNDS
    release = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
    if not least <= release < beyond:
        wanted = f"pyspark>={'.'.join(map(str, least))},<{'.'.join(map(str, beyond))}"
        raise PySparkUnfit(f"PySpark {found} is installed, which does not fit: pip install '{wanted}'")
    return found
