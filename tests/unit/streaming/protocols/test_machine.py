"""What holds of every protocol's machine."""

from __future__ import annotations

import pytest

from streaming.protocols.families import FAMILIES
from streaming.protocols.vocabulary import Client, Start, TopicsChanged
from tests.support.machines import Driver, topics


@pytest.mark.parametrize("protocol", FAMILIES)
def test_a_group_is_at_rest_once_everyone_has_what_is_meant_for_them_and_not_before(protocol: str) -> None:
    driver = Driver(protocol, topics(t=4))

    def at_rest() -> bool:
        return driver.machine.stable(driver.state)

    assert at_rest()
    for event in (
        Start(0, (Client("a", ("t",)),)),
        Start(60_000, (Client("b", ("t",)),)),
        TopicsChanged(120_000, topics(t=6)),
    ):
        driver.until(event.at)
        assert at_rest()
        driver.tell(event)
        moving = [at_rest()]
        while driver.queue and driver.queue[0][0] < event.at + 60_000:
            driver.step()
            moving.append(at_rest())
        shares = driver.machine.owned(driver.state)
        assert moving[-1], event
        assert False in moving, event
        assert sorted(p for share in shares.values() for p in share.get("t", ())) == list(
            range(6 if event.at == 120_000 else 4)
        )
