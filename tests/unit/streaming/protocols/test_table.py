from typing import Any

import pytest

from assignors.errors import UnknownAssignor
from streaming.protocols import vocabulary
from streaming.protocols.classic.step import SyncGroup
from streaming.protocols.families import PROTOCOL_FAMILIES, machine, supported_assignor
from streaming.protocols.vocabulary import Client, Crash, Freeze, Leave, ShutDown, Start, Thaw
from tests.support.machines import StateMachineDriver, topics


@pytest.mark.parametrize("protocol", PROTOCOL_FAMILIES)
@pytest.mark.parametrize("kind", [Leave, ShutDown, Crash, Freeze, Thaw])
def test_absent_member_has_no_transitions(protocol: str, kind: type[vocabulary.MemberEvent]) -> None:
    driver = StateMachineDriver(protocol, topics(t=2))
    before = driver.state
    with pytest.raises(vocabulary.UndefinedTransition, match=f"{kind.__name__} at 7 ms: no member 'x'"):
        driver.machine.apply(driver.state, kind(7, ("x",)))
    with pytest.raises(vocabulary.UndefinedTransition):
        driver.machine.apply(driver.state, vocabulary.Subscribe(7, ("x",), ("t",)))
    assert driver.state is before


@pytest.mark.parametrize("protocol", PROTOCOL_FAMILIES)
def test_undefined_transition_raises(protocol: str) -> None:
    driver = StateMachineDriver(protocol, topics(t=2))
    client = Client("a", ("t",))
    driver.apply(Start(0, (client,)))
    driver.settle()
    for event in (Start(driver.now, (client,)), Thaw(driver.now, ("a",))):
        with pytest.raises(vocabulary.UndefinedTransition, match="is not defined in state"):
            driver.machine.apply(driver.state, event)
    driver.apply(Crash(driver.now, ("a",)))
    with pytest.raises(vocabulary.UndefinedTransition, match="Crashed"):
        driver.machine.apply(driver.state, Leave(driver.now, ("a",)))


def test_eager_v1_protocol_refuses_a_sync_group() -> None:
    driver: Any = StateMachineDriver("eager-v1", topics(t=2))
    with pytest.raises(vocabulary.UndefinedTransition, match="SyncGroup"):
        driver.machine.apply(driver.state, SyncGroup(0, ()))


@pytest.mark.parametrize(
    ("protocol", "assignor", "reason"),
    [
        ("cooperative", "range", "keep their partitions through the join"),
        ("cooperative", "sticky", "keep their partitions through the join"),
        ("eager-v1", "sticky", "does not know what members owned"),
        ("consumer", "cooperative-sticky", "server-side"),
        ("connect", "uniform", "connectors and tasks"),
        ("zookeeper", "sticky", "computes its own share"),
    ],
)
def test_an_impossible_pair_is_refused_with_the_reason(protocol: str, assignor: str, reason: str) -> None:
    with pytest.raises(vocabulary.UnsupportedPair, match=reason):
        machine(protocol, vocabulary.Setup(assignor=assignor))


def test_every_protocol_supports_its_default_assignor() -> None:
    assert {protocol: supported_assignor(protocol, None) for protocol in PROTOCOL_FAMILIES} == {
        "zookeeper": "range",
        "eager-v1": "range",
        "eager": "range",
        "cooperative": "cooperative-sticky",
        "connect": "incremental",
        "consumer": "uniform",
    }
    with pytest.raises(UnknownAssignor, match="not one of zookeeper"):
        supported_assignor("raft", None)
