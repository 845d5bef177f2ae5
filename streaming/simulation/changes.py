"""Changes of a live group as scenario events: rolling restart, scaling, rollouts, deploy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Any, NamedTuple

from assignors.errors import BadInput
from streaming.simulation.baseline import Baseline
from streaming.simulation.scenario import InvalidScenario

#: An event in the format of a scenario file.
Entry = dict[str, Any]

#: Start of the change, ms: in the middle of a heartbeat interval, as a group's position in its interval is unknown.
BEGIN_MS = 1500
#: KIP-848's heartbeat interval, and the number of moments in it over which successive restarts are spread.
_INTERVAL_MS = 5000
_MOMENTS = 8
_STRIDE = 5


#: Rollouts by the name of their strategy.
ROLLOUTS = ("surge", "blue-green", "recreate")


class NoChange(BadInput):
    """No change was requested, or more than one."""


class RollingRestart(NamedTuple):
    """Restart of all members, in the order of names: how many at once, their time away and the pause between; ms.

    ``parallel`` None: by :func:`usual_parallel`.
    """

    parallel: int | None = None
    down_ms: int = 20_000
    between_ms: int = 30_000

    def events(self, names: Sequence[str], size: int) -> list[Entry]:
        """Return the restart events of these members of a group of ``size``."""
        return rolling_restart(
            sorted(names),
            parallel=self.parallel or usual_parallel(size),
            down_ms=self.down_ms,
            between_ms=self.between_ms,
        )


class Rollout(NamedTuple):
    """A rollout by the name of its strategy, one of :data:`ROLLOUTS`, with the times of a rolling restart.

    ``restart.down_ms``: from the stop of a member to the join of the next or of its successor.
    ``restart.between_ms``: from the join of a new member to the stop of an old one.
    """

    strategy: str
    restart: RollingRestart = RollingRestart()

    def events(self, names: Sequence[str], configs: Mapping[str, Mapping[str, Any]]) -> list[Entry]:
        """Return the rollout events of these members; successors get the ``configs`` of their predecessors."""
        if self.strategy == "recreate":  # Kubernetes: all members stop, then all join
            return self.restart._replace(parallel=len(names)).events(names, len(names))
        events: list[Entry] = []
        ordered, successors, restart = sorted(names), _new_names(names), self.restart
        # maxSurge (Kubernetes): successors join before members leave; blue-green: all of them.
        parallel = len(names) if self.strategy == "blue-green" else restart.parallel or usual_parallel(len(names))
        for turn, first in enumerate(range(0, len(names), parallel)):
            batch, at = ordered[first : first + parallel], BEGIN_MS + turn * (restart.between_ms + restart.down_ms)
            events += [_successor(next(successors), at, configs.get(name)) for name in batch]
            events += [{"at": at + restart.between_ms, "leave": name} for name in batch]
        return events


class Scale(NamedTuple):
    """Change of the number of members."""

    to: int


class Deploy(NamedTuple):
    """Change given by the document of a scenario file."""

    document: Any


class PastEpisode(NamedTuple):
    """Repetition of a past episode, given by its number or ``last``."""

    episode: str


Change = RollingRestart | Rollout | Scale | Deploy


class MeasuredDowntime(NamedTuple):
    """Bounds of the downtime of a past episode, all partitions together, ms; ``upper_ms`` None: no upper bound."""

    lower_ms: int
    upper_ms: int | None

    def includes(self, total_ms: int) -> bool:
        """Return True if a forecast of ``total_ms`` is within the bounds."""
        return self.lower_ms <= total_ms and (self.upper_ms is None or total_ms <= self.upper_ms)


class RequestedChange(NamedTuple):
    """A change of a group, ready to be simulated.

    ``what``: subject of a sentence about the change, such as ``This rolling restart``; ``document``: the group's
    scenario with the change as events; ``measured``: the measured downtime of a past change.
    """

    start: Baseline
    what: str
    document: dict[str, Any]
    measured: MeasuredDowntime | None = None


def single_change(*options: Change | PastEpisode | None) -> Change | PastEpisode:
    """Return the requested change; refuse none or several."""
    changes = [change for change in options if change is not None]
    if len(changes) != 1:
        raise NoChange("say one of --rolling-restart, --scale, --deploy and --from: what is to change")
    return changes[0]


def request_change(start: Baseline, times: Mapping[str, int], change: Change) -> RequestedChange:
    """Return a change of a group; ``times`` override the scenario's times."""
    group, names = {**start.document, **times}, start.members
    match change:
        case RollingRestart():
            events = change.events(names, len(names))
            return RequestedChange(start, "This rolling restart", {**group, "events": events})
        case Rollout():
            events = change.events(names, group["members"])
            return RequestedChange(start, f"This {change.strategy} rollout", {**group, "events": events})
        case Scale(to):
            return RequestedChange(start, f"Scaling to {to} members", {**group, "events": scale_events(names, to)})
        case Deploy(document):
            return RequestedChange(start, "This deploy", _deploy_document(group, document))


def usual_parallel(size: int) -> int:
    """Return how many members of a group of this size restart at once: a twentieth."""
    return max(size // 20, 1)


def rolling_restart(names: Sequence[str], *, parallel: int, down_ms: int, between_ms: int) -> list[Entry]:
    """Return the events of a rolling restart, ``parallel`` members at once, each down for ``down_ms``.

    ``between_ms``: from the return of members to the stop of the next ones. As in a real deploy, successive restarts
    happen at different moments of the heartbeat interval: each is shifted by another eighth of it.
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


def _successor(name: str, at: int, config: Mapping[str, Any] | None) -> Entry:
    """Return the join event of a member with its predecessor's configuration, except for the instance id."""
    kept = {key: (config or {}).get(key) for key in ("topics", "rack_id", "assignors")}
    return {"at": at, "join": name, **{key: value for key, value in kept.items() if value}}


def _new_names(names: Sequence[str]) -> Iterator[str]:
    """Yield unused names for new members, from ``new-1`` on."""
    return (name for number in count(1) if (name := f"new-{number}") not in names)


def scale_events(names: Sequence[str], to: int) -> list[Entry]:
    """Return events that add members, or remove the last members, all at once."""
    if to < 1 or to == len(names):
        raise InvalidScenario(f"--scale {to}: the group has {len(names)} members; give another number, from 1 up")
    if to < len(names):
        return [{"at": BEGIN_MS, "leave": name} for name in names[to:]]
    return [{"at": BEGIN_MS, "join": name} for name in islice(_new_names(names), to - len(names))]


def _deploy_document(group: Mapping[str, Any], document: Any) -> dict[str, Any]:
    """Return a scenario file's document with the group as its start.

    Events are from the file; its times override the group's, and its additional topics are added.
    """
    if not isinstance(document, dict):
        raise InvalidScenario("--deploy: a scenario is needed, a mapping with events")
    if "members" in document:
        raise InvalidScenario("--deploy: members: they are the group's own; leave them out and name them in events")
    topics = document.get("topics", {})
    if not isinstance(topics, dict):
        raise InvalidScenario("--deploy: topics: a mapping of names to partition counts is needed")
    return {**group, **document, "topics": {**topics, **group["topics"]}}
