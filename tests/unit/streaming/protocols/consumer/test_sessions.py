"""Sessions under KIP-848, as the coordinator counts them."""

from __future__ import annotations

from streaming.protocols.consumer.step import Expired
from streaming.protocols.vocabulary import After, Client, ShutDown, Start
from tests.support.machines import Driver, topics


def test_static_member_back_before_its_leave_was_alive() -> None:
    driver = Driver("consumer", topics(t=2))
    client = Client("a", ("t",), "i-a")
    driver.tell(Start(0, (client,)))
    driver.until(61_000)
    driver.tell(ShutDown(61_000, ("a",)))
    (ended,) = (
        output.event
        for output in driver.tell(Start(61_000, (client,)))
        if isinstance(output, After) and isinstance(output.event, Expired)
    )
    timing = driver.machine.setup.timing
    assert 61_000 - timing.consumer_heartbeat_ms < ended.at - timing.session_timeout_ms <= 61_000
