"""Runs a scenario in a deterministic loop of timed events, on the pure state machine of a protocol."""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from heapq import heappop, heappush
from typing import Any

from msgspec import structs

from assignors.errors import BadInput
from streaming.protocols import vocabulary
from streaming.protocols.families import PROTOCOL_FAMILIES, machine, supported_assignor
from streaming.protocols.machine import StateMachine
from streaming.simulation.results import Simulation, SimulationResult
from streaming.simulation.scenario import InvalidScenario, PlannedEvent, Scenario, ScenarioEvent, plan_events

_Model = StateMachine[Any, Any]


def make_timing(scenario: Scenario) -> vocabulary.TimingModel:
    """Return the timing model of a scenario: its timeouts, and at least three heartbeats per timeout."""
    longest = max(min(scenario.session_timeout_ms, scenario.rebalance_timeout_ms) // 3, 1)
    usual = vocabulary.TimingModel()
    return vocabulary.TimingModel(
        heartbeat_ms=scenario.heartbeat_ms or min(usual.heartbeat_ms, longest),
        consumer_heartbeat_ms=scenario.consumer_heartbeat_ms or min(usual.consumer_heartbeat_ms, longest),
        processing_ms=usual.processing_ms if scenario.processing_ms is None else scenario.processing_ms,
        session_timeout_ms=scenario.session_timeout_ms,
        rebalance_timeout_ms=scenario.rebalance_timeout_ms,
        scheduled_rebalance_delay_ms=scenario.scheduled_rebalance_delay_ms,
        metadata_age_ms=scenario.metadata_max_age_ms,
    )


def seeded_lag(seed: int, largest_ms: int) -> Callable[[str, int], int]:
    """Return a function that returns the lag (0 to ``largest_ms``) with which a ZooKeeper consumer reads a change."""

    def lag(name: str, change: int) -> int:
        return int.from_bytes(blake2b(f"{seed} {name} {change}".encode(), digest_size=8).digest()) % (largest_ms + 1)

    return lag


def run_scenario(
    scenario: Scenario,
    protocol: str,
    assignor: str | None = None,
    *,
    setup: vocabulary.Setup | None = None,
    rounds: bool = True,
    view_lag_ms: int = 0,
    seed: int = 0,
    on_step: Callable[[int], None] = lambda _: None,
) -> Simulation:
    """Run a scenario under a protocol until the group is stable.

    ``setup`` replaces the scenario's timeouts and plain member ids. ``rounds``: keep every round, not only the number
    of rounds. ``view_lag_ms``: the largest lag of a ZooKeeper view; ``seed`` determines the lags. ``on_step`` is called
    with the argument 1 after each scenario event.

    Raises:
        ImpossiblePair: the protocol does not support the assignor.
        InvalidScenario: an event can't happen under this protocol; the message names the event.
        BadInput: the group does not become stable.
    """
    assignor = supported_assignor(protocol, assignor)
    if setup is None:
        ids = scenario.member_ids

        def member_id(name: str, incarnation: int) -> str:
            return ids.get(name, name) if incarnation == 1 else name

        setup = vocabulary.Setup(make_timing(scenario), assignor, member_id, seeded_lag(seed, view_lag_ms))
    result = SimulationResult(scenario.topics, rounds=rounds)
    return Simulation(protocol, assignor, result, _run(machine(protocol, setup), scenario, result, on_step))


def _apply_event(
    model: _Model, state: Any, event: vocabulary.GroupEvent, source: ScenarioEvent | None, *, is_own: bool
) -> tuple[Any, tuple[vocabulary.MachineOutput, ...]]:
    """Apply an event to the state; raise InvalidScenario, which names ``source``, if the scenario is the reason."""
    try:
        return model.apply(state, event)
    except vocabulary.InconsistentGroupProtocol as error:
        raise InvalidScenario(f"{source}: {error}") from error
    except vocabulary.UndefinedTransition as error:
        if is_own or source is None:
            raise
        raise InvalidScenario(f"{source}: {source.kind}: {error}") from error


def _drop_ended_members(event: vocabulary.GroupEvent, ended: set[str]) -> vocabulary.GroupEvent | None:
    """Return the event without processes that have ended already; None if no process remains."""
    if isinstance(event, vocabulary.Start):
        ended.difference_update(client.name for client in event.clients)
        return event
    if not isinstance(event, vocabulary.MemberEvent):
        return event
    names = tuple(name for name in event.names if name not in ended)
    return structs.replace(event, names=names) if names else None


def _run(model: _Model, scenario: Scenario, result: SimulationResult, on_step: Callable[[int], None]) -> int:
    """Run a scenario's events in order of time; return the simulated time (ms) at which the group became stable.

    Pending timers do not delay that time, as brokers also keep the timers of finished rebalances.
    """
    timing = model.setup.timing
    # The longest time that is simulated after the last event: a day and the longest timeout.
    timeouts = (timing.session_timeout_ms, timing.rebalance_timeout_ms, timing.scheduled_rebalance_delay_ms)
    patience_ms = 24 * 3600 * 1000 + max(*timeouts, timing.metadata_age_ms)
    queue: list[tuple[int, int, vocabulary.GroupEvent, PlannedEvent | None]] = [
        (planned.event.at, number, planned.event, planned) for number, planned in enumerate(plan_events(scenario))
    ]
    last = queue[-1][0] if queue else 0
    number = len(queue)
    state, end = model.initial(scenario.topics), 0
    if scenario.members:
        state = model.resume(scenario.topics, scenario.members, scenario.generation)
        result.set_start(frozenset(t for held in scenario.members for t in held.client.topics), model.owned(state))
    ended: set[str] = set()
    source: ScenarioEvent | None = None
    while queue:
        at, _, queued_event, planned = heappop(queue)
        event = queued_event if planned is None or not ended else _drop_ended_members(queued_event, ended)
        if event is None:
            continue
        if isinstance(event, vocabulary.TopicsChanged):
            result.set_topics(event.topics, at)
        if planned is not None:
            source = planned.trigger
            on_step(1)
        state, outputs = _apply_event(model, state, event, source, is_own=planned is None)
        if planned is not None or outputs:
            end = at
        if end > last + patience_ms:
            raise BadInput(f"{model.name}: the group is not stable {patience_ms} ms after the last event")
        for output in outputs:
            if isinstance(output, vocabulary.EventScheduled):
                heappush(queue, (output.event.at, number, output.event, None))
                number += 1
            elif isinstance(output, vocabulary.FatalErrors):
                ended.update(output.names)
            else:
                result.add_output(output, at)
    for sent in model.heartbeats(state, end):
        result.add_output(sent, end)
    return end


def protocol_assignor_pairs(protocols: Sequence[str], assignors: Sequence[str]) -> list[tuple[str, str]]:
    """Return ``(protocol, assignor)`` for each requested protocol; without any, for all protocols.

    An assignor is given as ``NAME`` for every protocol, or as ``PROTOCOL=NAME``. With ``all``, a protocol that does not
    support ``NAME`` uses its default assignor; an explicitly requested protocol raises ImpossiblePair. An unknown
    protocol raises UnknownAssignor.
    """
    has_all_protocols = not protocols or "all" in protocols
    chosen = list(PROTOCOL_FAMILIES) if has_all_protocols else list(dict.fromkeys(protocols))
    named: dict[str, str] = {}
    plain: str | None = None
    for word in assignors:
        protocol, equals, assignor = word.partition("=")
        if not equals:
            plain = word
            continue
        supported_assignor(protocol, assignor)
        if protocol not in chosen:
            problem = f"the protocol {protocol} is not among {', '.join(chosen)}"
            raise vocabulary.UnsupportedPair(f"--assignor: {word}: {problem}")
        named[protocol] = assignor
    supporting_protocols = [protocol for protocol, family in PROTOCOL_FAMILIES.items() if plain in family.assignors]
    if has_all_protocols and plain is not None and not supporting_protocols:
        every = ", ".join(dict.fromkeys(name for family in PROTOCOL_FAMILIES.values() for name in family.assignors))
        raise vocabulary.UnsupportedPair(f"--assignor: no protocol can run {plain!r}; known assignors: {every}")
    usual = {protocol: plain for protocol in chosen if not has_all_protocols or protocol in supporting_protocols}
    return [(protocol, supported_assignor(protocol, named.get(protocol, usual.get(protocol)))) for protocol in chosen]
