"""State and events of the ZooKeeper protocol: paths, ephemeral nodes, watches (0.8–1.1's high-level consumer).

``/consumers/{group}/ids`` holds who is there, ``/consumers/{group}/owners`` who claimed which partition (both
ephemeral), ``/consumers/{group}/offsets`` the positions, ``/brokers/ids`` and ``/brokers/topics`` the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from assignors.model import Share, Topic
from streaming.protocols.classic_state import MemberCalls, Stage
from streaming.protocols.vocabulary import NOTHING, Cause, Client, Event


class Phase(StrEnum):
    """Where the group stands; nobody in particular knows it."""

    EMPTY = "Empty"
    REBALANCING = "Rebalancing"
    STABLE = "Stable"


class View(NamedTuple):
    """What is under the watched paths after a change, and when the ensemble's leader had it."""

    number: int
    at: int
    ids: Mapping[str, tuple[str, ...]]
    topics: Mapping[str, Topic]


class Member(Struct, frozen=True):
    """A consumer: its process, its nodes, and its view."""

    client: Client
    stage: Stage = Stage.STARTING
    call: int = 0
    incarnation: int = 0
    #: Its node under ``ids`` exists.
    registered: bool = False
    #: What it consumes; its nodes under ``owners`` are the same or will be gone with its session.
    owned: Share = NOTHING
    nodes: Share = NOTHING
    #: It works on a rebalance (or waits to try again).
    busy: bool = False
    #: The change that it rebalanced for last, and the newest one it was notified of.
    seen: int = 0
    notified: int = 0
    said: tuple[str, ...] = ()


class State(Struct, frozen=True):
    """A group as its ZooKeeper paths show it."""

    members: Mapping[str, Member] = {}
    topics: Mapping[str, Topic] = {}
    #: Newest last; older ones are kept while somebody may still read them.
    views: tuple[View, ...] = ()
    #: Rounds so far: there are no generations.
    rounds: int = 0
    causes: tuple[Cause, ...] = ()
    cause: Cause = Cause("member.joined")
    held: Mapping[str, Share] = {}
    wanted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Registered(MemberCalls):
    """Consumers create (or rewrite) their nodes under ``ids``."""


@dataclass(frozen=True, slots=True)
class Closed(MemberCalls):
    """Consumers close their sessions: all their nodes are gone."""


@dataclass(frozen=True, slots=True)
class SessionGone(MemberCalls):
    """ZooKeeper has not heard of consumers for the session timeout: all their nodes are gone."""


@dataclass(frozen=True, slots=True)
class Watched(MemberCalls):
    """Watches fire at consumers: they read, stop, and release what they own."""

    number: int = 0


@dataclass(frozen=True, slots=True)
class Claimed(MemberCalls):
    """Consumers create their nodes under ``owners``."""


@dataclass(frozen=True, slots=True)
class BrokersChanged(Event):
    """A node under ``/brokers/ids`` or ``/brokers/topics`` changed."""

    kind: str = "topic.partitions_changed"
