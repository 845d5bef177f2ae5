"""Lazy imports (PEP 562): the public names of a package import their modules on first use."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # type checkers assume True; importing typing would be slower than this module
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any


def lazy_names(
    namespace: dict[str, Any], names_by_module: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__`` for lazy imports, from the public names by module."""
    module_by_name = {name: module for module, names in names_by_module.items() for name in names}

    def load(name: str) -> Any:
        if name not in module_by_name:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        value = namespace[name] = getattr(import_module(module_by_name[name]), name)
        return value

    def list_names() -> list[str]:
        return sorted({*namespace, *module_by_name})

    return load, list_names
