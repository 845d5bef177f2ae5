"""State and events of the ZooKeeper protocol: paths, ephemeral nodes, watches (0.8–1.1's high-level consumer).

``/consumers/{group}/ids`` holds who is there, ``/consumers/{group}/owners`` who claimed which partition (both
ephemeral), ``/consumers/{group}/offsets`` the positions, ``/brokers/ids`` and ``/brokers/topics`` the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from assignors.model import Share, Topic
from streaming.protocols.group import MachineMember, MachineState
from streaming.protocols.vocabulary import NOTHING, MachineEvent, MemberCalls, Reason


class ZooKeeperPhase(StrEnum):
    """Where the group stands; nobody in particular knows it."""

    EMPTY = "Empty"
    REBALANCING = "Rebalancing"
    STABLE = "Stable"


class ZooKeeperView(NamedTuple):
    """What is under the watched paths after a change, and when the ensemble's leader had it."""

    number: int
    at: int
    ids: Mapping[str, tuple[str, ...]]
    topics: Mapping[str, Topic]


class ZooKeeperMember(MachineMember, frozen=True, gc=False):
    """A consumer: its process, its nodes, and its view."""

    #: Its nodes under ``owners``: what it consumes, and, once it has crashed, what its session still holds.
    nodes: Share = NOTHING
    #: It works on a rebalance (or waits to try again).
    busy: bool = False
    #: The change that it rebalanced for last, and the newest one it was notified of.
    seen: int = 0
    notified: int = 0


class ZooKeeperState(MachineState, frozen=True):
    """A group as its ZooKeeper paths show it."""

    members: Mapping[str, ZooKeeperMember] = {}
    #: Newest last; older ones are kept while somebody may still read them.
    views: tuple[ZooKeeperView, ...] = ()
    #: Rounds so far: there are no generations.
    rounds: int = 0
    #: What has changed since the last round.
    reasons: tuple[Reason, ...] = ()
    #: What everyone had after the last round.
    held: Mapping[str, Share] = {}


class Registered(MemberCalls, frozen=True):
    """Consumers create (or rewrite) their nodes under ``ids``."""


class Closed(MemberCalls, frozen=True):
    """Consumers close their sessions: all their nodes are gone."""


class SessionGone(MemberCalls, frozen=True):
    """ZooKeeper has not heard of consumers for the session timeout: all their nodes are gone."""


class Watched(MemberCalls, frozen=True):
    """Watches fire at consumers: they read, stop, and release what they own."""

    number: int = 0


class Claimed(MemberCalls, frozen=True):
    """Consumers create their nodes under ``owners``."""


class BrokersChanged(MachineEvent, frozen=True):
    """A node under ``/brokers/ids`` or ``/brokers/topics`` changed."""

    kind: str = "topic.partitions_changed"
