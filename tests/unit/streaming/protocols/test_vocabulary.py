"""Default values of the timing model, and the count of heartbeats, which are not simulated one by one."""

from streaming.protocols import vocabulary
from streaming.protocols.vocabulary import Reason, TimingModel
from streaming.simulation.scenario import Scenario


def test_untuned_group_has_kafkas_default_timeouts() -> None:
    timing = TimingModel()
    assert timing.heartbeat_ms == 3000  # heartbeat.interval.ms
    assert timing.consumer_heartbeat_ms == 5000  # group.consumer.heartbeat.interval.ms
    assert timing.session_timeout_ms == 45_000  # session.timeout.ms, group.consumer.session.timeout.ms
    assert timing.rebalance_timeout_ms == 60_000  # rebalance.timeout.ms of Connect
    assert timing.scheduled_rebalance_delay_ms == 300_000  # scheduled.rebalance.max.delay.ms
    assert timing.initial_rebalance_delay_ms == 3000  # group.initial.rebalance.delay.ms
    assert timing.assignment_interval_ms == 1000  # group.consumer.assignment.interval.ms
    assert timing.zookeeper_backoff_ms == 2000  # rebalance.backoff.ms
    assert (timing.network_ms, timing.processing_ms, timing.metadata_age_ms) == (1, 1000, 0)
    usual = Scenario(topics={}, events=())
    for name in ("session_timeout_ms", "rebalance_timeout_ms", "scheduled_rebalance_delay_ms"):
        assert getattr(usual, name) == getattr(timing, name)


def test_busy_time_depends_on_name_and_processing_time() -> None:
    assert [TimingModel(processing_ms=1000).busy_ms(name) for name in "dabc"] == [0, 250, 500, 750]
    assert [TimingModel(processing_ms=7).busy_ms(name) for name in "dabc"] == [0, 1, 3, 5]


def test_heartbeats_are_counted_as_if_each_were_sent() -> None:
    for every in (1, 3, 5):
        for since in (0, 7):
            sent = [since + number * every for number in range(1, 40)]
            for now in range(30):
                assert vocabulary.count_heartbeats(since, now, every) == sum(at <= now for at in sent)
                assert vocabulary.next_heartbeat(since, now, every) == min(at for at in sent if at >= now)
                assert vocabulary.last_heartbeat(since, now, every) == max([since, *(at for at in sent if at <= now)])
    assert vocabulary.count_heartbeats(None, 30, 3) == 0


def test_joint_reason_has_all_members_of_its_first_kind() -> None:
    joined, left = Reason("member.joined", ("a", "b~2")), Reason("member.left", ("c",))
    assert vocabulary.common_reason([joined, left, Reason("member.joined", ("a", "d"))], left) == Reason(
        "member.joined", ("a", "b", "d")
    )
    assert vocabulary.common_reason([], left) == left


def test_ghost_member_name_contains_its_process_name() -> None:
    assert vocabulary.ghost_name("a", 2) == "a~2"
    assert vocabulary.process_name("a~2") == vocabulary.process_name("a") == "a"
    assert vocabulary.process_name("a~2~3") == "a"
