"""Forecasts of a change of a live group: its cost under each rebalance protocol."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final, NamedTuple
from uuid import UUID

from assignors.java import uuid_of
from streaming.protocols.families import PROTOCOL_FAMILIES
from streaming.protocols.vocabulary import Client, Setup
from streaming.simulation import results
from streaming.simulation.changes import RequestedChange
from streaming.simulation.event_loop import make_timing, run_scenario
from streaming.simulation.parse import parse_scenario
from streaming.simulation.results import Simulation
from streaming.simulation.scenario import Scenario, ScenarioEvent

#: The UUID at the end of a member id in a classic group, which follows the instance id or the client id.
_UUID = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
#: Default of ``group.consumer.session.timeout.ms``, as the records of a group do not contain the setting.
_BROKERS_SESSION_MS = 45_000


class Way(NamedTuple):
    """A way to rebalance: a protocol with an assignor; ``static``: every member has an instance id."""

    name: str
    protocol: str
    assignor: str
    static: bool = False


class ChangeCost(NamedTuple):
    """Cost of a change under one way to rebalance, ms; ``total_ms`` is the downtime summed over all partitions."""

    way: Way
    simulation: Simulation
    worst: tuple[str, int] | None
    worst_ms: int
    total_ms: int
    range_ms: tuple[int, int] = (0, 0)  # lowest and highest total_ms with other reaction times; (0, 0): not simulated


def ways(own: str, assignor: str | None) -> tuple[Way, ...]:
    """Return the ways to rebalance (eager, cooperative, static, KIP-848), if possible with the group's assignor."""
    eager, server = _assignor("eager", own, assignor), _assignor("consumer", own, assignor)
    eager_way, cooperative = Way("eager", "eager", eager), Way("cooperative", "cooperative", "cooperative-sticky")
    similar_way = cooperative if own == "cooperative" else eager_way
    return eager_way, cooperative, similar_way._replace(name="static", static=True), Way("consumer", "consumer", server)


def find_way(name: str, own: str | None = None, assignor: str | None = None) -> Way:
    """Return the way to rebalance with this name; ``own``, ``assignor``: the group's protocol and assignor."""
    return next(way for way in ways(own or name, assignor) if way.name == name)


def _assignor(protocol: str, own: str, assignor: str | None) -> str:
    """Return the group's assignor if the group uses ``protocol``, else the default assignor of ``protocol``."""
    family = PROTOCOL_FAMILIES[protocol]
    return assignor if assignor is not None and own == protocol and assignor in family.assignors else family.default


def simulate_cost(
    scenario: Scenario,
    way: Way,
    *,
    keeps_configured: bool = False,
    rounds: bool = True,
    on_step: Callable[[int], None] = lambda _: None,
) -> ChangeCost:
    """Simulate the scenario under one way to rebalance, and return the cost; large groups need ``rounds`` False.

    ``keeps_configured``: the scenario's members keep their assignors, protocols and instance ids.
    """
    if not keeps_configured:
        scenario = _scenario_of_way(scenario, way)
    if way.protocol == "consumer":
        scenario = replace(scenario, session_timeout_ms=_BROKERS_SESSION_MS)
    setup = Setup(make_timing(scenario), way.assignor, _member_ids(scenario, way))
    simulation = run_scenario(scenario, way.protocol, way.assignor, setup=setup, rounds=rounds, on_step=on_step)
    worst, worst_ms = None, 0
    for topic, partitions in sorted(simulation.result.unavailable_ms.items()):
        longest = max(partitions, default=0)
        if longest > worst_ms:
            worst, worst_ms = (topic, partitions.index(longest)), longest
    return ChangeCost(way, simulation, worst, worst_ms, simulation.unavailable_ms)


def _scenario_of_way(scenario: Scenario, way: Way) -> Scenario:
    def client(of: Client) -> Client:
        instance_id = of.instance_id or (of.name if way.static else None)
        return replace(of, instance_id=instance_id, assignors=(), group_protocol=None)

    def joined(event: ScenarioEvent) -> ScenarioEvent:
        return replace(event, instance_id=event.instance_id or event.member) if event.kind == "join" else event

    return replace(
        scenario,
        members=tuple(held._replace(client=client(held.client)) for held in scenario.members),
        events=tuple(map(joined, scenario.events) if way.static else scenario.events),
    )


def _member_ids(scenario: Scenario, way: Way) -> Callable[[str, int], str]:
    """Return a function that generates member ids in Kafka's format; the ids of new members are deterministic.

    If all members have different client ids, the generated ids sort as the real ids do, whatever the UUIDs are.
    """
    ids = scenario.member_ids
    prefixes = {name: _UUID.sub("", member_id) for name, member_id in ids.items()}
    classic = way.protocol != "consumer"

    def member_id(name: str, incarnation: int) -> str:
        if incarnation == 1 and name in ids and (classic == bool(_UUID.search(ids[name]))):
            return ids[name]
        if not classic:
            return uuid_of(f"{name} {incarnation}")
        digest = blake2b(f"{name} {incarnation}".encode(), digest_size=16).digest()
        return f"{prefixes.get(name, name)}-{UUID(bytes=digest)}"

    return member_id


def cost_figures(cost: ChangeCost) -> dict[str, Any]:
    """Return the cost of a change under one way to rebalance as a JSON object; times are in ms."""
    worst = cost.worst and {"topic": cost.worst[0], "partition": cost.worst[1], "ms": cost.worst_ms}
    result = cost.simulation.result
    return {
        "assignor": cost.way.assignor,
        "rebalances": result.rebalances,
        "roundCount": result.round_count,
        "moved": result.moved,
        "downtime": {"totalMs": cost.total_ms, "worst": worst},
    }


def cost_sentence(costs: Sequence[ChangeCost], own: str, what: str) -> str:
    """Return a sentence about a change's downtime as the group is configured, and in the cheapest way to rebalance."""
    own_cost = next(cost for cost in costs if cost.way.name == own)
    best = min(costs, key=lambda cost: cost.total_ms)
    sentence = f"{what} costs {format_seconds(own_cost.total_ms)} of downtime, all partitions together"
    if best.total_ms < own_cost.total_ms:
        return f"{sentence}; {format_seconds(best.total_ms)} {PROTOCOL_PHRASES[best.way.name]}."
    return f"{sentence}; no other way costs less."


def format_seconds(ms: int) -> str:
    """Return a duration as text such as ``48 s``, with one decimal below ten seconds."""
    return f"{ms / 1000:.1f} s" if ms < 10_000 else f"{round(ms / 1000)} s"  # noqa: PLR2004


#: Phrases for the ways to rebalance.
PROTOCOL_PHRASES = {
    "eager": "with an eager assignor",
    "cooperative": "with cooperative rebalancing",
    "static": "with static members",
    "consumer": "with the consumer protocol (KIP-848)",
}
#: The largest number of rows (one per member and round) that a forecast lists; more rounds are only counted.
MAX_FORECAST_ROWS: Final = 100_000
#: Estimate for that limit: the largest number of rounds that an event causes, summed over all ways to rebalance.
_MAX_ROUNDS_PER_EVENT: Final = 10


class Forecast(NamedTuple):
    """Forecast of a change's cost. ``own``: the group's current way to rebalance; ``unsure``: the forecast's limits."""

    what: str
    own: str
    plan: Scenario
    costs: Sequence[ChangeCost]
    sentence: str
    unsure: tuple[str, ...]


def forecast_change(
    change: RequestedChange, *, rounds: bool = True, on_step: Callable[[int], None] = lambda _: None
) -> Forecast:
    """Simulate a change under every way to rebalance, and return the forecast."""
    start, plan = change.start, parse_scenario(change.document)
    has_few_rows = len(plan.events) * _MAX_ROUNDS_PER_EVENT * max(len(plan.members), 1) <= MAX_FORECAST_ROWS
    all_ways = ways(start.protocol, start.assignor)
    costs = [simulate_cost(plan, way, rounds=rounds and has_few_rows, on_step=on_step) for way in all_ways]
    sentence, unsure = cost_sentence(costs, start.way, change.what), list(start.unsure)
    if change.measured is not None:
        own = next(cost for cost in costs if cost.way.name == start.way)
        lower, upper = (ms if ms is None else format_seconds(ms) for ms in change.measured)
        bounds = f"at least {lower}" if upper is None else f"{lower} to {upper}"
        sentence = f"{sentence} When it happened, {bounds} were measured."
        least, most = change.measured
        if own.total_ms < least or (most is not None and own.total_ms > most):
            unsure.append(
                f"the forecast, {format_seconds(own.total_ms)}, is not what was measured, {bounds}: members' own "
                "times differ from those assumed here; believe the measurement"
            )
    model, brokers = make_timing(plan), make_timing(replace(plan, session_timeout_ms=_BROKERS_SESSION_MS))
    unsure.append(
        f"downtime depends on how often members heartbeat ({model.heartbeat_ms} ms; under KIP-848 "
        f"{brokers.consumer_heartbeat_ms} ms) and how long they process what one poll gave ({model.processing_ms} ms), "
        "which is in no record: set --heartbeat and --processing"
    )
    cooperative = [cost.simulation.result for cost in costs if cost.way.protocol == "cooperative"]
    if any(result.round_count > result.rebalances for result in cooperative):
        unsure.append(  # in Kafka the timing of these rounds depends on chance
            "a cooperative rebalance takes a round more where a member asks for its share only after another that "
            "gave something up has joined again"
        )
    if rounds and not has_few_rows:
        unsure.append(f"rounds are counted and not listed: there would be more than {MAX_FORECAST_ROWS} rows of them")
    return Forecast(change.what, start.way, plan, costs, sentence, tuple(unsure))


def forecast_document(group_id: str, forecast: Forecast) -> dict[str, Any]:
    """Return the JSON document that ``forecast --json`` prints."""
    return {
        "groupId": group_id,
        "change": forecast.what,
        "now": forecast.own,
        "sentence": forecast.sentence,
        "unsure": list(forecast.unsure),
        "sessionTimeoutMs": forecast.plan.session_timeout_ms,
        "rebalanceTimeoutMs": forecast.plan.rebalance_timeout_ms,
        "protocols": {
            cost.way.name: {**results.simulation_document(cost.simulation), **cost_figures(cost)}
            for cost in forecast.costs
        },
    }
