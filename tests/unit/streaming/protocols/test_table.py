from typing import Any

import pytest

from assignors.errors import UnknownAssignor
from streaming.protocols import vocabulary
from streaming.protocols.classic.step import SyncGroup
from streaming.protocols.families import PROTOCOL_FAMILIES, machine, supported_assignor
from streaming.protocols.vocabulary import Client, Crash, Freeze, Leave, ShutDown, Start, Thaw, TopicsChanged
from tests.support.machines import StateMachineDriver, is_at_rest, topics


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


@pytest.mark.parametrize("protocol", PROTOCOL_FAMILIES)
def test_group_is_stable_once_everyone_owns_its_target(protocol: str) -> None:
    driver = StateMachineDriver(protocol, topics(t=4))

    assert is_at_rest(driver.machine, driver.state)
    for event in (
        Start(0, (Client("a", ("t",)),)),
        Start(60_000, (Client("b", ("t",)),)),
        TopicsChanged(120_000, topics(t=6)),
    ):
        driver.until(event.at)
        assert is_at_rest(driver.machine, driver.state)
        driver.apply(event)
        rest_by_step = [is_at_rest(driver.machine, driver.state)]
        while driver.queue and driver.queue[0][0] < event.at + 60_000:
            driver.step()
            rest_by_step.append(is_at_rest(driver.machine, driver.state))
        shares = driver.machine.owned(driver.state)
        assert rest_by_step[-1], event
        assert False in rest_by_step, event
        assert sorted(p for share in shares.values() for p in share.get("t", ())) == list(
            range(6 if event.at == 120_000 else 4)
        )


@pytest.mark.parametrize("protocol", PROTOCOL_FAMILIES)
def test_restarted_process_does_not_inherit_state(protocol: str) -> None:
    """A crashed process restarts before its session ends: the new process inherits no state from the crashed one."""
    driver = StateMachineDriver(protocol, topics(t=4))
    for at, name in ((0, "a"), (60_000, "b")):
        driver.apply(Start(at, (Client(name, ("t",)),)))
        driver.until(at + 30_000)
    kept = driver.state
    shares = {field: dict(getattr(kept, field)) for field in ("held", "targets") if getattr(kept, field, None)}
    driver.apply(Crash(driver.now, ("a",)))
    driver.apply(Start(driver.now + 1, (Client("a", ("t",)),)))
    (old_member,) = driver.state.members.keys() - {"a", "b"}
    for field, before in shares.items():
        renamed = {old_member if name == "a" else name: share for name, share in before.items()}
        assert getattr(driver.state, field) == renamed, field
        assert old_member in renamed
    if hasattr(kept, "leader"):
        assert driver.state.leader == {"a": old_member, "b": "b"}[kept.leader]
