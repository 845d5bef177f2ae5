"""Find assignors by protocol and name; an assignor's module loads on first use, so that ``import assignors`` is fast.

If the package ``rebalance-kernel`` is installed, its native functions are tried first. Python is the reference, and
native functions return the same assignments. They return None for groups that Python refuses, for groups whose order
needs a complete Java hash table, for ``range`` with racks, and for the other classic assignors with unequal
subscriptions; Python then handles the group.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from typing import Final, Literal, NamedTuple

from assignors.errors import UnknownAssignor
from assignors.model import Assignment, Member, Topic

RebalanceProtocol = Literal["EAGER", "COOPERATIVE"]
AssignFunction = Callable[..., Assignment]
#: Functions of the native package. A function with other parameters gets another name, so that a package of another
#: release lacks the function and Python is used.
NATIVE_FUNCTIONS: Final = ("client_shares", "range_target", "uniform_target")


class Assignor(NamedTuple):
    """An assignor of a protocol.

    ``assign``: function from ``(topics, members)``, with members in the order of the JoinGroup response, to the
    assignment; it raises InvalidGroup if the group contradicts itself. ZooKeeper's functions also take a
    ``kafka_version``. ``python``: the same function without native code. ``supported_protocols``: rebalance protocols
    under which clients may run the assignor (``ConsumerPartitionAssignor.supportedProtocols``).
    """

    assign: AssignFunction
    python: AssignFunction
    supported_protocols: tuple[RebalanceProtocol, ...]


#: ``(function, native function and its first arguments, supported protocols)``.
_ASSIGNOR_ENTRIES: Final[Mapping[tuple[str, str], tuple[str, tuple[str, ...], tuple[RebalanceProtocol, ...]]]] = {
    ("classic", "range"): ("classic.range.assign", ("client_shares", "range"), ("EAGER",)),
    ("classic", "roundrobin"): ("classic.round_robin.assign", ("client_shares", "roundrobin"), ("EAGER",)),
    ("classic", "sticky"): ("classic.sticky.assign", ("client_shares", "sticky"), ("EAGER",)),
    ("classic", "cooperative-sticky"): (
        "classic.sticky.assign_cooperative",
        ("client_shares", "cooperative-sticky"),
        ("COOPERATIVE", "EAGER"),
    ),
    ("consumer", "uniform"): ("consumer.uniform.assign", ("uniform_target",), ()),
    ("consumer", "range"): ("consumer.range.assign", ("range_target",), ()),
    ("zookeeper", "range"): ("zookeeper.assign_range", (), ()),
    ("zookeeper", "roundrobin"): ("zookeeper.assign_round_robin", (), ()),
}


def names(protocol: str) -> list[str]:
    """Return the names of a protocol's assignors, in the order of Kafka's documentation."""
    return [name for entry_protocol, name in _ASSIGNOR_ENTRIES if entry_protocol == protocol]


def protocols() -> list[str]:
    """Return the names of the protocols that have assignors."""
    return list(dict.fromkeys(protocol for protocol, _ in _ASSIGNOR_ENTRIES))


@cache
def find(protocol: str, name: str) -> Assignor:
    """Return the assignor ``name`` of ``protocol``; raise UnknownAssignor, which lists all names, if unknown."""
    entry = _ASSIGNOR_ENTRIES.get((protocol, name))
    if entry is None:
        assignor_names = names(protocol)
        if not assignor_names:
            raise UnknownAssignor(f"protocol: {protocol!r} is not one of {', '.join(protocols())}")
        raise UnknownAssignor(f"assignor: {name!r} is not one of {', '.join(assignor_names)} (protocol {protocol})")
    path, native, supported_protocols = entry
    module, _, native_function = path.rpartition(".")
    python = getattr(import_module(f"assignors.{module}"), native_function)
    return Assignor(_prefer_native(native, python), python, supported_protocols)


def _prefer_native(native: tuple[str, ...], python: AssignFunction) -> AssignFunction:
    try:
        import rebalance_kernel
    except ImportError:
        return python
    native_function = getattr(rebalance_kernel, native[0], None) if native else None
    if native_function is None:
        return python
    native_assign = partial(native_function, *native[1:])

    def assign(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
        assignment = native_assign(topics, members)
        return python(topics, members) if assignment is None else assignment

    return assign
