"""Scenarios from live groups: the group is the start; restarts, scaling, rollouts and deploys are the events.

Data missing in the group's records are replaced by assumptions, which are listed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Any, Final, NamedTuple

from assignors.errors import BadInput
from streaming.protocols.families import PROTOCOL_FAMILIES
from streaming.records.episodes import Bounds
from streaming.simulation.live_group import LiveGroup
from streaming.simulation.scenario import InvalidScenario

#: Defaults of Kafka's clients and brokers for unrecorded timeouts, ms.
_SESSION_MS: Final = 45_000
_REBALANCE_MS: Final = 300_000
#: Kinds of groups that can't be simulated from their current state, each with the reason.
_UNSUPPORTED_KINDS: Final = {
    "connect": (
        "Connect's leader places connectors and tasks by a configuration that no record of the group has; "
        "`rebalance-monitor simulate SCENARIO --protocol connect` plays workers"
    ),
    "streams": "the cost of moving a Kafka Streams task depends on its state, which no record contains",
    "share": "members of a share group consume the same partitions side by side: none waits for another to let go",
}


class NoForecast(BadInput):
    """The group can't be forecast; the message says why."""


class Baseline(NamedTuple):
    """The start of a scenario that begins with a live group.

    ``document``: the group as a scenario without events. ``way``: name of the group's current
    :class:`~streaming.simulation.forecast.Way` to rebalance. ``protocol``: name of the group's protocol. ``unsure``:
    reasons why a forecast can't be exact, as lines of text.
    """

    document: dict[str, Any]
    way: str
    protocol: str
    assignor: str | None
    unsure: tuple[str, ...] = ()

    @property
    def members(self) -> list[str]:
        """Return the names of the baseline's members, in the order of the JoinGroup response."""
        return list(self.document["members"])


def baseline_of(group: LiveGroup) -> Baseline:
    """Return the start of a scenario that begins with this group."""
    if group.kind in _UNSUPPORTED_KINDS:
        raise NoForecast(f"group {group.group_id}: {_UNSUPPORTED_KINDS[group.kind]}")
    if not group.members:
        raise NoForecast(f"group {group.group_id}: it has no members now, so there is nothing to forecast from")
    unsure = list(group.unknown)
    topics = _topics(group, unsure)
    if not topics:
        problem = "the partition counts of its topics are unknown; `rebalance-monitor collect` publishes them"
        raise NoForecast(f"group {group.group_id}: {problem}")
    members = _members(group, topics, unsure)
    protocol = _group_protocol(group, unsure)
    times = _client_timeouts(group, unsure)
    static = sum(member.names.group_instance_id is not None for member in group.members)
    if static:
        instance_id_text = f"{static} of {len(group.members)} members have an instance id (group.instance.id)"
        unsure.append(f"{instance_id_text}: the forecast keeps it under every protocol")
    return Baseline(
        document={"topics": topics, "members": members, "generation": max(group.number, 1), **times},
        way="static" if static == len(group.members) and protocol != "consumer" else protocol,
        protocol=protocol,
        assignor=group.assignor,
        unsure=tuple(unsure),
    )


# Each of these functions appends its assumptions to ``unsure``, as lines of text.


def _topics(group: LiveGroup, unsure: list[str]) -> dict[str, Any]:
    """Return the group's topics as scenario entries; a topic of unknown size gets the partitions that members own."""
    topics: dict[str, Any] = {
        name: {"partitions": topic.partitions, "racks": topic.racks and [list(racks) for racks in topic.racks]}
        | ({"topic_id": topic.topic_id} if topic.topic_id else {})
        for name, topic in group.topics.items()
    }
    for member in group.members:
        for topic, partitions in member.owned.items():
            entry = topics.setdefault(topic, {"partitions": 0})
            if partitions and partitions[-1] >= entry["partitions"]:
                entry |= {"partitions": partitions[-1] + 1, "racks": None}
    if len(topics) > 1 and not all("topic_id" in entry for entry in topics.values()):
        unsure.append("topic ids are not known: under KIP-848 members may get other partitions than forecast, not more")
    return topics


def _members(group: LiveGroup, topics: dict[str, Any], unsure: list[str]) -> dict[str, Any]:
    names = scenario_names(group.names, group.names)
    taken: set[tuple[str, int]] = set()
    duplicate_count = 0
    members = {}
    for member in group.members:
        owned: dict[str, list[int]] = {}
        for topic, partitions in member.owned.items():
            free = [partition for partition in partitions if (topic, partition) not in taken]
            duplicate_count += len(partitions) - len(free)
            taken.update((topic, partition) for partition in free)
            owned[topic] = free
        members[names[member.member_id]] = {
            "owned": owned,
            "topics": [topic for topic in dict.fromkeys((*member.topics, *member.owned)) if topic in topics],
            "instance_id": member.names.group_instance_id,
            "rack_id": member.rack_id,
            "member_id": member.member_id,
        }
    if duplicate_count:
        unsure.append(f"{duplicate_count} partitions have two owners during this rebalance: the first owner is assumed")
    return members


def scenario_names(names: Mapping[str, str], members: Iterable[str], *, taken: Iterable[str] = ()) -> dict[str, str]:
    """Return each member's name in a scenario, by member id; names are printable, unique and without ``~``.

    ``names``: display names by member id. ``taken``: names that other members already have.
    """
    used_names, unique_names = set(taken), {}
    for member_id in members:
        display_name = names.get(member_id, member_id)
        plain = "".join(letter if letter.isprintable() and letter != "~" else "-" for letter in display_name)
        name, number = plain, 1
        while name in used_names:
            number += 1
            name = f"{plain} {number}"
        used_names.add(name)
        unique_names[member_id] = name
    return unique_names


def _group_protocol(group: LiveGroup, unsure: list[str]) -> str:
    lists = [member.assignors for member in group.members if member.assignors]
    protocol = "eager"
    if group.protocol == "consumer":
        protocol = "consumer"
        if classic := sum(member.classic for member in group.members):
            unsure.append(f"{classic} of {len(group.members)} members use the classic protocol, the forecast none")
    elif group.assignor == "cooperative-sticky":
        if any(set(assignors) != {"cooperative-sticky"} for assignors in lists):
            return "eager"
        if len(lists) < len(group.members):
            assumption = "the group is assumed to be cooperative, as its assignor is"
            unsure.append(f"members' assignor lists are not known: {assumption}")
        return "cooperative"
    family = PROTOCOL_FAMILIES[protocol]
    if group.assignor is None:
        unsure.append(f"the group's assignor is not known: {family.default} is assumed")
    elif group.assignor not in family.assignors:
        assumption = f"its assignments can't be computed; {family.default} is used instead"
        unsure.append(f"custom assignor {group.assignor}: {assumption}")
    return protocol


def _client_timeouts(group: LiveGroup, unsure: list[str]) -> dict[str, int]:
    """Return session and rebalance timeout of the group, ms: the longest of its members, or Kafka's defaults."""
    times = {}
    broker = "the brokers'" if group.protocol == "consumer" else "the client's"
    for name, default, source_text in (("session", _SESSION_MS, broker), ("rebalance", _REBALANCE_MS, "the client's")):
        field = f"{name}_timeout_ms"
        timeouts = sorted({timeout for member in group.members if (timeout := getattr(member, field))})
        if not timeouts:
            unsure.append(f"no record has the {name} timeout: {source_text} default is assumed, {default // 1000} s")
        elif name == "session" and len(timeouts) > 1:
            spread = f"{timeouts[0]} to {timeouts[-1]} ms"
            unsure.append(f"members' session timeouts differ ({spread}): the longest is assumed for all members")
        times[field] = max(timeouts, default=default)
    return times


#: An event in the format of a scenario file.
EventEntry = dict[str, Any]
#: Start of the change, ms: in the middle of a heartbeat interval, as the group's actual position in it is unknown.
BEGIN_MS = 1500
#: KIP-848's heartbeat interval, and the number of moments in it over which successive restarts are spread.
_POLL_INTERVAL_MS = 5000
_HEARTBEAT_PHASES = 8
_STRIDE = 5
#: Names of the rollout strategies.
ROLLOUT_STRATEGIES = ("surge", "blue-green", "recreate")


class RollingRestart(NamedTuple):
    """Restart of all members in the order of names: number of members at once, their downtime, and their interval (ms).

    If ``parallel`` is None, :func:`usual_batch_size` determines it.
    """

    parallel: int | None = None
    down_ms: int = 20_000
    between_ms: int = 30_000

    def events(self, names: Sequence[str], size: int) -> list[EventEntry]:
        """Return the events that restart these members of a group with ``size`` members."""
        parallel = self.parallel or usual_batch_size(size)
        return rolling_restart(sorted(names), parallel=parallel, down_ms=self.down_ms, between_ms=self.between_ms)


class Rollout(NamedTuple):
    """A rollout: its strategy, one of :data:`ROLLOUT_STRATEGIES`, and its times, which are those of a rolling restart.

    ``restart.down_ms``: from the stop of a member to the join of the next or of its successor.
    ``restart.between_ms``: from the join of a new member to the stop of an old one.
    """

    strategy: str
    restart: RollingRestart = RollingRestart()

    def events(self, names: Sequence[str], configs: Mapping[str, Mapping[str, Any]]) -> list[EventEntry]:
        """Return the events that replace these members; each successor gets its predecessor's entry in ``configs``."""
        if self.strategy == "recreate":  # Kubernetes: all members stop, then all join
            return self.restart._replace(parallel=len(names)).events(names, len(names))
        events: list[EventEntry] = []
        ordered, successors, restart = sorted(names), _new_member_names(names), self.restart
        # maxSurge (Kubernetes): some successors join, then their predecessors leave; blue-green: all successors join
        # first.
        parallel = len(names) if self.strategy == "blue-green" else restart.parallel or usual_batch_size(len(names))
        for turn, first in enumerate(range(0, len(names), parallel)):
            batch, at = ordered[first : first + parallel], BEGIN_MS + turn * (restart.between_ms + restart.down_ms)
            for name in batch:
                config = configs.get(name) or {}
                kept = {key: config[key] for key in ("topics", "rack_id", "assignors") if config.get(key)}
                events.append({"at": at, "join": next(successors), **kept})
            events += [{"at": at + restart.between_ms, "leave": name} for name in batch]
        return events


class ScaleChange(NamedTuple):
    """Change of a group's number of members."""

    to: int


class Deploy(NamedTuple):
    """A change of a group that consists of the events in a scenario file (``--deploy``)."""

    document: Any


class PastEpisode(NamedTuple):
    """The request to simulate a past episode again, identified by its number or ``last``."""

    episode: str


Change = RollingRestart | Rollout | ScaleChange | Deploy


class RequestedChange(NamedTuple):
    """A change of a group as a complete scenario, ready to be simulated.

    ``what``: subject of a sentence about the change, such as ``This rolling restart``. ``document``: the group's
    scenario with the change as events. ``measured``: bounds of a past change's downtime, summed over all
    partitions (ms).
    """

    start: Baseline
    what: str
    document: dict[str, Any]
    measured: Bounds | None = None


def single_change(*options: Change | PastEpisode | None) -> Change | PastEpisode:
    """Return the only option that requests a change; raise BadInput if there are none or several."""
    changes = [change for change in options if change is not None]
    if len(changes) != 1:
        raise BadInput("give exactly one of --rolling-restart, --scale, --deploy and --from, the change to forecast")
    return changes[0]


def request_change(start: Baseline, times: Mapping[str, int], change: Change) -> RequestedChange:
    """Return the scenario in which ``change`` happens to the group; ``times`` override times of the scenario."""
    group, names = {**start.document, **times}, start.members
    match change:
        case RollingRestart():
            events = change.events(names, len(names))
            return RequestedChange(start, "This rolling restart", {**group, "events": events})
        case Rollout():
            events = change.events(names, group["members"])
            return RequestedChange(start, f"This {change.strategy} rollout", {**group, "events": events})
        case ScaleChange(to):
            return RequestedChange(start, f"Scaling to {to} members", {**group, "events": scale_events(names, to)})
        case Deploy(document):
            return RequestedChange(start, "This deploy", _deploy_document(group, document))


def usual_batch_size(size: int) -> int:
    """Return the number of members that restart at once in a group of this size: a twentieth, at least one."""
    return max(size // 20, 1)


def rolling_restart(names: Sequence[str], *, parallel: int, down_ms: int, between_ms: int) -> list[EventEntry]:
    """Return the events of a rolling restart of ``parallel`` members at once, each of which is down for ``down_ms``.

    ``between_ms``: time from the return of members to the stop of the next members. As in a real deploy, successive
    restarts happen at different moments of the heartbeat interval, which differ by eighths of the interval.
    """
    late = min(_POLL_INTERVAL_MS, between_ms)
    events: list[EventEntry] = []
    for number, name in enumerate(names):
        turn = number // parallel
        at = BEGIN_MS + turn * (down_ms + between_ms) + turn * _STRIDE % _HEARTBEAT_PHASES * late // _HEARTBEAT_PHASES
        events.append({"at": at, "bounce": name, "down_ms": down_ms})
    return events


def _new_member_names(names: Sequence[str]) -> Iterator[str]:
    """Yield unused names for new members: ``new-1``, ``new-2``, …."""
    return (name for number in count(1) if (name := f"new-{number}") not in names)


def scale_events(names: Sequence[str], to: int) -> list[EventEntry]:
    """Return events that add new members or remove the last members, all at the same time."""
    if to < 1 or to == len(names):
        raise InvalidScenario(f"--scale {to}: the group has {len(names)} members; give another number, from 1 up")
    if to < len(names):
        return [{"at": BEGIN_MS, "leave": name} for name in names[to:]]
    return [{"at": BEGIN_MS, "join": name} for name in islice(_new_member_names(names), to - len(names))]


def _deploy_document(group: Mapping[str, Any], document: Any) -> dict[str, Any]:
    """Return a scenario that starts with the live group and has the events of the deployment file ``document``.

    Times in the file override the group's times, and topics that only the file has are added.
    """
    if not isinstance(document, dict):
        raise InvalidScenario("--deploy: the file must hold a scenario: a mapping with the key events")
    if "members" in document:
        raise InvalidScenario("--deploy: members: leave this out: a deploy starts with the group's members")
    topics = document.get("topics", {})
    if not isinstance(topics, dict):
        raise InvalidScenario("--deploy: topics: a mapping of names to partition counts is needed")
    return {**group, **document, "topics": {**topics, **group["topics"]}}
