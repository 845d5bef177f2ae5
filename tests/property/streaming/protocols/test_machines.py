"""Random histories of random groups under every protocol; the invariants are checked after each event."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from streaming.protocols import vocabulary
from streaming.protocols.families import PROTOCOL_FAMILIES
from streaming.protocols.vocabulary import LIVE, Stage
from tests.support.groups import topic_partitions
from tests.support.machines import StateMachineDriver, is_at_rest, topics

NAMES = ("a", "b", "c", "d", "e")
TOPICS = ("t0", "t1", "t2")
subscriptions = st.lists(st.sampled_from(TOPICS), min_size=1, max_size=3, unique=True).map(tuple)
ASSIGNORS: dict[str, list[tuple[str, ...]]] = {
    "cooperative": [(), ("cooperative-sticky",), ("cooperative-sticky", "range")],
    "eager": [(), ("range", "roundrobin"), ("range", "sticky"), ("cooperative-sticky", "range")],
}

_USUAL_TIMEOUTS = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 20_000, "scheduled_rebalance_delay_ms": 15_000}
#: Timers as in production, and timers of a few milliseconds, which end at the same moments.
TIMINGS = (
    {**_USUAL_TIMEOUTS, "initial_rebalance_delay_ms": 0},
    {**_USUAL_TIMEOUTS, "initial_rebalance_delay_ms": 3000},
    {
        "heartbeat_ms": 4,
        "processing_ms": 4,
        "consumer_heartbeat_ms": 5,
        "session_timeout_ms": 14,
        "rebalance_timeout_ms": 20,
        "scheduled_rebalance_delay_ms": 11,
        "initial_rebalance_delay_ms": 3,
        "assignment_interval_ms": 5,
        "metadata_age_ms": 2,
        "zookeeper_backoff_ms": 3,
    },
)


class MemberLifecycleMachine(RuleBasedStateMachine):
    """Processes start, leave, stop, crash, freeze and continue while time passes in steps of any size."""

    protocol = "eager"
    assignor: str | None = None
    #: Classic and consumer members in one group (KIP-848's online migration).
    mixed = False

    @initialize(timing=st.sampled_from(TIMINGS), lag=st.integers(0, 3))
    def begin(self, timing: dict[str, int], lag: int) -> None:
        more: dict[str, Any] = {"assignor": self.assignor} if self.assignor else {}
        self.driver = StateMachineDriver(self.protocol, topics(t0=3, t1=4, t2=1), **timing, **more)
        setup = replace(self.driver.machine.setup, view_lag=lambda name, change: lag * (ord(name[0]) + change) % 9)
        self.driver.machine.setup = setup
        self.counts = {"t0": 3, "t1": 4, "t2": 1}
        self.number = 0
        self.instances: dict[str, bool] = {}

    def member(self, name: str) -> Any:
        member = self.driver.state.members.get(name)
        classic = getattr(self.driver.state, "classic", None)
        return classic.members.get(name) if member is None and classic is not None else member

    def stage(self, name: str) -> Stage | None:
        member = self.member(name)
        return None if member is None else member.stage

    def apply(self, event: vocabulary.GroupEvent) -> None:
        """Apply an event; assert that an invalid event raises an error and changes nothing."""
        before = self.driver.state
        try:
            self.driver.apply(event)
        except vocabulary.UndefinedTransition:
            assert self.driver.state is before
            assert isinstance(event, vocabulary.MemberEvent | vocabulary.Start)
            if isinstance(event, vocabulary.Start):
                assert any(self.stage(client.name) in (*LIVE, Stage.FROZEN) for client in event.clients)
                return
            stages = [self.stage(name) for name in event.names]
            if isinstance(event, vocabulary.Thaw):
                assert any(stage is not Stage.FROZEN for stage in stages)
            else:
                assert any(stage not in LIVE for stage in stages)

    @rule(name=st.sampled_from(NAMES), chosen=subscriptions, static=st.booleans(), data=st.data())
    def start(self, name: str, chosen: tuple[str, ...], static: bool, data: st.DataObject) -> None:
        # An instance id belongs to one process permanently; duplicates have their own test.
        static = self.instances.setdefault(name, static)
        assignors = data.draw(st.sampled_from(ASSIGNORS.get(self.protocol, [()])))
        if self.protocol == "cooperative" and any(
            member.client.assignors == ("cooperative-sticky", "range") for member in self.driver.state.members.values()
        ):
            assignors = ("cooperative-sticky", "range")
        instance = f"i-{name}" if static else None
        group_protocol = data.draw(st.sampled_from(["classic", "consumer"])) if self.mixed else None
        client = vocabulary.Client(name, chosen, instance, None, self.common(assignors), group_protocol)
        self.apply(vocabulary.Start(self.driver.now, (client,)))

    def common(self, assignors: tuple[str, ...]) -> tuple[str, ...]:
        """Return these assignors plus the group's default, as Kafka rejects members without a common assignor."""
        default = self.assignor or PROTOCOL_FAMILIES[self.protocol].default
        return assignors if not assignors or default in assignors else (*assignors, default)

    @rule(
        names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True),
        kind=st.sampled_from(
            [vocabulary.Leave, vocabulary.ShutDown, vocabulary.Crash, vocabulary.Freeze, vocabulary.Thaw]
        ),
    )
    def apply_to_members(self, names: list[str], kind: Any) -> None:
        self.apply(kind(self.driver.now, tuple(names)))

    @rule(name=st.sampled_from(NAMES), chosen=subscriptions)
    def subscribe(self, name: str, chosen: tuple[str, ...]) -> None:
        self.apply(vocabulary.Subscribe(self.driver.now, (name,), chosen))

    @rule(topic=st.sampled_from(TOPICS), more=st.integers(1, 2))
    def grow(self, topic: str, more: int) -> None:
        self.counts[topic] = min(self.counts[topic] + more, 8)
        self.apply(vocabulary.TopicsChanged(self.driver.now, topics(**{topic: self.counts[topic]})))

    @rule()
    def coordinator_fails(self) -> None:
        self.apply(vocabulary.CoordinatorFails(self.driver.now))

    @rule(ms=st.sampled_from([1, 2, 5, 9, 500, 3000, 7000, 12_000, 30_000]))
    def wait(self, ms: int) -> None:
        end = self.driver.now + ms
        while self.driver.queue and self.driver.queue[0][0] < end:
            self.step()
        self.driver.now = max(self.driver.now, end)

    @precondition(lambda self: self.driver.queue)
    @rule()
    def step(self) -> None:
        self.driver.step()
        self.check()

    @invariant()
    def check(self) -> None:
        if not hasattr(self, "driver"):
            return
        assert_single_owners(self.driver.machine.owned(self.driver.state))
        for output in self.driver.outputs:
            if isinstance(output, vocabulary.NewRound):
                assert output.number >= self.number
                # An empty group of the other protocol is deleted, and a new one begins.
                self.number = 0 if self.mixed and not output.after else output.number
                assert_single_owners(output.after)
        self.driver.outputs.clear()

    def teardown(self) -> None:
        """Check that the group settles without further changes, and that every partition then has one owner."""
        if not hasattr(self, "driver"):
            return
        frozen_members = tuple(name for name in NAMES if self.stage(name) is Stage.FROZEN)
        if frozen_members:
            self.apply(vocabulary.Thaw(self.driver.now, frozen_members))
        most = 2000
        while self.driver.queue:
            most -= 1
            assert most, f"never at rest: {self.driver.queue[0][2]}"
            self.step()
        state = self.driver.state
        assert is_at_rest(self.driver.machine, state)
        live = {name for name in NAMES if self.stage(name) in LIVE}
        wanted = (
            {topic for name in live for topic in self.member(name).client.topics}
            if self.protocol != "connect"
            else (set(self.counts) if live else set())
        )
        owned = topic_partitions(self.driver.machine.owned(state).values())
        assert owned == sorted((topic, p) for topic in wanted for p in range(self.counts[topic]))


def assert_single_owners(assignment: Mapping[str, Mapping[str, Iterable[int]]]) -> None:
    owned = Counter(topic_partitions(assignment.values()))
    assert not {partition: count for partition, count in owned.items() if count > 1}


CASES = [
    *((protocol, assignor, False) for protocol, family in PROTOCOL_FAMILIES.items() for assignor in family.assignors),
    ("consumer", "uniform", True),
    ("consumer", "range", True),
]


@pytest.mark.parametrize(("protocol", "assignor", "mixed"), CASES)
def test_random_histories_keep_the_invariants(protocol: str, assignor: str, mixed: bool) -> None:
    """Invariants hold in random histories: in 60 by default, in 2000 with ``MACHINE_EXAMPLES=2000``."""
    fields = {"protocol": protocol, "assignor": assignor, "mixed": mixed}
    run_state_machine_as_test(
        type(f"Lifecycles_{protocol}", (MemberLifecycleMachine,), fields),
        settings=settings(
            max_examples=int(os.environ.get("MACHINE_EXAMPLES") or 60),
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            # Runs are not shrunk, which would take minutes for runs this long; the failing run is printed unchanged.
            phases=(Phase.explicit, Phase.reuse, Phase.generate),
        ),
    )
