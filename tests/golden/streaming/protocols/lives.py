"""Random lives of groups, and everything that a machine answers to one, as lines of text."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, NamedTuple
from zlib import crc32

from assignors.errors import InvalidGroup
from assignors.model import Share
from streaming.protocols.families import FAMILIES
from streaming.protocols.vocabulary import (
    Announced,
    Client,
    CoordinatorFails,
    Crash,
    Ended,
    Freeze,
    Handover,
    InconsistentGroupProtocol,
    Leave,
    MachineEvent,
    MachineOutput,
    Owns,
    Sent,
    Start,
    Stop,
    Subscribe,
    Thaw,
    TopicsChanged,
    UndefinedTransition,
    Wants,
    dynamic_id,
)
from tests.support.machines import Driver, topics

NAMES = ("anna", "bo", "cy", "dora", "emil")
TOPICS = ("t0", "t1", "t2")
#: (protocol, assignor, members of both protocols in one group).
SORTS = [
    *((protocol, assignor, False) for protocol, family in FAMILIES.items() for assignor in family.carries),
    ("consumer", "uniform", True),
    ("consumer", "range", True),
]
_LISTS: dict[str, list[tuple[str, ...]]] = {
    "cooperative": [(), ("cooperative-sticky",), ("cooperative-sticky", "range")],
    "eager": [(), ("range", "roundrobin"), ("roundrobin", "range"), ("sticky", "range")],
    "consumer": [(), ("cooperative-sticky",), ("range",)],
}
#: How long nothing happens from outside, ms: within a request, a heartbeat, a session, and long enough.
_PAUSES = (0, 1, 2, 3, 40, 700, 3000, 7000, 12_000, 31_000, 90_000)
#: The same where everything takes milliseconds: two things that end together meet in every life.
_SHORT_PAUSES = (0, 0, 1, 2, 3, 4, 5, 6, 7, 9, 12, 40)

_KINDS: list[Any] = [
    *(Start, Start, Start, Start, Leave, Stop, Stop, Crash, Crash, Freeze, Freeze, Thaw, Thaw),
    *(Subscribe, Subscribe, TopicsChanged, CoordinatorFails),
]


class Life(NamedTuple):
    """What a group goes through."""

    protocol: str
    assignor: str
    timing: dict[str, int]
    lag: int
    crowd: bool
    events: list[MachineEvent]


def life(
    number: int, protocol: str, assignor: str, mixed: bool, count: int = 30, *, tight: bool = False
) -> Life:
    """A random life: processes come and go, alone and together, and topics grow.

    ``tight``: heartbeats, sessions and timers are a few milliseconds long, so that they end at the same moments.
    """
    chance = random.Random(f"{number} {protocol} {assignor} {mixed}{' tight' * tight}")
    timing = _tight(chance) if tight else _usual(chance)
    static = {name: chance.random() < 0.4 for name in NAMES}
    # Every other one is a crowd, whose ids fill the coordinator's table as random ones do.
    names = [*NAMES, *(f"w{one}" for one in range(20 * (number % 2)))]
    at = 0
    events: list[MachineEvent] = []
    there: dict[type[MachineEvent] | None, list[str]] = {None: list(names), Start: [], Freeze: []}
    for turn in range(count):
        at += chance.choice(_SHORT_PAUSES if tight else _PAUSES)
        kind = chance.choice(_KINDS) if turn > 2 else Start
        if kind is CoordinatorFails:
            events.append(CoordinatorFails(at))
        elif kind is TopicsChanged:
            events.append(
                TopicsChanged(
                    at, topics(**{chance.choice(TOPICS): chance.randint(2, 7) * (1 + 2 * (number % 2))})
                )
            )
        else:
            where = there[None if kind is Start else Freeze if kind is Thaw else Start]
            # Now and then it is one of whom that cannot be so.
            several = _some(chance, where if where and chance.random() < 0.93 else names)
            if turn < 3 and len(names) > len(NAMES):
                several = names[len(NAMES) + 7 * turn :][:7]
            clients = [_client(chance, name, protocol, mixed=mixed, static=static) for name in several]
            if kind is Start:
                events.append(Start(at, tuple(clients)))
            elif kind is Subscribe:
                events.append(Subscribe(at, tuple(several), clients[0].topics))
            else:
                events.append(kind(at, tuple(several)))
            for name in several if kind is not Subscribe else ():
                for one in there.values():
                    if name in one:
                        one.remove(name)
                there[{Start: Start, Thaw: Start, Freeze: Freeze}.get(kind)].append(name)
    lag = chance.randrange(4) if protocol == "zookeeper" else 0
    return Life(protocol, assignor, timing, lag, bool(number % 2), events)


def _usual(chance: random.Random) -> dict[str, int]:
    """Timers as they are in production, but for their delays."""
    return {
        "network_ms": chance.choice([1, 5]),
        "initial_rebalance_delay_ms": chance.choice([0, 3000]),
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": chance.choice([5_000, 20_000]),
        "scheduled_rebalance_delay_ms": 15_000,
        "metadata_age_ms": chance.choice([0, 2_000]),
    }


def _tight(chance: random.Random) -> dict[str, int]:
    """Milliseconds; a rebalance still leaves time for the busiest member."""
    return {
        "network_ms": chance.choice([1, 2]),
        "heartbeat_ms": chance.randint(3, 6),
        "processing_ms": chance.choice([0, 4, 6]),
        "consumer_heartbeat_ms": chance.randint(3, 6),
        "session_timeout_ms": chance.randint(12, 18),
        "rebalance_timeout_ms": chance.randint(16, 24),
        "scheduled_rebalance_delay_ms": chance.randint(0, 20),
        "initial_rebalance_delay_ms": chance.choice([0, 1, 3, 5, 8]),
        "assignment_interval_ms": chance.choice([0, 1, 3, 7]),
        "metadata_age_ms": chance.randint(0, 5),
        "zookeeper_backoff_ms": chance.randint(1, 6),
    }


def _some(chance: random.Random, names: list[str]) -> list[str]:
    return chance.sample(names, min(chance.choice([1, 1, 1, 2]), len(names)))


def _client(
    chance: random.Random, name: str, protocol: str, *, mixed: bool, static: dict[str, bool]
) -> Client:
    # Now and then one comes with another's instance id.
    whose = chance.choice(NAMES) if chance.random() < 0.1 else name
    instance = f"i-{whose}" if static.get(whose) else None
    assignors = chance.choice(_LISTS.get(protocol, [()])) if chance.random() < 0.3 else ()
    speaks = chance.choice(["classic", "consumer"]) if mixed else None
    chosen = tuple(chance.sample(TOPICS, chance.randint(1, 3)))
    return Client(name, chosen, instance, chance.choice([None, "r1", "r2"]), assignors, speaks)


def begun(lived: Life) -> Driver:
    """A machine that has heard nothing yet of this life."""
    driver = Driver(lived.protocol, topics(t0=3, t1=4, t2=1), assignor=lived.assignor, **lived.timing)
    driver.machine.setup = replace(
        driver.machine.setup,
        view_lag=lambda name, change: lived.lag * (ord(name[0]) + change) % 9,
        member_id=_random_id if lived.crowd else dynamic_id,
    )
    return driver


def answers(lived: Life) -> list[str]:
    """Everything that the machine says to this life, and in which state it leaves the group."""
    driver = begun(lived)
    found: list[str] = []
    for event in lived.events:
        _until(driver, event.at, found)
        found.append(f"{event.at} {type(event).__name__} {_of_whom(event)}")
        try:
            driver.tell(event)
        except (UndefinedTransition, InconsistentGroupProtocol, InvalidGroup) as error:
            found.append(f"  {type(error).__name__}: {error}")
        _take(driver, found)
        stable = "at rest" if driver.machine.stable(driver.state) else "moving"
        found.append(f"  {driver.machine.phase_of(driver.state)}, {stable}")
    _until(driver, driver.now + 1_000_000, found)
    beats = ", ".join(_said(one) for one in driver.machine.heartbeats(driver.state, driver.now + 60_000))
    found.append(f"{driver.now} {beats}")
    for name, member in driver.state.members.items():
        found.append(
            f"  {name} {member.stage} {'known' if member.known else 'unknown'} {_share(member.owned)}"
        )
    found.append(f"  {sorted(driver.machine.owned(driver.state))}")
    return found


def _random_id(name: str, incarnation: int) -> str:
    return f"{crc32(f'{name}{incarnation}'.encode()):08x}"


def _until(driver: Driver, at: int, found: list[str]) -> None:
    most = 5_000
    while driver.queue and driver.queue[0][0] < at:
        assert most, "the group never comes to rest"
        most -= 1
        before = len(found)
        try:
            driver.step()
        except (InconsistentGroupProtocol, InvalidGroup) as error:
            found.append(f"  {type(error).__name__}: {error}")
        _take(driver, found)
        if len(found) > before:
            found[before] = f"{driver.now} {found[before].strip()}"
    driver.now = max(driver.now, at)


def _take(driver: Driver, found: list[str]) -> None:
    found += [f"  {_said(output)}" for output in driver.outputs]
    driver.outputs.clear()


def _of_whom(event: Any) -> str:
    if isinstance(event, Start):
        return "; ".join(
            " ".join(
                filter(
                    None,
                    (
                        one.name,
                        "+".join(one.topics),
                        one.instance_id,
                        one.rack_id,
                        ",".join(one.assignors),
                        one.group_protocol,
                    ),
                )
            )
            for one in event.clients
        )
    if isinstance(event, TopicsChanged):
        return " ".join(f"{name}:{topic.partitions}" for name, topic in event.topics.items())
    return " ".join(
        [*getattr(event, "names", ()), *(["+".join(event.topics)] if hasattr(event, "topics") else [])]
    )


def _said(output: MachineOutput) -> str:
    match output:
        case Sent(kind, times):
            return f"{kind} x{times}"
        case Owns(shares):
            return "owns " + "; ".join(f"{name} {_share(share)}" for name, share in shares.items())
        case Wants(names):
            return "wants " + " ".join(sorted(names))
        case Handover(before, after):
            return f"{before} becomes {after}"
        case Ended(names):
            return "ended " + " ".join(names)
        case Announced(number, first, reason, after):
            shares = "; ".join(f"{name} {_share(share)}" for name, share in after.items())
            which = "begins" if first else "follows"
            return f"round {number} {which}, {reason.kind} {' '.join(reason.members)}: {shares}"
    raise AssertionError(output)


def _share(share: Share) -> str:
    return " ".join(f"{topic}:{','.join(map(str, share[topic]))}" for topic in sorted(share)) or "-"
