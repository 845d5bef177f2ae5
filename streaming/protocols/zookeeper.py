"""The ZooKeeper protocol: no coordinator; every consumer computes its own share from its own view.

A change under ``ids``, ``brokers/ids`` or ``brokers/topics`` wakes every consumer (herd effect). Each stops,
releases its ``owners`` nodes, reads, computes and claims. A claim on a node that still exists fails: the
consumer gives back what it had claimed and tries again after ``rebalance.backoff.ms``, as often as it takes.
Consumers read at different members of the ensemble; one whose member lags sees an older group, claims the
wrong partitions, and rebalances once more when its watch fires.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from assignors.model import Share, Topic
from streaming.protocols import zookeeper_group as group
from streaming.protocols.classic import PROCESS
from streaming.protocols.classic_state import LIVE, Stage
from streaming.protocols.table import Table, look_up, rows
from streaming.protocols.vocabulary import (
    CoordinatorFails,
    Event,
    MemberEvent,
    Output,
    Sent,
    Setup,
    Start,
    TopicsChanged,
    UndefinedTransition,
)
from streaming.protocols.zookeeper_state import (
    BrokersChanged,
    Claimed,
    Closed,
    Phase,
    Registered,
    SessionGone,
    State,
    Watched,
)
from streaming.protocols.zookeeper_step import Step

_EMPTY, _REBALANCING, _STABLE = Phase.EMPTY, Phase.REBALANCING, Phase.STABLE
_ALL = tuple(Phase)

#: The group as a whole.
GROUP: Table = {
    **rows((_EMPTY,), Registered, "registered", (_EMPTY, _REBALANCING), "node under ids"),
    **rows((_REBALANCING, _STABLE), Registered, "registered", (_REBALANCING, _STABLE)),
    **rows((_STABLE, _REBALANCING), Closed, "closed", _ALL, "nodes gone"),
    **rows((_EMPTY,), Closed, "closed"),
    **rows((_STABLE, _REBALANCING), SessionGone, "closed", _ALL, "session expired"),
    **rows((_EMPTY,), SessionGone, "closed"),
    **rows((_STABLE, _REBALANCING), Watched, "watched", (_REBALANCING,), "everyone wakes"),
    **rows((_EMPTY,), Watched, "watched"),
    **rows((_REBALANCING,), Claimed, "claimed", (_REBALANCING, _STABLE), "all claims hold"),
    **rows((_STABLE, _EMPTY), Claimed, "claimed"),
    **rows((_STABLE, _REBALANCING), BrokersChanged, "brokers_changed", (_REBALANCING, _STABLE)),
    **rows((_EMPTY,), BrokersChanged, "brokers_changed"),
    **rows(_ALL, TopicsChanged, "topics_changed"),
    **rows(_ALL, CoordinatorFails, "coordinator_fails"),
}


def phase_of(state: State) -> Phase:
    """Rebalancing while anybody is busy, or has not seen the newest change."""
    there = [member for member in state.members.values() if member.registered]
    if not there:
        return _EMPTY
    newest = state.views[-1].number
    settled = all(not member.busy and member.seen == newest for member in there if member.stage in LIVE)
    return _STABLE if settled else _REBALANCING


_HANDLERS: Mapping[str, Callable[[Step, Any], object]] = {
    row.handler: getattr(group, row.handler) for row in (*GROUP.values(), *PROCESS.values())
}
_PROCESS_HANDLERS: Mapping[type[Event], str] = {event: row.handler for (_, event), row in PROCESS.items()}


class ZooKeeper:
    """The high-level consumer of 0.8."""

    name = "zookeeper"

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    def initial(self, topics: Mapping[str, Topic]) -> State:
        """A group that nobody has joined yet."""
        return State(topics=topics)

    def apply(self, state: State, event: Event) -> tuple[State, tuple[Output, ...]]:
        """The state after ``event``, and what follows from it.

        Raises:
            UndefinedTransition: the protocol defines nothing for this event in this state; nothing changed.
            InvalidGroup: an assignor refuses the group.
        """
        if isinstance(event, (MemberEvent, Start)):
            self._check(state, event)
            handler = _HANDLERS[_PROCESS_HANDLERS[type(event)]]
        else:
            handler = _HANDLERS[look_up(GROUP, self.name, phase_of(state), event).handler]
        step = Step(state, event.at, self.setup)
        handler(step, event)
        return step.done()

    def _check(self, state: State, event: Event) -> None:
        names = event.names if isinstance(event, MemberEvent) else ()
        if isinstance(event, Start):
            names = tuple(client.name for client in event.clients if client.name in state.members)
        for name in names:
            member = state.members.get(name)
            if member is None:
                raise UndefinedTransition(
                    f"{self.name}: {type(event).__name__} at {event.at} ms: no member {name!r}"
                )
            look_up(PROCESS, f"{self.name}: {name}", member.stage, event)

    def stable(self, state: State) -> bool:
        """Whether everyone has seen the newest change and claimed its share of it."""
        return phase_of(state) in (_EMPTY, _STABLE) and all(
            member.stage is not Stage.STARTING for member in state.members.values()
        )

    def owned(self, state: State) -> dict[str, Share]:
        """What each process consumes now."""
        return {
            name: member.owned
            for name, member in state.members.items()
            if member.owned and member.stage is not Stage.FROZEN
        }

    def heartbeats(self, state: State, until: int) -> list[Sent]:
        """Session pings are ZooKeeper's own business: none are counted."""
        del state, until
        return []


def machine(setup: Setup) -> ZooKeeper:
    """The ZooKeeper protocol."""
    return ZooKeeper(setup)
