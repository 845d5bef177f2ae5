"""Kafka's assignors, partitioners and replica placement as pure functions.

All results are compared with the released Java classes in ``tests/oracle``. The names below load their module on
first use, so that ``import assignors`` is fast.

    from assignors import Member, Topic, find

    find("classic", "sticky").assign({"t0": Topic("t0", 6)}, [Member("c1", ("t0",)), Member("c2", ("t0",))])
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # type checkers assume True; importing typing would be slower than this module
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from assignors.errors import BadInput, MonitorError
    from assignors.invariants import check
    from assignors.java import JavaRandom
    from assignors.model import Assignment, Member, Topic, TopicPartitions
    from assignors.partitioner import murmur2, partition_for_key
    from assignors.placement.evenness import check_placement
    from assignors.placement.replicas import Broker, assign_replicas, place_striped
    from assignors.registry import find, names, protocols

__version__ = "0.1.0"
__all__ = [
    "Assignment",
    "BadInput",
    "Broker",
    "JavaRandom",
    "Member",
    "MonitorError",
    "Topic",
    "TopicPartitions",
    "assign_replicas",
    "check",
    "check_placement",
    "find",
    "murmur2",
    "names",
    "partition_for_key",
    "place_striped",
    "protocols",
]
_NAMES_BY_MODULE = {
    "assignors.errors": ("BadInput", "MonitorError"),
    "assignors.invariants": ("check",),
    "assignors.java": ("JavaRandom",),
    "assignors.model": ("Assignment", "Member", "TopicPartitions", "Topic"),
    "assignors.partitioner": ("murmur2", "partition_for_key"),
    "assignors.placement.evenness": ("check_placement",),
    "assignors.placement.replicas": ("Broker", "assign_replicas", "place_striped"),
    "assignors.registry": ("find", "names", "protocols"),
}


def lazy_names(
    namespace: dict[str, Any], names_by_module: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__`` for lazy imports (PEP 562), from public names by module."""
    module_by_name = {name: module for module, names in names_by_module.items() for name in names}

    def load(name: str) -> Any:
        if name not in module_by_name:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        value = namespace[name] = getattr(import_module(module_by_name[name]), name)
        return value

    def list_names() -> list[str]:
        return sorted({*namespace, *module_by_name})

    return load, list_names


__getattr__, __dir__ = lazy_names(globals(), _NAMES_BY_MODULE)
