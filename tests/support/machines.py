"""Helpers for simulated protocols: rounds of a scenario as plain values, and a driver that applies single events."""

from heapq import heappop, heappush
from typing import Any

from assignors.java import uuid_of
from assignors.model import Topic
from streaming.protocols.consumer.step import ConsumerMember
from streaming.protocols.families import PROTOCOL_FAMILIES, machine
from streaming.protocols.machine import StateMachine
from streaming.protocols.vocabulary import EventScheduled, GroupEvent, MachineOutput, Setup, Stage, TimingModel
from streaming.simulation.event_loop import run_scenario
from streaming.simulation.parse import load_scenario
from streaming.simulation.results import simulation_document as as_json

Rounds = list[dict[str, Any]]


def scenario(topics: str, *events: str, **settings: int) -> str:
    """Return a YAML scenario: ``scenario("p: 4", "at: 0, join: a", session_timeout_ms=10_000)``."""
    lines = [
        f"topics: {{{topics}}}",
        *(f"{name}: {value}" for name, value in settings.items()),
        "events:",
        *(f"  - {{{event}}}" for event in events),
    ]
    return "\n".join([*lines, ""])


def played(text: str, protocol: str, assignor: str | None = None, **more: Any) -> dict[str, Any]:
    """Return the JSON result of running a YAML scenario under one protocol."""
    return as_json(run_scenario(load_scenario(text), protocol, assignor, **more))


def after(round_: dict[str, Any]) -> dict[str, dict[str, list[int]]]:
    """Return each member's partitions after a round: kept and newly assigned partitions."""
    return {
        name: {
            topic: sorted([*member["kept"].get(topic, []), *member["assigned"].get(topic, [])])
            for topic in sorted({*member["kept"], *member["assigned"]})
        }
        for name, member in round_["members"].items()
    }


def round_summary(round_: dict[str, Any]) -> tuple[int, int, str, list[str]]:
    """Return a round as (generation or epoch, round number, cause, members that caused it)."""
    number = round_.get("generation", round_.get("groupEpoch"))
    return number, round_["round"], round_["cause"]["kind"], round_["cause"]["memberIds"]


def topics(**counts: int) -> dict[str, Topic]:
    """Return topics by name with these partition counts, and with an id each."""
    return {name: Topic(name, count, None, uuid_of(name)) for name, count in counts.items()}


def is_at_rest(machine: StateMachine[Any, Any], group: Any) -> bool:
    """Return True if no rebalance is in progress and every process consumes exactly its assigned partitions."""
    inner = getattr(group, "classic", None)
    if inner is not None and not is_at_rest(machine.inner, inner):  # type: ignore[attr-defined] # of the consumer protocol
        return False
    if machine.phase_of(group) not in ("Empty", "Stable") or getattr(group, "outdated", False):
        return False
    return all(
        member.stage not in (Stage.STARTING, Stage.JOINING, Stage.SYNCING)
        and (
            member.stage is not Stage.STABLE
            or not isinstance(member, ConsumerMember)
            or member.owned == member.current.assigned
        )
        for member in group.members.values()
    )


class StateMachineDriver:
    """A protocol's state machine with its current state and its queue of scheduled events."""

    def __init__(self, protocol: str, initial_topics: dict[str, Topic], **more: Any) -> None:
        assignor = more.pop("assignor", PROTOCOL_FAMILIES[protocol].default)
        self.machine: StateMachine[Any, Any] = machine(protocol, Setup(TimingModel(**more), assignor))
        self.state: Any = self.machine.initial(initial_topics)
        self.now = 0
        self.queue: list[tuple[int, int, GroupEvent]] = []
        self.outputs: list[MachineOutput] = []
        self._number = 0

    def apply(self, event: GroupEvent) -> tuple[MachineOutput, ...]:
        """Apply one event to the simulated group, and queue the events that this schedules."""
        self.now = event.at
        self.state, outputs = self.machine.apply(self.state, event)
        for output in outputs:
            if isinstance(output, EventScheduled):
                self._number += 1
                heappush(self.queue, (output.event.at, self._number, output.event))
            else:
                self.outputs.append(output)
        return outputs

    def step(self) -> tuple[MachineOutput, ...]:
        """Apply the next scheduled event to the simulated group."""
        at, _, event = heappop(self.queue)
        self.now = max(self.now, at)
        return self.apply(event)

    def until(self, at: int) -> None:
        """Apply all events that are scheduled for times before ``at``."""
        while self.queue and self.queue[0][0] < at:
            self.step()
        self.now = max(self.now, at)

    def settle(self, most: int = 20_000) -> None:
        """Apply scheduled events until the queue is empty, so that the group is stable."""
        while self.queue:
            assert most, "the group never becomes stable"
            most -= 1
            self.step()


def shares_of_p(**shares: list[int]) -> dict[str, dict[str, list[int]]]:
    """Return an assignment of the topic ``p`` by member."""
    return {name: {"p": share} if share else {} for name, share in shares.items()}
