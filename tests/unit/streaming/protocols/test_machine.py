import pytest

from streaming.protocols.families import PROTOCOL_FAMILIES
from streaming.protocols.vocabulary import Client, Crash, Start, TopicsChanged
from tests.support.machines import StateMachineDriver, is_at_rest, topics


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
