"""Built-in scenarios for any number of members and partitions."""

from collections.abc import Callable
from typing import Any, NamedTuple

from assignors.errors import BadInput
from streaming.simulation.changes import BEGIN_MS, EventEntry, Rollout
from streaming.simulation.parse import MAX_PARTITIONS, parse_scenario
from streaming.simulation.scenario import InvalidScenario, Scenario

#: The largest number of members; a rolling restart of so many takes most of a minute to simulate under one protocol.
MAX_MEMBERS = 1000


class BuiltinScenario(NamedTuple):
    """A built-in scenario for any number of members and partitions."""

    description: str
    events: Callable[[int, int], list[EventEntry]]
    members: int = 4
    partitions: int = 12


#: Time at which the change begins (ms); the group becomes stable long before.
_BEGIN = 60_000


def _joins(count: int, *, static: bool = False, **config: Any) -> list[EventEntry]:
    return [
        {"at": 0, "join": f"c{number}", **({"instance_id": f"i-{number}"} if static else {}), **config}
        for number in range(1, count + 1)
    ]


def _rolling_restart(count: int, begin: int = _BEGIN, **config: Any) -> list[EventEntry]:
    return [{"at": begin + 20_000 * turn, "bounce": f"c{turn + 1}", "down_ms": 8000, **config} for turn in range(count)]


def _repeat_entry(ms: int, count: int, entry: Callable[[int], EventEntry]) -> list[EventEntry]:
    """Return ``count`` event entries of a scenario, ``ms`` apart."""
    return [{"at": _BEGIN + ms * turn, **entry(turn)} for turn in range(count)]


def _one_event(**entry: Any) -> Callable[[int, int], list[EventEntry]]:
    return lambda n, _: [*_joins(n), {"at": _BEGIN, **{key: value or f"c{n}" for key, value in entry.items()}}]


def _rollout(strategy: str) -> Callable[[int, int], list[EventEntry]]:
    def events(members: int, _: int) -> list[EventEntry]:
        rollout = Rollout(strategy).events([f"c{number}" for number in range(1, members + 1)], {})
        return _joins(members) + [{**event, "at": event["at"] - BEGIN_MS + _BEGIN} for event in rollout]

    return events


def _two_restarts(n: int, _: int) -> list[EventEntry]:
    both_assignors, cooperative_only = ["cooperative-sticky", "range"], ["cooperative-sticky"]
    second = _rolling_restart(n, _BEGIN + 20_000 * n, assignors=cooperative_only)
    return _joins(n, assignors=["range"]) + _rolling_restart(n, assignors=both_assignors) + second


def _deploy_events(n: int, _: int) -> list[EventEntry]:
    return _joins(n) + _rolling_restart(n)


BUILTIN_SCENARIOS: dict[str, BuiltinScenario] = {
    "rolling-restart": BuiltinScenario("every member restarts, one after the other", _deploy_events, members=6),
    "deploy-dynamic": BuiltinScenario("a deploy of members without group.instance.id", _deploy_events),
    "deploy-static": BuiltinScenario(
        "the same deploy with group.instance.id", lambda n, _: _joins(n, static=True) + _rolling_restart(n)
    ),
    "surge": BuiltinScenario("a deploy with maxSurge: one joins before one leaves", _rollout("surge")),
    "blue-green": BuiltinScenario("a second set of members joins, the first leaves", _rollout("blue-green")),
    "recreate": BuiltinScenario("all members leave, then all join again", _rollout("recreate")),
    "scale-out": BuiltinScenario(
        "a quarter more members, one every ten seconds",
        lambda n, _: _joins(n) + _repeat_entry(10_000, max(n // 4, 1), lambda index: {"join": f"c{n + 1 + index}"}),
    ),
    "scale-in": BuiltinScenario(
        "a quarter of the members leaves, one every ten seconds",
        lambda n, _: _joins(n) + _repeat_entry(10_000, min(max(n // 4, 1), n - 1), lambda at: {"leave": f"c{n - at}"}),
    ),
    "crash": BuiltinScenario("one member crashes without leaving the group", _one_event(crash=None), 3, 9),
    "long-gc": BuiltinScenario(
        "one member pauses for longer than its session timeout", _one_event(pause=None, down_ms=70_000), 3, 9
    ),
    "flapping": BuiltinScenario(
        "one member restarts every fifteen seconds",
        lambda n, _: _joins(n) + _repeat_entry(15_000, 5, lambda _: {"bounce": f"c{n}", "down_ms": 5000}),
        members=3,
        partitions=9,
    ),
    "partition-growth": BuiltinScenario(
        "the topic gets half as many partitions again",
        lambda n, p: [*_joins(n), {"at": _BEGIN, "partitions": {"orders": p + max(p // 2, 1)}}],
        members=3,
        partitions=8,
    ),
    "two-bounces": BuiltinScenario("from range to cooperative-sticky in two rolling bounces", _two_restarts, 3, 9),
    "classic-to-consumer": BuiltinScenario(
        "from the classic to the consumer protocol, one member at each bounce",
        lambda n, _: _joins(n, group_protocol="classic") + _rolling_restart(n, group_protocol="consumer"),
        members=3,
        partitions=9,
    ),
}


def builtin_document(name: str, members: int | None = None, partitions: int | None = None) -> dict[str, Any]:
    """Return a built-in scenario as a document, like that of a scenario file."""
    scenario = BUILTIN_SCENARIOS.get(name)
    if scenario is None:
        problem = f"no file {name!r}, and no built-in scenario of that name"
        raise BadInput(f"SCENARIO: {problem}: {', '.join(BUILTIN_SCENARIOS)}")
    members = scenario.members if members is None else members
    partitions = scenario.partitions if partitions is None else partitions
    for option, value, most in (("--members", members, MAX_MEMBERS), ("--partitions", partitions, MAX_PARTITIONS)):
        if not 1 <= value <= most:
            raise InvalidScenario(f"{option}: {value}; at least 1, at most {most}")
    return {"topics": {"orders": partitions}, "events": scenario.events(members, partitions)}


def load_builtin_scenario(name: str, members: int | None = None, partitions: int | None = None) -> Scenario:
    """Return the built-in scenario of this name, with this number of members and partitions."""
    return parse_scenario(builtin_document(name, members, partitions))
