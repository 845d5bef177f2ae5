"""One way to find an assignor: ``(protocol, name)``.

Modules load on first use, so that ``import assignors`` stays cheap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Literal, Protocol, cast

from assignors.errors import UnknownAssignor
from assignors.model import Assignment, Member, Topic

RebalanceProtocol = Literal["EAGER", "COOPERATIVE"]


class Assignor(Protocol):
    """A module that assigns: ``NAME``, what it supports, and ``assign``."""

    NAME: str
    #: What a client may run it under, as ``ConsumerPartitionAssignor.supportedProtocols`` lists them.
    SUPPORTED_PROTOCOLS: tuple[RebalanceProtocol, ...]

    def assign(self, topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
        """Every member's share. ``members`` stand in the order of the JoinGroup response.

        Raises:
            InvalidGroup: the group contradicts itself; the message names the field.
        """
        ...


_MODULES: dict[tuple[str, str], str] = {
    ("classic", "range"): "assignors.classic.range",
    ("classic", "roundrobin"): "assignors.classic.round_robin",
    ("classic", "sticky"): "assignors.classic.sticky",
    ("classic", "cooperative-sticky"): "assignors.classic.cooperative",
    ("consumer", "uniform"): "assignors.consumer.uniform",
    ("consumer", "range"): "assignors.consumer.range",
    ("zookeeper", "range"): "assignors.zookeeper.range",
    ("zookeeper", "roundrobin"): "assignors.zookeeper.round_robin",
}


def names(protocol: str) -> list[str]:
    """The assignors of a protocol, in the order in which Kafka documents them."""
    return [name for known, name in _MODULES if known == protocol]


def protocols() -> list[str]:
    """The protocols that have assignors."""
    return list(dict.fromkeys(protocol for protocol, _ in _MODULES))


def find(protocol: str, name: str) -> Assignor:
    """The assignor ``name`` of ``protocol``.

    Raises:
        UnknownAssignor: there is none; the message lists those there are.
    """
    module = _MODULES.get((protocol, name))
    if module is None:
        known = names(protocol)
        if not known:
            raise UnknownAssignor(f"protocol: {protocol!r} is none of {', '.join(protocols())}")
        raise UnknownAssignor(f"assignor: {name!r} is none of {', '.join(known)} (protocol {protocol})")
    return cast("Assignor", import_module(module))
