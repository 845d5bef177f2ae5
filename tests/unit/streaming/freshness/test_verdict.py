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


def freshness_after(seconds: float, *heartbeats: TrackedHeartbeat, limits: Limits = LIMITS) -> Freshness:
    """Return the freshness this long after the default heartbeat; the reader started long before."""
    return compute_freshness(heartbeats, NOW_SECONDS + seconds, 0.0, limits)


def test_no_heartbeats_give_no_components_and_no_lateness() -> None:
    assert freshness_after(0) == Freshness(is_known=True, parts=(), late=None)


@pytest.mark.parametrize("after", [0.0, 20.0])
def test_component_with_a_recent_heartbeat_is_alive(after: float) -> None:
    assert freshness_after(after, heartbeat()) == Freshness(True, (part("alive"),), None)


def test_component_without_heartbeats_is_silent_since_the_last() -> None:
    late = Lateness("collector-silent", "No heartbeat from collector c", NOW_MS)
    assert freshness_after(20.1, heartbeat()) == Freshness(True, (part("silent"),), late)
    assert freshness_after(1e6, heartbeat()) == Freshness(True, (part("silent"),), late)


def test_slow_heartbeats_allow_longer_silence() -> None:
    infrequent = heartbeat(every_ms=20_000)
    assert freshness_after(59, infrequent).late is None
    assert freshness_after(61, infrequent).late is not None


def test_freshness_is_unknown_just_after_the_reader_started() -> None:
    """A reader that has just started can't derive from an old heartbeat whether the component still runs."""
    old = heartbeat(NOW_SECONDS - 3600)
    assert compute_freshness([old], NOW_SECONDS, NOW_SECONDS, LIMITS) == Freshness(is_known=False)
    assert compute_freshness([old], NOW_SECONDS + 20, NOW_SECONDS, LIMITS) == Freshness(is_known=False)
    freshness = compute_freshness([old], NOW_SECONDS + 20.1, NOW_SECONDS, LIMITS)
    assert freshness.is_known
    assert freshness.late == Lateness("collector-silent", "No heartbeat from collector c", NOW_MS - 3_600_000)
    both = compute_freshness([old, heartbeat(id="d")], NOW_SECONDS, NOW_SECONDS, LIMITS)
    assert (both.is_known, [item.id for item in both.parts]) == (False, ["d"])


def test_clean_stop_is_reported_at_once() -> None:
    late = Lateness("collector-stopped", "Collector c has been stopped", NOW_MS)
    freshness = compute_freshness([heartbeat(state="stopped")], NOW_SECONDS, NOW_SECONDS, LIMITS)
    assert freshness == Freshness(True, (part("stopped"),), late)


def test_lagging_component_reports_its_progress() -> None:
    assert freshness_after(0, heartbeat(timestamp=109_900)).late is None
    late = Lateness("collector-behind", "Collector c has been behind", 49_900)
    assert freshness_after(0, heartbeat(timestamp=109_901)) == Freshness(True, (part("behind"),), late)


def test_a_clock_that_was_set_back_is_not_behind() -> None:
    assert freshness_after(0, heartbeat(timestamp=1)) == Freshness(True, (part("alive"),), None)


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
    seconds = 21 if state == "silent" else 1
    freshness = freshness_after(seconds, heartbeat(part="stream", **fields), heartbeat(NOW_SECONDS + seconds))
    assert [(item.part, item.state) for item in freshness.parts] == [("collector", "alive"), ("stream", state)]
    assert (freshness.late.kind, freshness.late.reason) == (f"stream-{state}", reason)


def test_component_furthest_behind_is_reported() -> None:
    heartbeats = heartbeat(id="b"), heartbeat(NOW_SECONDS - 60, id="c"), heartbeat(NOW_SECONDS + 29, id="a")
    freshness = freshness_after(30, *heartbeats)
    assert [(item.id, item.state) for item in freshness.parts] == [("a", "alive"), ("b", "silent"), ("c", "silent")]
    assert freshness.late == Lateness("collector-silent", "No heartbeat from collector c", NOW_MS - 60_000)


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_replaced_component_is_forgotten_after_a_day(state: str) -> None:
    day_s = 86_400
    gone = heartbeat(state=state)
    assert freshness_after(day_s, gone, heartbeat(NOW_SECONDS + day_s, id="d")).late is not None
    freshness = freshness_after(day_s + 1, gone, heartbeat(NOW_SECONDS + day_s + 1, id="d"))
    assert ([item.id for item in freshness.parts], freshness.late) == (["d"], None)


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_unconfirmed_component_does_not_make_data_outdated(state: str) -> None:
    forged, second = heartbeat(id="x", state=state)._replace(confirmations=2), heartbeat(NOW_SECONDS + 60)
    freshness = freshness_after(60, forged, second)
    assert ([item.id for item in freshness.parts], freshness.late) == (["c"], None)
    assert freshness_after(60, forged).late is not None
    assert freshness_after(60, forged._replace(confirmations=3), second).late is not None


def test_the_last_collector_is_never_forgotten() -> None:
    stream = heartbeat(NOW_SECONDS + 1e7, part="stream", id="s")
    freshness = freshness_after(1e7, heartbeat(), heartbeat(id="d", state="stopped"), stream)
    assert [(item.id, item.state) for item in freshness.parts] == [("c", "silent"), ("d", "stopped"), ("s", "alive")]
    assert freshness.late is not None


def test_component_that_is_behind_still_runs() -> None:
    day_s = 86_401.0
    freshness = freshness_after(day_s, heartbeat(), heartbeat(NOW_SECONDS + day_s, id="d", timestamp=10**6))
    assert [(item.id, item.state) for item in freshness.parts] == [("d", "behind")]


def test_configured_limits_decide_silent_behind_and_forgotten() -> None:
    limits = Limits(silent=1.0, behind=2.0, forget=3.0)
    first, second = heartbeat(every_ms=100), heartbeat(NOW_SECONDS + 3.1, id="d", every_ms=100)
    assert freshness_after(1.1, first, limits=limits).parts == (part("silent"),)
    late = heartbeat(timestamp=51_901, every_ms=100)
    assert freshness_after(0, late, limits=limits).parts == (part("behind"),)
    assert [item.id for item in freshness_after(3.1, first, second, limits=limits).parts] == ["d"]


def test_unreachable_cluster_is_reported_while_it_lasts() -> None:
    freshness = compute_freshness([heartbeat()], NOW_SECONDS, NOW_SECONDS, LIMITS)
    late = Lateness("kafka-unreachable", "No contact with Kafka", 7)
    assert with_unreachable_kafka(freshness, 7) == Freshness(False, (part("alive"),), late)
