"""What computes assignments: the native code of the package ``rebalance-kernel``, or Python, which is slower.

Each module that asks native code goes on without a function that is not there, and says nothing: it is said here.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

_MODULE: Final = "rebalance_kernel"
#: What this release asks native code for. Such a name changes with what the function takes.
FUNCTIONS: Final = (
    "client_shares",
    "range_target",
    "uniform_target",
)
#: Where ``make packages`` notes that the build failed.
_FAILED: Final = Path(sys.prefix) / "without-kernel"


class Decider(NamedTuple):
    """What computes assignments.

    Attributes:
        text: in words, and what to do.
        meant: whether that is as installed: native, or without the package.
    """

    text: str
    meant: bool


def decider() -> Decider:
    """Return what computes assignments in this environment."""
    try:
        module = import_module(_MODULE)
    except ModuleNotFoundError:
        return _without()
    except ImportError as error:
        return Decider(
            f"in Python, as the native code does not load ({error}); `make packages` mends it", False
        )
    lacking = [name for name in FUNCTIONS if not hasattr(module, name)]
    if not lacking:
        return Decider("native", True)
    who = "in Python" if len(lacking) == len(FUNCTIONS) else "partly in Python"
    return Decider(
        f"{who}, as the native code is of another release and lacks {', '.join(lacking)}; "
        "`make packages` builds this one's",
        False,
    )


def _without() -> Decider:
    if _FAILED.exists():
        return Decider("in Python, as kernel/ could not be built; `make packages` says more", False)
    return Decider("in Python; `make packages` makes those of plain groups native where cargo is", True)
