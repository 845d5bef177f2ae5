"""Changes of a live group as scenario events: rolling restart, scaling, deploy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, islice
from typing import Any, NamedTuple

from assignors.errors import BadInput
from streaming.simulation.baseline import Baseline
from streaming.simulation.scenario import InvalidScenario

#: An event as a scenario's file could hold it.
Entry = dict[str, Any]

#: When the change begins, ms: in the middle of a heartbeat interval, as nothing says where in it a group is.
BEGIN_MS = 1500
#: The longest interval between heartbeats, KIP-848's, in so many moments; a turn is at another than the one before.
_INTERVAL_MS = 5000
_MOMENTS = 8
_STRIDE = 5


class NoChange(BadInput):
    """No change was requested, or more than one."""


class RollingRestart(NamedTuple):
    """Every member, in the order of names: how many at once, for how long, how long after each other; ms.

    ``parallel`` None: :func:`usual_parallel` of the group.
    """

    parallel: int | None = None
    down_ms: int = 20_000
    between_ms: int = 30_000

    def events(self, names: Sequence[str], size: int) -> list[Entry]:
        """Return the restart of these members of a group of ``size``."""
        return rolling_restart(
            sorted(names),
            parallel=self.parallel or usual_parallel(size),
            down_ms=self.down_ms,
            between_ms=self.between_ms,
        )


class Scale(NamedTuple):
    """Change the group to so many members."""

    to: int


class Deploy(NamedTuple):
    """The document of a scenario file."""

    told: Any


class PastEpisode(NamedTuple):
    """A past episode by its number, or ``last``."""

    episode: str


Change = RollingRestart | Scale | Deploy


class MeasuredDowntime(NamedTuple):
    """Bounds of the downtime of a past episode, all partitions together, ms; ``upper_ms`` None: no upper bound."""

    lower_ms: int
    upper_ms: int | None

    def includes(self, total_ms: int) -> bool:
        """Return True if a forecast of so much downtime agrees with the bounds."""
        return self.lower_ms <= total_ms and (self.upper_ms is None or total_ms <= self.upper_ms)


class RequestedChange(NamedTuple):
    """A change of a group, ready to be simulated.

    Attributes:
        start: where the group stands.
        what: the change in a sentence, such as ``This rolling restart``.
        document: the group's scenario, with the events that are the change.
        measured: its downtime where it has happened; None: nothing was measured, or it has not happened.
    """

    start: Baseline
    what: str
    document: dict[str, Any]
    measured: MeasuredDowntime | None = None


def single_change(*asked: Change | PastEpisode | None) -> Change | PastEpisode:
    """Return the one change that was requested.

    Raises:
        NoChange: none is, or more than one.
    """
    found = [one for one in asked if one is not None]
    if len(found) != 1:
        raise NoChange("say one of --rolling-restart, --scale, --deploy and --from: what is to change")
    return found[0]


def request_change(start: Baseline, times: Mapping[str, int], change: Change) -> RequestedChange:
    """Return a change of a group; ``times`` replace scenario times.

    Raises:
        InvalidScenario: it can't happen to this group.
    """
    group, names = {**start.document, **times}, start.members
    match change:
        case RollingRestart():
            events = change.events(names, len(names))
            return RequestedChange(start, "This rolling restart", {**group, "events": events})
        case Scale(to):
            return RequestedChange(
                start, f"Scaling to {to} members", {**group, "events": scale_events(names, to)}
            )
        case Deploy(told):
            return RequestedChange(start, "This deploy", deploy_document(group, told))


def usual_parallel(size: int) -> int:
    """Return how many members of a group of this size restart at once: a twentieth."""
    return max(size // 20, 1)


def rolling_restart(names: Sequence[str], *, parallel: int, down_ms: int, between_ms: int) -> list[Entry]:
    """Return events of a rolling restart, ``parallel`` members at once, each down for ``down_ms``.

    ``between_ms``: from the return of some to the stop of the next. No two turns come at the same moment of a
    heartbeat interval, as in no deploy they do: each is late by another eighth of it.
    """
    late = min(_INTERVAL_MS, between_ms)
    return [
        {
            "at": BEGIN_MS + turn * (down_ms + between_ms) + turn * _STRIDE % _MOMENTS * late // _MOMENTS,
            "bounce": name,
            "down_ms": down_ms,
        }
        for turn, name in ((number // parallel, name) for number, name in enumerate(names))
    ]


def scale_events(names: Sequence[str], to: int) -> list[Entry]:
    """Return events that add members, or remove the last ones, all at once.

    Raises:
        InvalidScenario: that is no change.
    """
    if to < 1 or to == len(names):
        raise InvalidScenario(
            f"--scale {to}: the group has {len(names)} members; give another number, from 1 up"
        )
    if to < len(names):
        return [{"at": BEGIN_MS, "leave": name} for name in names[to:]]
    free = (name for number in count(1) if (name := f"new-{number}") not in names)
    return [{"at": BEGIN_MS, "join": name} for name in islice(free, to - len(names))]


def deploy_document(group: Mapping[str, Any], told: Any) -> dict[str, Any]:
    """Return a scenario file's document with the group as its start.

    The file's events happen; its times stand in place of the group's; topics that the group lacks are added.

    Raises:
        InvalidScenario: the file is no scenario, or says who is in the group.
    """
    if not isinstance(told, dict):
        raise InvalidScenario("--deploy: a scenario is needed, a mapping with events")
    if "members" in told:
        raise InvalidScenario(
            "--deploy: members: they are the group's own; leave them out and name them in events"
        )
    topics = told.get("topics", {})
    if not isinstance(topics, dict):
        raise InvalidScenario("--deploy: topics: a mapping of names to partition counts is needed")
    return {**group, **told, "topics": {**topics, **group["topics"]}}
