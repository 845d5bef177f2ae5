"""The ZooKeeper protocol: no coordinator; every consumer computes its own share from its own view.

A change under ``ids``, ``brokers/ids`` or ``brokers/topics`` wakes every consumer (herd effect). Each stops,
releases its ``owners`` nodes, reads, computes and claims. A claim on a node that still exists fails: the
consumer gives back what it had claimed and tries again after ``rebalance.backoff.ms``, as often as it takes.
Consumers read at different members of the ensemble; one whose member lags sees an older group, claims the
wrong partitions, and rebalances once more when its watch fires.
"""

from __future__ import annotations

from streaming.protocols.group import LIVE, Stage
from streaming.protocols.machine import Machine
from streaming.protocols.table import Table, rows
from streaming.protocols.vocabulary import CoordinatorFails, Setup, TopicsChanged
from streaming.protocols.zookeeper import consumers
from streaming.protocols.zookeeper.group import (
    BrokersChanged,
    Claimed,
    Closed,
    Registered,
    SessionGone,
    Watched,
    ZooKeeperMember,
    ZooKeeperPhase,
    ZooKeeperState,
)
from streaming.protocols.zookeeper.step import ZooKeeperStep

_EMPTY, _REBALANCING, _STABLE = ZooKeeperPhase
_ALL = tuple(ZooKeeperPhase)

#: The group as a whole.
GROUP: Table = {
    **rows((_EMPTY,), Registered, consumers.registered, (_EMPTY, _REBALANCING), "node under ids"),
    **rows((_REBALANCING, _STABLE), Registered, consumers.registered, (_REBALANCING, _STABLE)),
    **rows((_STABLE, _REBALANCING), Closed, consumers.closed, _ALL, "nodes gone"),
    **rows((_EMPTY,), Closed, consumers.closed),
    **rows((_STABLE, _REBALANCING), SessionGone, consumers.closed, _ALL, "session expired"),
    **rows((_EMPTY,), SessionGone, consumers.closed),
    **rows((_STABLE, _REBALANCING), Watched, consumers.watched, (_STABLE, _REBALANCING), "everyone wakes"),
    **rows((_EMPTY,), Watched, consumers.watched),
    **rows((_REBALANCING,), Claimed, consumers.claimed, (_REBALANCING, _STABLE), "all claims hold"),
    **rows((_STABLE, _EMPTY), Claimed, consumers.claimed),
    **rows((_STABLE, _REBALANCING), BrokersChanged, consumers.brokers_changed, (_REBALANCING, _STABLE)),
    **rows((_EMPTY,), BrokersChanged, consumers.brokers_changed),
    **rows(_ALL, TopicsChanged, consumers.topics_changed),
    **rows(_ALL, CoordinatorFails, consumers.coordinator_fails),
}


class ZooKeeper(Machine[ZooKeeperState, ZooKeeperMember]):
    """The high-level consumer of 0.8."""

    group = ZooKeeperState

    def __init__(self, setup: Setup) -> None:
        super().__init__("zookeeper", setup, GROUP)

    def phase_of(self, group: ZooKeeperState) -> ZooKeeperPhase:
        """Rebalancing while anybody is busy, or has not seen the newest change."""
        there = [member for member in group.members.values() if member.known]
        if not there:
            return _EMPTY
        newest = group.views[-1].number
        settled = all(not member.busy and member.seen == newest for member in there if member.stage in LIVE)
        return _STABLE if settled else _REBALANCING

    def step(self, group: ZooKeeperState, at: int) -> ZooKeeperStep:
        """A step of the group."""
        return ZooKeeperStep(group, at, self.setup)

    def stable(self, group: ZooKeeperState) -> bool:
        """Whether everyone has seen the newest change and claimed its share of it."""
        return self.phase_of(group) in (_EMPTY, _STABLE) and all(
            member.stage is not Stage.STARTING for member in group.members.values()
        )


def machine(setup: Setup) -> ZooKeeper:
    """The ZooKeeper protocol."""
    return ZooKeeper(setup)
