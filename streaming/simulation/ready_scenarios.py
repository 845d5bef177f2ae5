"""Built-in scenarios for any number of members and partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from assignors.errors import BadInput
from streaming.simulation.changes import BEGIN_MS, Rollout
from streaming.simulation.parse import MAX_PARTITIONS, parse_scenario
from streaming.simulation.scenario import InvalidScenario, Scenario

#: An event as a file could hold it.
Entry = dict[str, Any]

#: A rolling restart of so many takes most of a minute to play under one protocol.
MAX_MEMBERS = 1000


class UnknownScenario(BadInput):
    """There is no such file, and no ready scenario of this name."""


class ReadyScenario(NamedTuple):
    """A built-in scenario for any number of members and partitions."""

    says: str
    members: int
    partitions: int
    events: Callable[[int, int], list[Entry]]


#: When the story begins: everyone has settled long before.
_BEGIN = 60_000


def _joins(count: int, at: int = 0, first: int = 1, **more: Any) -> list[Entry]:
    return [{"at": at, "join": f"c{number}", **more} for number in range(first, first + count)]


def _static_joins(count: int) -> list[Entry]:
    return [{"at": 0, "join": f"c{number}", "instance_id": f"i-{number}"} for number in range(1, count + 1)]


def _roll(count: int, every: int = 20_000, down: int = 8000, begin: int = _BEGIN, **more: Any) -> list[Entry]:
    return [
        {"at": begin + every * turn, "bounce": f"c{turn + 1}", "down_ms": down, **more}
        for turn in range(count)
    ]


def _rolling_restart(members: int, partitions: int) -> list[Entry]:
    del partitions
    return _joins(members) + _roll(members)


def _deploy_static(members: int, partitions: int) -> list[Entry]:
    del partitions
    return _static_joins(members) + _roll(members)


def _scale_out(members: int, partitions: int) -> list[Entry]:
    del partitions
    return _joins(members) + [
        event
        for turn in range(max(members // 4, 1))
        for event in _joins(1, _BEGIN + 10_000 * turn, members + 1 + turn)
    ]


def _scale_in(members: int, partitions: int) -> list[Entry]:
    del partitions
    gone = min(max(members // 4, 1), members - 1)
    return _joins(members) + [
        {"at": _BEGIN + 10_000 * turn, "leave": f"c{members - turn}"} for turn in range(gone)
    ]


def _crash(members: int, partitions: int) -> list[Entry]:
    del partitions
    return [*_joins(members), {"at": _BEGIN, "crash": f"c{members}"}]


def _long_pause(members: int, partitions: int) -> list[Entry]:
    del partitions
    return [*_joins(members), {"at": _BEGIN, "pause": f"c{members}", "down_ms": 70_000}]


def _flapping(members: int, partitions: int) -> list[Entry]:
    del partitions
    name = f"c{members}"
    return _joins(members) + [
        {"at": _BEGIN + 15_000 * turn, "bounce": name, "down_ms": 5000} for turn in range(5)
    ]


def _growth(members: int, partitions: int) -> list[Entry]:
    return [*_joins(members), {"at": _BEGIN, "partitions": {"orders": partitions + max(partitions // 2, 1)}}]


def _two_bounces(members: int, partitions: int) -> list[Entry]:
    del partitions
    second = _BEGIN + 20_000 * members
    return [
        *_joins(members, assignors=["range"]),
        *_roll(members, assignors=["cooperative-sticky", "range"]),
        *_roll(members, begin=second, assignors=["cooperative-sticky"]),
    ]


def _to_consumer(members: int, partitions: int) -> list[Entry]:
    del partitions
    return _joins(members, group_protocol="classic") + _roll(members, group_protocol="consumer")


def _rollout(strategy: str) -> Callable[[int, int], list[Entry]]:
    def events(members: int, partitions: int) -> list[Entry]:
        del partitions
        names = [f"c{number}" for number in range(1, members + 1)]
        later = _BEGIN - BEGIN_MS
        return _joins(members) + [
            {**event, "at": event["at"] + later} for event in Rollout(strategy).events(names, {})
        ]

    return events


READY_SCENARIOS: dict[str, ReadyScenario] = {
    "rolling-restart": ReadyScenario("every member restarts, one after the other", 6, 12, _rolling_restart),
    "deploy-dynamic": ReadyScenario("a deploy of members without group.instance.id", 4, 12, _rolling_restart),
    "deploy-static": ReadyScenario("the same deploy with group.instance.id", 4, 12, _deploy_static),
    "surge": ReadyScenario("a deploy with maxSurge: one joins before one leaves", 4, 12, _rollout("surge")),
    "blue-green": ReadyScenario(
        "a second set of members joins, the first leaves", 4, 12, _rollout("blue-green")
    ),
    "recreate": ReadyScenario("all members leave, then all join again", 4, 12, _rollout("recreate")),
    "scale-out": ReadyScenario("a quarter more members, one every ten seconds", 4, 12, _scale_out),
    "scale-in": ReadyScenario("a quarter of the members leaves, one every ten seconds", 4, 12, _scale_in),
    "crash": ReadyScenario("one member crashes without leaving the group", 3, 9, _crash),
    "long-gc": ReadyScenario("one member pauses for longer than its session timeout", 3, 9, _long_pause),
    "flapping": ReadyScenario("one member restarts every fifteen seconds", 3, 9, _flapping),
    "partition-growth": ReadyScenario("the topic gets half as many partitions again", 3, 8, _growth),
    "two-bounces": ReadyScenario(
        "from range to cooperative-sticky in two rolling bounces", 3, 9, _two_bounces
    ),
    "classic-to-consumer": ReadyScenario(
        "from the classic to the consumer protocol, one member at each bounce", 3, 9, _to_consumer
    ),
}


def ready_document(name: str, members: int | None = None, partitions: int | None = None) -> dict[str, Any]:
    """Return the document of a built-in scenario.

    Raises:
        UnknownScenario: there is none of this name; the message lists those there are.
        InvalidScenario: too few or too many members or partitions.
    """
    found = READY_SCENARIOS.get(name)
    if found is None:
        raise UnknownScenario(
            f"SCENARIO: no file {name!r}, and no ready scenario of that name: {', '.join(READY_SCENARIOS)}"
        )
    members = found.members if members is None else members
    partitions = found.partitions if partitions is None else partitions
    for option, value, most in (
        ("--members", members, MAX_MEMBERS),
        ("--partitions", partitions, MAX_PARTITIONS),
    ):
        if not 1 <= value <= most:
            raise InvalidScenario(f"{option}: {value}; at least 1, at most {most}")
    return {"topics": {"orders": partitions}, "events": found.events(members, partitions)}


def list_ready_scenarios() -> list[dict[str, Any]]:
    """Return each built-in scenario as a JSON object."""
    return [
        {"name": name, "says": one.says, "members": one.members, "partitions": one.partitions}
        for name, one in READY_SCENARIOS.items()
    ]


def load_ready_scenario(name: str, members: int | None = None, partitions: int | None = None) -> Scenario:
    """Return a built-in scenario."""
    return parse_scenario(ready_document(name, members, partitions))
