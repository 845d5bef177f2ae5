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
    Supervisor,
    TopicDeleted,
)
from streaming.spark.topics import TopicEnds

TOPICS = {"m": Identity("id-m", 4), "diffs": Identity("id-d", 4), "ticks": Identity("id-t", 1)}


def new_supervisor(**options: Any) -> Supervisor:
    supervisor = Supervisor(StreamOptions(checkpoint="c", **options), "m", TOPICS, partitions=4)
    supervisor.set_topics(TOPICS, 0.0)
    return supervisor


def ended(
    supervisor: Supervisor,
    buckets: dict[int, BucketReport] | None = None,
    *,
    number: int = 1,
    events: int = 0,
    seconds: float = 0.1,
) -> None:
    progress = {
        "batchId": number,
        "durationMs": {"triggerExecution": seconds * 1000},
        "sources": [{"description": "KafkaV2[Assign[m]]", "numInputRows": events, "endOffset": {"m": {"0": events}}}],
    }
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
