from typing import Any

import pytest
from msgspec import structs

from streaming.freshness import (
    ComponentHeartbeat,
    ComponentState,
    Freshness,
    Lateness,
    Limits,
    TrackedHeartbeat,
    compute_freshness,
    with_unreachable_kafka,
)

#: Arrival time of the heartbeat: by the reader's clock (s), and in ms.
NOW_SECONDS, NOW_MS = 1000.0, 1_700_000_000_000
HEARTBEAT = ComponentHeartbeat(part="collector", id="c", state="running", timestamp=50_000, up_to=49_900, every_ms=5000)
LIMITS = Limits()


def heartbeat(at: float = NOW_SECONDS, **fields: Any) -> TrackedHeartbeat:
    return TrackedHeartbeat(structs.replace(HEARTBEAT, **fields), at, NOW_MS + int((at - NOW_SECONDS) * 1000))


def part(state: Any, **fields: Any) -> ComponentState:
    part = ComponentState(part="collector", id="c", by=None, state=state, last_heartbeat=NOW_MS, up_to=49_900)
    return structs.replace(part, **fields)


def test_no_heartbeats_give_no_components_and_no_lateness() -> None:
    assert compute_freshness([], NOW_SECONDS, 0.0, LIMITS) == Freshness(is_known=True, parts=(), late=None)


@pytest.mark.parametrize("after", [0.0, 20.0])
def test_component_with_a_recent_heartbeat_is_alive(after: float) -> None:
    assert compute_freshness([heartbeat()], NOW_SECONDS + after, 0.0, LIMITS) == Freshness(True, (part("alive"),), None)


def test_component_without_heartbeats_is_silent_since_the_last() -> None:
    late = Lateness("collector-silent", "No heartbeat from collector c", NOW_MS)
    assert compute_freshness([heartbeat()], NOW_SECONDS + 20.1, 0.0, LIMITS) == Freshness(True, (part("silent"),), late)
    assert compute_freshness([heartbeat()], NOW_SECONDS + 1e6, 0.0, LIMITS) == Freshness(True, (part("silent"),), late)


def test_slow_heartbeats_allow_longer_silence() -> None:
    infrequent_heartbeat = heartbeat(every_ms=20_000)
    assert compute_freshness([infrequent_heartbeat], NOW_SECONDS + 59, 0.0, LIMITS).late is None
    assert compute_freshness([infrequent_heartbeat], NOW_SECONDS + 61, 0.0, LIMITS).late is not None


def test_freshness_is_unknown_just_after_the_reader_started() -> None:
    """A reader that has just started can't derive from an old heartbeat whether the component still runs."""
    old = heartbeat(NOW_SECONDS - 3600)
    assert compute_freshness([old], NOW_SECONDS, NOW_SECONDS, LIMITS) == Freshness(is_known=False)
    assert compute_freshness([old], NOW_SECONDS + 20, NOW_SECONDS, LIMITS) == Freshness(is_known=False)
    freshness = compute_freshness([old], NOW_SECONDS + 20.1, NOW_SECONDS, LIMITS)
    assert (freshness.is_known, freshness.late) == (
        True,
        Lateness("collector-silent", "No heartbeat from collector c", NOW_MS - 3_600_000),
    )
    both = compute_freshness([old, heartbeat(id="d")], NOW_SECONDS, NOW_SECONDS, LIMITS)
    assert (both.is_known, [item.id for item in both.parts]) == (False, ["d"])


def test_clean_stop_is_reported_at_once() -> None:
    freshness = compute_freshness([heartbeat(state="stopped")], NOW_SECONDS, NOW_SECONDS, LIMITS)
    assert freshness == Freshness(
        True, (part("stopped"),), Lateness("collector-stopped", "Collector c has been stopped", NOW_MS)
    )


def test_lagging_component_reports_its_progress() -> None:
    assert compute_freshness([heartbeat(timestamp=109_900)], NOW_SECONDS, 0.0, LIMITS).late is None
    behind = compute_freshness([heartbeat(timestamp=109_901)], NOW_SECONDS, 0.0, LIMITS)
    assert behind == Freshness(
        True, (part("behind"),), Lateness("collector-behind", "Collector c has been behind", 49_900)
    )


def test_a_clock_that_was_set_back_is_not_behind() -> None:
    assert compute_freshness([heartbeat(timestamp=1)], NOW_SECONDS, 0.0, LIMITS) == Freshness(
        True, (part("alive"),), None
    )


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("silent", "No heartbeat from the stream"),
        ("stopped", "The stream has been stopped"),
        ("behind", "The stream has been behind"),
    ],
)
def test_stream_and_collectors_are_distinguished(state: str, reason: str) -> None:
    fields = {"silent": {}, "stopped": {"state": "stopped"}, "behind": {"timestamp": 10**6}}[state]
    now = NOW_SECONDS + (21 if state == "silent" else 1)
    stream = heartbeat(part="stream", **fields)
    freshness = compute_freshness([stream, heartbeat(now)], now, 0.0, LIMITS)
    assert [(item.part, item.state) for item in freshness.parts] == [("collector", "alive"), ("stream", state)]
    assert freshness.late is not None
    assert (freshness.late.kind, freshness.late.reason) == (f"stream-{state}", reason)


def test_component_furthest_behind_is_reported() -> None:
    freshness = compute_freshness(
        [heartbeat(id="b"), heartbeat(NOW_SECONDS - 60, id="c"), heartbeat(NOW_SECONDS + 29, id="a")],
        NOW_SECONDS + 30,
        0.0,
        LIMITS,
    )
    assert [(item.id, item.state) for item in freshness.parts] == [("a", "alive"), ("b", "silent"), ("c", "silent")]
    assert freshness.late == Lateness("collector-silent", "No heartbeat from collector c", NOW_MS - 60_000)


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_replaced_component_is_forgotten_after_a_day(state: str) -> None:
    day_s = 86_400
    gone, second = heartbeat(state=state), heartbeat(NOW_SECONDS + day_s, id="d")
    assert compute_freshness([gone, second], NOW_SECONDS + day_s, 0.0, LIMITS).late is not None
    second = heartbeat(NOW_SECONDS + day_s + 1, id="d")
    freshness = compute_freshness([gone, second], NOW_SECONDS + day_s + 1, 0.0, LIMITS)
    assert ([item.id for item in freshness.parts], freshness.late) == (["d"], None)


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_unconfirmed_component_does_not_make_data_outdated(state: str) -> None:
    forged_heartbeat = heartbeat(id="x", state=state)._replace(confirmations=2)
    freshness = compute_freshness([forged_heartbeat, heartbeat(NOW_SECONDS + 60)], NOW_SECONDS + 60, 0.0, LIMITS)
    assert ([item.id for item in freshness.parts], freshness.late) == (["c"], None)
    forged_freshness = compute_freshness([forged_heartbeat], NOW_SECONDS + 60, 0.0, LIMITS)
    assert forged_freshness.late is not None
    confirmed_freshness = compute_freshness(
        [forged_heartbeat._replace(confirmations=3), heartbeat(NOW_SECONDS + 60)], NOW_SECONDS + 60, 0.0, LIMITS
    )
    assert confirmed_freshness.late is not None


def test_the_last_collector_is_never_forgotten() -> None:
    stream = heartbeat(NOW_SECONDS + 1e7, part="stream", id="s")
    freshness = compute_freshness(
        [heartbeat(), heartbeat(id="d", state="stopped"), stream], NOW_SECONDS + 1e7, 0.0, LIMITS
    )
    assert [(item.id, item.state) for item in freshness.parts] == [("c", "silent"), ("d", "stopped"), ("s", "alive")]
    assert freshness.late is not None


def test_component_that_is_behind_still_runs() -> None:
    day_s = 86_401.0
    freshness = compute_freshness(
        [heartbeat(), heartbeat(NOW_SECONDS + day_s, id="d", timestamp=10**6)], NOW_SECONDS + day_s, 0.0, LIMITS
    )
    assert [(item.id, item.state) for item in freshness.parts] == [("d", "behind")]


def test_configured_limits_decide_silent_behind_and_forgotten() -> None:
    limits = Limits(silent=1.0, behind=2.0, forget=3.0)
    short_interval = {"every_ms": 100}
    assert compute_freshness([heartbeat(**short_interval)], NOW_SECONDS + 1.1, 0.0, limits).parts == (part("silent"),)
    assert compute_freshness([heartbeat(timestamp=51_901, **short_interval)], NOW_SECONDS, 0.0, limits).parts == (
        part("behind"),
    )
    freshness = compute_freshness(
        [heartbeat(**short_interval), heartbeat(NOW_SECONDS + 3.1, id="d", **short_interval)],
        NOW_SECONDS + 3.1,
        0.0,
        limits,
    )
    assert [item.id for item in freshness.parts] == ["d"]


def test_unreachable_cluster_is_reported_while_it_lasts() -> None:
    freshness = compute_freshness([heartbeat()], NOW_SECONDS, NOW_SECONDS, LIMITS)
    late = Lateness("kafka-unreachable", "No contact with Kafka", 7)
    assert with_unreachable_kafka(freshness, 7) == Freshness(False, (part("alive"),), late)
