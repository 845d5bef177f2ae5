"""The one door to PySpark's internals: what this project uses beyond its public interface.

The job runs on the public interface alone: ``applyInPandasWithState`` with pandas frames, a listener, an
accumulator. Each module of :data:`SHORTCUTS` is a way past it: a small unit whose ``unfit()`` says why it does not
fit the installed PySpark, by the names and signatures that it leans on, or None when it does. What fits is used,
what does not is left out, and the bytes that are written are the same either way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from assignors.errors import OutsideFailure

#: The first minor release that has what the job asks for, and the last one that was tried (docs/how-to/upgrade.md).
LEAST, TRIED = (4, 1), (4, 3)

ARROW_COLUMNS = "Arrow columns"
WARM_DAEMON = "warm daemon"
ZIP_CACHE = "zip cache"
QUICK_ACKNOWLEDGEMENT = "quick acknowledgement"
QUIET_ACCUMULATORS = "quiet accumulators"
OWN_SESSION = "JVM in a session of its own"
LOCAL_FILES = "local checkpoint files"
#: Every shortcut by the name that ``doctor`` and the log call it, and its module; those of the workers first.
SHORTCUTS: Mapping[str, str] = {
    ARROW_COLUMNS: "arrow",
    WARM_DAEMON: "worker",
    ZIP_CACHE: "archives",
    QUICK_ACKNOWLEDGEMENT: "acknowledgement",
    QUIET_ACCUMULATORS: "accumulators",
    OWN_SESSION: "jvm",
    LOCAL_FILES: "local_files",
}


class PySparkUnfit(OutsideFailure):
    """The installed PySpark is older than what the job asks for."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Which shortcuts fit.

    Attributes:
        release: PySpark's version.
        tried: whether this minor release is among those that were tried.
        used: names of the shortcuts that are used.
        left_out: why each of the others is not.
    """

    release: str
    tried: bool
    used: frozenset[str]
    left_out: Mapping[str, str]

    def __str__(self) -> str:
        if not self.left_out:
            return f"PySpark {self.release} with every shortcut"
        reasons = set(self.left_out.values())
        if not self.used and len(reasons) == 1:
            return f"PySpark {self.release} by its public interface alone: {reasons.pop()}"
        return f"PySpark {self.release}, without " + "; ".join(
            f"{name} ({reason})" for name, reason in self.left_out.items()
        )


def require_fit(installed: str | None = None) -> str:
    """The version of the installed PySpark.

    Raises:
        PySparkUnfit: it is too old; the message says what to install.
    """
    found = installed or _installed()
    if _minor(found) < LEAST:
        wanted = f"pyspark>={'.'.join(map(str, LEAST))}"
        raise PySparkUnfit(f"PySpark {found} is installed, which is too old: pip install '{wanted}'")
    return found


def survey(installed: str | None = None, *, public: bool = False) -> Fit:
    """Which shortcuts fit the installed PySpark. A minor release that was never tried gets none.

    Args:
        installed: its version; None to look.
        public: leave all of them out.

    Raises:
        PySparkUnfit: it is too old.
    """
    found = require_fit(installed)
    tried = _minor(found) <= TRIED
    if public or not tried:
        why = "as asked for" if public else "its shortcuts were never tried with this release"
        return Fit(found, tried, frozenset(), dict.fromkeys(SHORTCUTS, why))
    found_unfit = {name: _unfit(name) for name in SHORTCUTS}
    left_out = {name: reason for name, reason in found_unfit.items() if reason is not None}
    return Fit(found, tried, frozenset(SHORTCUTS) - left_out.keys(), left_out)


def unit(name: str) -> ModuleType:
    """The module of a shortcut. Not before it is asked for: with it comes most of PySpark."""
    return import_module(f"{__name__}.{SHORTCUTS[name]}")


def _installed() -> str:
    try:
        return version("pyspark")
    except PackageNotFoundError:  # an executor's, out of Spark's own folder
        from pyspark import __version__

        return str(__version__)


def _unfit(name: str) -> str | None:
    try:
        why: str | None = unit(name).unfit()
    except ImportError as error:  # what it leans on is gone
        return str(error)
    return why


def _minor(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".")[:2] if part.isdigit())
