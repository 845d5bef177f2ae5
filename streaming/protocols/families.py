"""Table of the protocols by name, with their supported assignors, default assignor, and state machine."""

from typing import Any, NamedTuple

from assignors.errors import UnknownAssignor
from streaming.protocols.classic.machine import Classic, Cooperative, EagerV1, EagerWorkers, IncrementalWorkers
from streaming.protocols.classic.step import Rules
from streaming.protocols.consumer.machine import Consumer
from streaming.protocols.machine import StateMachine
from streaming.protocols.vocabulary import Setup, UnsupportedPair
from streaming.protocols.zookeeper import ZooKeeper


class Family(NamedTuple):
    """A rebalance protocol by its name on the command line, with its default and its supported assignors."""

    default: str
    #: The protocol in the assignors' registry, and the assignors that this protocol supports.
    assignors_of: str
    assignors: tuple[str, ...]
    #: The reason why the protocol does not support other assignors.
    reason: str


_CLIENT_SIDE_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
_NOT_STICKY = _CLIENT_SIDE_ASSIGNORS[:2]
PROTOCOL_FAMILIES: dict[str, Family] = {
    "zookeeper": Family("range", "zookeeper", _NOT_STICKY, "each consumer computes its own share from ZooKeeper"),
    "eager-v1": Family(
        "range",
        "classic",
        _NOT_STICKY,
        reason="the coordinator assigns from cluster metadata and does not know what members owned",
    ),
    "eager": Family("range", "classic", _CLIENT_SIDE_ASSIGNORS, "the leader runs a client-side assignor"),
    "cooperative": Family(
        "cooperative-sticky",
        "classic",
        ("cooperative-sticky",),
        reason="members keep their partitions through the join, which an EAGER assignor can't take into account",
    ),
    "connect": Family("incremental", "connect", ("incremental", "eager"), "workers run connectors and tasks"),
    "consumer": Family("uniform", "consumer", ("uniform", "range"), "the coordinator runs a server-side assignor"),
}


def supported_assignor(protocol: str, assignor: str | None) -> str:
    """Return the assignor to run under ``protocol``: the requested one or, for None, the protocol's default.

    Raises UnknownAssignor for an unknown protocol, and ImpossiblePair if it does not support the assignor.
    """
    family = PROTOCOL_FAMILIES.get(protocol)
    if family is None:
        raise UnknownAssignor(f"--protocol: {protocol!r} is not one of {', '.join(PROTOCOL_FAMILIES)}, all")
    if assignor is None:
        return family.default
    if assignor not in family.assignors:
        problem = f"{family.reason}; it runs {', '.join(family.assignors)}"
        raise UnsupportedPair(f"--assignor: {protocol} can't run {assignor!r}: {problem}")
    return assignor


def machine(protocol: str, setup: Setup) -> StateMachine[Any, Any]:
    """Return the state machine of a protocol, with the assignor that ``setup`` names."""
    supported_assignor(protocol, setup.assignor)
    if protocol == "zookeeper":
        return ZooKeeper(setup)
    if protocol == "consumer":
        return Consumer(setup)
    if protocol == "connect":
        workers = EagerWorkers if setup.assignor == "eager" else IncrementalWorkers
        return Classic(protocol, setup, workers(setup))
    rules = {"eager-v1": EagerV1, "eager": Rules, "cooperative": Cooperative}[protocol]
    return Classic(protocol, setup, rules(setup))
