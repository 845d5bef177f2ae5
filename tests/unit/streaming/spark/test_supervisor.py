"""The supervisor's decisions, computed from batches, topics and the time alone."""

from __future__ import annotations

from typing import Any

import pytest

from streaming.kafka.metadata import Identity
from streaming.spark.progress import BatchReport, BucketReport, batch_report
from streaming.spark.start import StreamOptions
from streaming.spark.supervisor import OPEN_SECONDS, SETTLE_SECONDS, Action, Supervisor, TopicGone
from streaming.spark.topics import Ends, OpenTransaction

TOPICS = {"m": Identity("id-m", 4), "diffs": Identity("id-d", 4), "ticks": Identity("id-t", 1)}


def supervisor(**options: Any) -> Supervisor:
    made = Supervisor(StreamOptions(checkpoint="c", **options), "m", TOPICS, partitions=4)
    made.set_topics(TOPICS, 0.0)
    return made


def ended(
    made: Supervisor,
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
    made.add_batch(progress, buckets, batch_report(progress, buckets.values()))


def test_it_ticks_when_a_timer_is_due() -> None:
    made = supervisor()
    assert [made.next_action(0.0), made.next_action(100.0)] == [Action.TICK, Action.CONTINUE]
    ended(made, {0: BucketReport(150_000)})
    assert [made.next_action(149.9), made.next_action(150.0)] == [Action.CONTINUE, Action.TICK]


def test_a_job_that_ends_by_itself_has_no_timers() -> None:
    assert supervisor(available_now=True).next_action(0.0) is Action.CONTINUE


def test_each_change_of_contact_is_reported_once() -> None:
    made = supervisor()
    for trouble in (None, "timed out", "timed out", None, None):
        made.set_contact(trouble)
    assert made.take_warnings() == ["no contact with Kafka (timed out): waiting for it", "Kafka answers again"]


def test_too_large_a_batch_restarts_the_query_with_another_limit() -> None:
    made = supervisor(max_offsets_per_trigger=1000)
    made.next_action(0.0)
    ended(made, {0: BucketReport(0, bytes=400 << 20)}, events=1000)
    assert (made.next_action(1.0), made.limit.value) == (Action.CHANGE_LIMIT, 480)
    assert made.next_action(1.1) is Action.CONTINUE


def test_new_partitions_are_read_once_the_old_ones_are() -> None:
    made = supervisor()
    made.next_action(0.0)
    made.set_topics(TOPICS | {"m": Identity("id-m", 6)}, 10.0)
    first, second = made.take_warnings()
    assert first.startswith("topic m has 6 partitions, 4 are read")
    assert second.startswith("6 is no multiple of 4")
    made.set_topics(TOPICS | {"m": Identity("id-m", 6)}, 11.0)
    assert made.take_warnings() == []
    made.set_ends(Ends({0: 3}, {0: 3}), 9.0 + SETTLE_SECONDS)  # producers may still write to the old ones
    made.set_ends(Ends({0: 5}, {0: 5}), 10.0 + SETTLE_SECONDS)
    ended(made, events=3)
    assert made.next_action(51.0) is Action.CONTINUE
    ended(made, events=5)
    assert made.next_action(52.0) is Action.READ_ALL_PARTITIONS


@pytest.mark.parametrize("name", ["diffs", "ticks"])
def test_a_missing_topic_stops_the_query_and_twice_ends_the_job(name: str) -> None:
    made = supervisor()
    made.set_topics(TOPICS | {name: None}, 1.0)
    assert made.next_action(1.0) is Action.CONFIRM_TOPICS
    with pytest.raises(TopicGone, match=f"topic {name} was deleted while the job ran.*Start `stream` again"):
        made.require_topics()


def test_topic_missing_on_one_broker_is_ignored() -> None:
    made = supervisor()
    made.next_action(0.0)
    made.set_topics(TOPICS | {"diffs": None}, 1.0)
    made.set_topics(TOPICS, 1.5)
    made.require_topics()
    assert made.next_action(1.6) is Action.CONTINUE


def test_undescribed_topic_is_not_judged() -> None:
    made = supervisor()
    made.next_action(0.0)
    made.set_topics({"m": TOPICS["m"]}, 1.0)
    assert made.next_action(1.0) is Action.CONTINUE


def test_recreated_output_topic_ends_the_job() -> None:
    with pytest.raises(TopicGone, match=r"topic diffs was deleted and created again.*1 in place of 4 partitions"):
        supervisor().set_topics(TOPICS | {"diffs": Identity("id-2", 1)}, 1.0)
    with pytest.raises(TopicGone) as error:
        supervisor().set_topics(TOPICS | {"diffs": Identity("id-2", 4)}, 1.0)
    assert "in place of" not in str(error.value)


def test_the_topic_that_is_read_is_a_choice() -> None:
    recreated = TOPICS | {"m": Identity("id-2", 4)}
    with pytest.raises(TopicGone, match="Choose: --on-data-loss restart"):
        supervisor().set_topics(recreated, 1.0)
    supervisor(on_data_loss="continue").set_topics(recreated, 1.0)
    made = supervisor()
    made.set_topics(TOPICS | {"m": None, "diffs": None}, 1.0)
    with pytest.raises(TopicGone, match=r"^topics m, diffs were deleted.*needs --on-data-loss restart or continue"):
        made.require_topics()


def test_a_batch_without_lag_applied_all_before_its_start() -> None:
    made = supervisor()
    assert made.applied_up_to is None

    def look(at: float, lag: int | None = None) -> float | None:
        number = None if lag is None else 7
        made.add_batch({}, {}, BatchReport(number=number, at=at, lag=lag))
        return made.applied_up_to

    assert look(100.0, lag=0) == 100.0
    assert look(101.0, lag=3) == 100.0  # some records are left for the next batch
    assert look(102.0) == 102.0  # the topic was empty
    made.add_batch({}, {}, BatchReport(number=8, at=103.0))  # the progress lacks it
    made.add_batch({}, {}, BatchReport())
    assert made.applied_up_to == 102.0


def test_no_record_after_an_open_transaction_is_applied() -> None:
    made = supervisor()
    ended(made, events=5)
    for at in (100.0, 105.0, 100.0 + OPEN_SECONDS):
        made.add_batch({}, {}, BatchReport(at=at))  # Spark finds no new records
        made.set_ends(Ends({0: 5, 1: 7}, {0: 9, 1: 7}), at)
        assert made.reached == 100.0  # even before it is reported
    assert made.blocked == OpenTransaction(0, 5, 100.0)
    assert (made.reached, made.applied_up_to) == (100.0, 110.0)
    assert made.lag == 4
    (warning,) = made.take_warnings()  # once
    assert warning.startswith("topic m: a transaction is open since offset 5 of partition 0; nothing behind it")
    made.set_ends(Ends({0: 9, 1: 7}, {0: 9, 1: 7}), 115.0)
    assert (made.blocked, made.reached) == (None, 110.0)
    assert made.take_warnings() == ["the open transaction has ended: the stream reads on"]


def test_short_transactions_are_not_reported() -> None:
    made = supervisor()
    for at in range(0, 60, 5):  # at each check another transaction is open
        made.set_ends(Ends({0: at}, {0: at + 2}), float(at))
    assert (made.blocked, made.take_warnings()) == (None, [])
    assert made.lag is None
