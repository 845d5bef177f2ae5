import pytest

from streaming.protocols.consumer.step import Expired
from streaming.protocols.vocabulary import Client, EventScheduled, ShutDown, Start
from tests.support.machines import StateMachineDriver, played, scenario, topics


@pytest.mark.parametrize(
    ("left", "noticed_ms"),
    [
        (59_998, 60_002),  # b's next heartbeat is sent at 60 000, and its answer arrives two network latencies later
        (60_000, 60_002),  # the heartbeat is sent with the change, and arrives after the change
        (60_001, 63_335),  # b's next heartbeat counts, a third of the session later
    ],
)
def test_consumer_member_sees_a_change_at_its_next_heartbeat(left: int, noticed_ms: int) -> None:
    text = scenario("p: 5", "at: 3, join: a", "at: 3, join: b", f"at: {left}, leave: a", session_timeout_ms=10_000)
    assert played(text, "consumer")["rounds"][-1]["at"] == noticed_ms


def test_early_returning_static_member_has_no_second_expiry() -> None:
    driver = StateMachineDriver("consumer", topics(t=2))
    client = Client("a", ("t",), "i-a")
    driver.apply(Start(0, (client,)))
    driver.until(61_000)
    driver.apply(ShutDown(61_000, ("a",)))
    (ended,) = (
        output.event
        for output in driver.apply(Start(61_000, (client,)))
        if isinstance(output, EventScheduled) and isinstance(output.event, Expired)
    )
    timing = driver.machine.setup.timing
    assert 61_000 - timing.consumer_heartbeat_ms < ended.at - timing.session_timeout_ms <= 61_000
