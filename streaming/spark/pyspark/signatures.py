"""What a shortcut leans on, compared with what is there."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any


def parameters(function: Callable[..., Any]) -> list[str]:
    """Names of a function's parameters, in order, without ``self``."""
    return [name for name in inspect.signature(function).parameters if name != "self"]


def missing(owner: Any, names: Iterable[str]) -> str | None:
    """The first of ``names`` that ``owner`` lacks, as a reason to leave a shortcut out; None when all are there."""
    for name in names:
        if not hasattr(owner, name):
            return f"{owner.__name__} has no {name}"
    return None


def differing(function: Callable[..., Any], expected: Iterable[str]) -> str | None:
    """A reason to leave a shortcut out when ``function`` takes other parameters than ``expected``, in order."""
    found, wanted = parameters(function), list(expected)
    if found == wanted:
        return None
    return f"{function.__qualname__} takes ({', '.join(found)}), not ({', '.join(wanted)})"


def lacking(function: Callable[..., Any], names: Iterable[str]) -> str | None:
    """A reason to leave a shortcut out when ``function`` has no parameter of one of these names."""
    found = parameters(function)
    absent = [name for name in names if name not in found]
    return f"{function.__qualname__} takes no {absent[0]}" if absent else None
