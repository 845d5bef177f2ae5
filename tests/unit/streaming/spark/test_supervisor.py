"""Tests of the Spark job's supervisor, whose decisions depend only on batches, topics and the time."""

from typing import Any

import pytest

from streaming.kafka.metadata import Identity
from streaming.spark.progress import BatchReport, BucketReport, batch_report
from streaming.spark.start import StreamOptions
from streaming.spark.supervisor import (
    GROWTH_CONFIRM_SECONDS,
    REPORT_OPEN_AFTER_SECONDS,
    Action,
    BatchLimit,
    PartitionGrowth,
    Supervisor,
    TopicDeleted,
)
from streaming.spark.topics import TopicEnds

TOPICS = {"m": Identity("id-m", 4), "diffs": Identity("id-d", 4), "ticks": Identity("id-t", 1)}


def new_supervisor(**options: Any) -> Supervisor:
    supervisor = Supervisor(StreamOptions(checkpoint="c", **options), "m", TOPICS, partitions=4)
    supervisor.set_topics(TOPICS, 0.0)
    return supervisor


def ended(supervisor: Supervisor, buckets: dict[int, BucketReport] | None = None, *, events: int = 0) -> None:
    source = {"description": "KafkaV2[Assign[m]]", "numInputRows": events, "endOffset": {"m": {"0": events}}}
    progress = {"batchId": 1, "durationMs": {"triggerExecution": 100}, "sources": [source]}
    buckets = buckets or {}
    supervisor.add_batch(progress, buckets, batch_report(progress, buckets.values()))


def test_tick_is_written_when_a_timer_is_due() -> None:
    supervisor = new_supervisor()
    assert [supervisor.next_action(0.0), supervisor.next_action(100.0)] == [Action.TICK, Action.KEEP_RUNNING]
    ended(supervisor, {0: BucketReport(150_000)})
    assert [supervisor.next_action(149.9), supervisor.next_action(150.0)] == [Action.KEEP_RUNNING, Action.TICK]


def test_ticks_continue_until_a_batch_has_reported() -> None:
    supervisor = new_supervisor()
    supervisor.next_action(0.0)
    ended(supervisor, {0: BucketReport(50_000), 1: BucketReport(1000)})
    actions = [supervisor.next_action(at) for at in (1.0, 1.2, 1.4, 1.6, 2.2)]
    assert [action is Action.TICK for action in actions] == [True, False, False, True, True]
    ended(supervisor, {1: BucketReport(0)})
    assert [supervisor.next_action(at) for at in (3.0, 50.0)] == [Action.KEEP_RUNNING, Action.TICK]


def test_job_with_available_now_writes_no_ticks() -> None:
    assert new_supervisor(available_now=True).next_action(0.0) is Action.KEEP_RUNNING


def test_lost_and_regained_contact_are_each_reported_once() -> None:
    supervisor = new_supervisor()
    for trouble in (None, "timed out", "timed out", None, None):
        supervisor.report_contact(trouble)
    assert supervisor.take_warnings() == ["no contact with Kafka (timed out): waiting for it", "Kafka answers again"]


def test_too_large_a_batch_restarts_the_query_with_another_limit() -> None:
    supervisor = new_supervisor(max_offsets_per_trigger=1000)
    supervisor.next_action(0.0)
    ended(supervisor, {0: BucketReport(0, bytes=400 << 20)}, events=1000)
    assert (supervisor.next_action(1.0), supervisor.limit.value) == (Action.CHANGE_LIMIT, 480)
    assert supervisor.next_action(1.1) is Action.KEEP_RUNNING


def test_new_partitions_are_read_after_the_old_ones_ends() -> None:
    supervisor = new_supervisor()
    supervisor.next_action(0.0)
    supervisor.set_topics(TOPICS | {"m": Identity("id-m", 6)}, 10.0)
    first, second = supervisor.take_warnings()
    assert first.startswith("topic m has 6 partitions, 4 are read")
    assert second.startswith("6 is not a multiple of 4")
    supervisor.set_topics(TOPICS | {"m": Identity("id-m", 6)}, 11.0)
    assert supervisor.take_warnings() == []
    supervisor.set_end_offsets(
        TopicEnds({0: 3}, {0: 3}), 9.0 + GROWTH_CONFIRM_SECONDS
    )  # producers may still use the old partitions
    supervisor.set_end_offsets(TopicEnds({0: 5}, {0: 5}), 10.0 + GROWTH_CONFIRM_SECONDS)
    ended(supervisor, events=3)
    assert supervisor.next_action(51.0) is Action.KEEP_RUNNING
    ended(supervisor, events=5)
    assert supervisor.next_action(52.0) is Action.READ_ALL_PARTITIONS


@pytest.mark.parametrize("name", ["diffs", "ticks"])
def test_topic_missing_twice_ends_the_job(name: str) -> None:
    supervisor = new_supervisor()
    supervisor.set_topics(TOPICS | {name: None}, 1.0)
    assert supervisor.next_action(1.0) is Action.CONFIRM_TOPICS
    with pytest.raises(TopicDeleted, match=f"topic {name} was deleted while the job ran.*Start `stream` again"):
        supervisor.require_topics()


def test_topic_missing_on_one_broker_is_ignored() -> None:
    supervisor = new_supervisor()
    supervisor.next_action(0.0)
    supervisor.set_topics(TOPICS | {"diffs": None}, 1.0)
    supervisor.set_topics(TOPICS, 1.5)
    supervisor.require_topics()
    assert supervisor.next_action(1.6) is Action.KEEP_RUNNING


def test_topic_without_a_description_does_not_end_the_job() -> None:
    supervisor = new_supervisor()
    supervisor.next_action(0.0)
    supervisor.set_topics({"m": TOPICS["m"]}, 1.0)
    assert supervisor.next_action(1.0) is Action.KEEP_RUNNING


def test_recreated_output_topic_ends_the_job() -> None:
    with pytest.raises(TopicDeleted, match=r"topic diffs was deleted and created again.*1 in place of 4 partitions"):
        new_supervisor().set_topics(TOPICS | {"diffs": Identity("id-2", 1)}, 1.0)
    with pytest.raises(TopicDeleted) as error:
        new_supervisor().set_topics(TOPICS | {"diffs": Identity("id-2", 4)}, 1.0)
    assert "in place of" not in str(error.value)


def test_recreated_input_topic_stops_the_job_unless_configured() -> None:
    recreated_topics = TOPICS | {"m": Identity("id-2", 4)}
    with pytest.raises(TopicDeleted, match="Choose: --on-data-loss restart"):
        new_supervisor().set_topics(recreated_topics, 1.0)
    new_supervisor(on_data_loss="continue").set_topics(recreated_topics, 1.0)
    supervisor = new_supervisor()
    supervisor.set_topics(TOPICS | {"m": None, "diffs": None}, 1.0)
    with pytest.raises(TopicDeleted, match=r"^topics m, diffs were deleted.*needs --on-data-loss restart or continue"):
        supervisor.require_topics()


def test_batch_without_lag_shows_all_records_before_it_applied() -> None:
    supervisor = new_supervisor()
    assert supervisor.applied_up_to is None

    def poll(at: float, lag: int | None = None) -> float | None:
        number = None if lag is None else 7
        supervisor.add_batch({}, {}, BatchReport(number=number, at=at, lag=lag))
        return supervisor.applied_up_to

    assert poll(100.0, lag=0) == 100.0
    assert poll(101.0, lag=3) == 100.0  # the batch left some records for the next batch
    assert poll(102.0) == 102.0  # the topic was empty
    supervisor.add_batch({}, {}, BatchReport(number=8, at=103.0))  # the progress does not include this batch
    supervisor.add_batch({}, {}, BatchReport())
    assert supervisor.applied_up_to == 102.0


def test_no_record_after_an_open_transaction_is_applied() -> None:
    supervisor = new_supervisor()
    ended(supervisor, events=5)
    for at in (100.0, 105.0, 100.0 + REPORT_OPEN_AFTER_SECONDS):
        supervisor.add_batch({}, {}, BatchReport(at=at))  # Spark finds no new records
        supervisor.set_end_offsets(TopicEnds({0: 5, 1: 7}, {0: 9, 1: 7}), at)
        assert supervisor.reached == 100.0  # the time is reached even before Spark reports it
    assert supervisor.blocked == (0, 5)
    assert (supervisor.reached, supervisor.applied_up_to) == (100.0, 110.0)
    assert supervisor.lag == 4
    (warning,) = supervisor.take_warnings()  # the warning is given once
    assert warning.startswith("topic m: a transaction is open since offset 5 of partition 0; records after it")
    supervisor.set_end_offsets(TopicEnds({0: 9, 1: 7}, {0: 9, 1: 7}), 115.0)
    assert (supervisor.blocked, supervisor.reached) == (None, 110.0)
    assert supervisor.take_warnings() == ["the open transaction has ended: the stream continues to read"]


def test_short_transactions_are_not_reported() -> None:
    supervisor = new_supervisor()
    for at in range(0, 60, 5):  # at each check another transaction is open
        supervisor.set_end_offsets(TopicEnds({0: at}, {0: at + 2}), float(at))
    assert (supervisor.blocked, supervisor.take_warnings()) == (None, [])
    assert supervisor.lag is None


def batch(**offsets: int) -> dict[str, object]:
    ends = {name.removeprefix("p"): offset for name, offset in offsets.items()}
    return {"sources": [{"endOffset": {"m": ends}}, {"endOffset": {"ticks": {"0": 1}}}, {"endOffset": None}]}


def grown() -> PartitionGrowth:
    growth = PartitionGrowth("m", 2)
    assert growth.set_count(4, 100.0)
    return growth


def test_only_a_larger_partition_count_starts_growth() -> None:
    growth = PartitionGrowth("m", 2)
    assert not growth.set_count(2, 0.0)
    assert not growth.is_pending
    growth = grown()
    assert not growth.set_count(4, 101.0)


def test_growth_waits_until_producers_know_the_new_partitions() -> None:
    growth = grown()
    growth.add_progress(batch(p0=50, p1=50), 100.0)
    growth.set_end_offsets({0: 50, 1: 50}, 99.0 + GROWTH_CONFIRM_SECONDS)
    assert not growth.is_ready()
    growth.set_end_offsets({0: 50, 1: 50}, 100.0 + GROWTH_CONFIRM_SECONDS)
    assert growth.is_ready()


def test_the_old_partitions_are_read_to_their_end() -> None:
    growth = grown()
    growth.set_end_offsets({0: 60, 1: 50}, 140.0)
    growth.add_progress(batch(p0=59, p1=50), 141.0)
    assert not growth.is_ready()
    growth.add_progress(batch(p0=60, p1=51), 142.0)
    assert growth.is_ready()
    growth.finish()
    assert (growth.partitions, growth.is_pending, growth.is_ready()) == (4, False, False)


def test_growth_is_ready_after_a_later_empty_trigger() -> None:
    growth = grown()
    growth.set_end_offsets({0: 60, 1: 50}, 140.0)
    growth.add_progress({"timestamp": "…"}, 139.0)
    assert not growth.is_ready()
    growth.add_progress({"timestamp": "…"}, 141.0)
    assert growth.is_ready()


def test_only_a_trigger_after_the_end_offsets_finishes_growth() -> None:
    growth = grown()
    growth.set_end_offsets({0: 60}, 140.0)
    growth.add_progress({"timestamp": "…"}, 140.0)
    assert not growth.is_ready()
    growth.add_progress(batch(p0=10), 150.0)  # a batch with records does not count as an empty check
    assert not growth.is_ready()


def test_second_growth_of_a_topic_needs_new_end_offsets() -> None:
    growth = grown()
    growth.set_end_offsets({0: 60}, 140.0)
    assert growth.set_count(8, 600.0)
    assert (growth.target, growth.is_ready()) == (8, False)
    growth.set_end_offsets({0: 60}, 599.0 + GROWTH_CONFIRM_SECONDS)  # this is too early
    growth.add_progress(batch(p0=60), 636.0)
    assert not growth.is_ready()
    growth.set_end_offsets({0: 60}, 600.0 + GROWTH_CONFIRM_SECONDS)
    assert growth.is_ready()
    growth.finish()
    assert growth.set_count(16, 1000.0)
    assert not growth.is_ready()


MEGABYTE = 1 << 20


def test_a_batch_of_too_many_bytes_lowers_the_limit() -> None:
    limit = BatchLimit(6400)
    limit.add_batch(6400, 6400 * MEGABYTE)
    assert (limit.has_changed(), limit.value) == (True, 192)
    limit.add_batch(192, 250 * MEGABYTE)  # a batch of twice as many records would have too many bytes
    assert not limit.has_changed()
    limit.add_batch(1, 1000 * MEGABYTE)
    assert (limit.has_changed(), limit.value) == (True, 1)


def test_full_small_batches_double_the_lowered_limit() -> None:
    limit = BatchLimit(300)
    limit.add_batch(300, 600 * MEGABYTE)
    assert (limit.has_changed(), limit.value) == (True, 96)
    limit.add_batch(40, MEGABYTE)  # the batch is not full, so no record is waiting
    assert not limit.has_changed()
    for expected_limit in (192, 300):
        limit.add_batch(limit.value or 0, MEGABYTE)
        assert (limit.has_changed(), limit.value) == (True, expected_limit)
    limit.add_batch(300, MEGABYTE)
    assert not limit.has_changed()


def test_a_batch_planned_before_the_limit_fell_changes_nothing() -> None:
    limit = BatchLimit(100)
    limit.add_batch(100, 1000 * MEGABYTE)
    assert limit.has_changed()
    limit.add_batch(100, 1000 * MEGABYTE)
    assert not limit.has_changed()
