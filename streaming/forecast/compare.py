"""One change under each protocol, from the group as it stands: who rebalances how often, and what stands still."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple
from uuid import UUID

from streaming.protocols.families import FAMILIES
from streaming.protocols.vocabulary import Setup
from streaming.simulate import results
from streaming.simulate.run import Forecast, forecast, timing
from streaming.simulate.scenario import Happening, Scenario, StandingMember

#: A member id of a classic group: the instance id or the client id, and a UUID.
_UUID = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


#: ``group.consumer.session.timeout.ms``, which no record of a group has.
_BROKERS_SESSION_MS = 45_000


class Way(NamedTuple):
    """A way to rebalance: a protocol with an assignor; ``static``: every member has an instance id."""

    name: str
    protocol: str
    assignor: str
    static: bool = False


class Cost(NamedTuple):
    """What a change costs under one protocol; times in ms, ``total_ms`` that of all partitions together."""

    way: Way
    forecast: Forecast
    worst: tuple[str, int] | None
    worst_ms: int
    total_ms: int


def ways(own: str, assignor: str | None) -> tuple[Way, ...]:
    """Eager, cooperative, static and KIP-848; ``own`` and ``assignor`` are the group's: it keeps what it can."""
    eager = (
        assignor if own == "eager" and assignor in FAMILIES["eager"].carries else FAMILIES["eager"].default
    )
    server = assignor if own == "consumer" and assignor in FAMILIES["consumer"].carries else "uniform"
    static = "cooperative" if own == "cooperative" else "eager"
    return (
        Way("eager", "eager", eager or "range"),
        Way("cooperative", "cooperative", "cooperative-sticky"),
        Way(
            "static",
            static,
            "cooperative-sticky" if static == "cooperative" else eager or "range",
            static=True,
        ),
        Way("consumer", "consumer", server or "uniform"),
    )


def cost(
    scenario: Scenario, way: Way, *, rounds: bool = True, each: Callable[[int], None] = lambda _: None
) -> Cost:
    """The scenario played one way.

    ``rounds``: keep every round; without them large groups take little memory. ``each``: told of every event.
    """
    return as_told(_as(scenario, way), way, rounds=rounds, each=each)


def as_told(
    played: Scenario, way: Way, *, rounds: bool = True, each: Callable[[int], None] = lambda _: None
) -> Cost:
    """The same with every member as the scenario has it, not as the way would."""
    if way.protocol == "consumer":
        played = of_brokers(played)
    setup = Setup(timing(played), way.assignor, _member_ids(played, way))
    found = forecast(played, way.protocol, way.assignor, setup=setup, rounds=rounds, each=each)
    worst, worst_ms, total = None, 0, 0
    for topic, partitions in sorted(found.ledger.gaps.total.items()):
        for number, ms in enumerate(partitions):
            total += ms
            if ms > worst_ms:
                worst, worst_ms = (topic, number), ms
    return Cost(way, found, worst, worst_ms, total)


def of_brokers(scenario: Scenario) -> Scenario:
    """The scenario as KIP-848 has it: the session is the brokers' default, whatever members say of theirs."""
    return replace(scenario, session_timeout_ms=_BROKERS_SESSION_MS)


def _as(scenario: Scenario, way: Way) -> Scenario:
    """The scenario with every member as this way has it."""
    return replace(
        scenario,
        members=tuple(_member(one, way) for one in scenario.members),
        events=tuple(_event(one, way) for one in scenario.events),
    )


def _member(one: StandingMember, way: Way) -> StandingMember:
    instance = one.instance_id or (one.member if way.static else None)
    return replace(one, instance_id=instance, assignors=(), group_protocol=None)


def _event(one: Happening, way: Way) -> Happening:
    if one.kind != "join" or not way.static or one.instance_id:
        return one
    return replace(one, instance_id=one.member)


def _member_ids(scenario: Scenario, way: Way) -> Callable[[str, int], str]:
    """Member ids as Kafka makes them: those that members have, and for those to come new ones, always the same.

    Where client ids tell members apart, they are in the order that Kafka's will be in, whatever the UUIDs.
    """
    known = {one.member: one.member_id or one.member for one in scenario.members}
    prefixes = {name: _UUID.sub("", member_id) for name, member_id in known.items()}
    classic = way.protocol != "consumer"

    def member_id(name: str, incarnation: int) -> str:
        if incarnation == 1 and name in known and (classic == bool(_UUID.search(known[name]))):
            return known[name]
        digest = blake2b(f"{name} {incarnation}".encode(), digest_size=16).digest()
        if classic:
            return f"{prefixes.get(name, name)}-{UUID(bytes=digest)}"
        return urlsafe_b64encode(digest).decode().rstrip("=")

    return member_id


def document(costs: Sequence[Cost]) -> dict[str, Any]:
    """The answer for programs: as ``simulate --json``, and what each way's downtime adds up to."""
    return {"protocols": {one.way.name: {**results.protocol(one.forecast), **figures(one)} for one in costs}}


def figures(one: Cost) -> dict[str, Any]:
    """One way in figures; times in ms."""
    worst = None
    if one.worst is not None:
        worst = {"topic": one.worst[0], "partition": one.worst[1], "ms": one.worst_ms}
    ledger = one.forecast.ledger
    return {
        "assignor": one.way.assignor,
        "rebalances": ledger.rebalances,
        "roundCount": ledger.round_count,
        "moved": ledger.moved,
        "downtime": {"totalMs": one.total_ms, "worst": worst},
    }


def sentence(costs: Sequence[Cost], own: str, what: str) -> str:
    """What the change costs the group as it is, and with the way that costs least."""
    mine = next(one for one in costs if one.way.name == own)
    best = min(costs, key=lambda one: one.total_ms)
    said = f"{what} costs {seconds(mine.total_ms)} of downtime, all partitions together"
    if best.total_ms < mine.total_ms:
        return f"{said}; {seconds(best.total_ms)} {CALLED[best.way.name]}."
    return f"{said}; no other way costs less."


def seconds(ms: int) -> str:
    """``48 s``; below ten seconds with one digit."""
    return f"{ms / 1000:.1f} s" if ms < 10_000 else f"{round(ms / 1000)} s"  # noqa: PLR2004


#: A way in a sentence.
CALLED = {
    "eager": "with an eager assignor",
    "cooperative": "with cooperative rebalancing",
    "static": "with static members",
    "consumer": "with the consumer protocol (KIP-848)",
}
