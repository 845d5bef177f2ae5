"""What the job does next, from messages and the time alone."""

from __future__ import annotations

from typing import Any

import pytest

from streaming.kafka.metadata import Identity
from streaming.spark.checkpoint import TopicRecreated
from streaming.spark.growth import SETTLE_SECONDS
from streaming.spark.options import StreamOptions
from streaming.spark.progress import BatchReport, Told, report
from streaming.spark.supervisor import (
    HEARD_SECONDS,
    OPEN_SECONDS,
    Do,
    ListenerSilent,
    Supervisor,
    TopicGone,
)
from streaming.spark.topic_ends import Blocked, Ends

TOPICS = {"m": Identity("id-m", 4), "diffs": Identity("id-d", 4), "ticks": Identity("id-t", 1)}


def supervisor(**options: Any) -> Supervisor:
    made = Supervisor(StreamOptions(checkpoint="c", **options), "m", TOPICS, partitions=4)
    made.topics_seen(TOPICS, 0.0)
    return made


def ended(
    made: Supervisor,
    told: dict[int, Told] | None = None,
    *,
    number: int = 1,
    events: int = 0,
    seconds: float = 0.1,
) -> None:
    progress = {
        "batchId": number,
        "durationMs": {"triggerExecution": seconds * 1000},
        "sources": [
            {"description": "KafkaV2[Assign[m]]", "numInputRows": events, "endOffset": {"m": {"0": events}}}
        ],
    }
    told = told or {}
    made.batch_ended(progress, told, report(progress, told.values()))


def test_it_ticks_when_a_timer_is_due() -> None:
    made = supervisor()
    assert [made.next(0.0), made.next(100.0)] == [Do.TICK, Do.GO_ON]
    ended(made, {0: Told(150_000)})
    assert [made.next(149.9), made.next(150.0)] == [Do.GO_ON, Do.TICK]


def test_a_job_that_ends_at_what_is_there_has_no_timers() -> None:
    assert supervisor(available_now=True).next(0.0) is Do.GO_ON


def test_a_cluster_that_does_not_answer_is_told_once_and_when_it_does_again() -> None:
    made = supervisor()
    for trouble in (None, "timed out", "timed out", None, None):
        made.contact(trouble)
    assert made.take_notes() == [
        "no contact with Kafka (timed out): waiting for it",
        "Kafka answers again",
    ]


def test_a_slow_batch_restarts_the_query_with_another_limit() -> None:
    made = supervisor(max_offsets_per_trigger=1000)
    made.next(0.0)
    ended(made, events=1000, seconds=30)
    assert (made.next(1.0), made.limit.value) == (Do.REFIT, 500)
    assert made.next(1.1) is Do.GO_ON


def test_new_partitions_are_read_once_the_old_ones_are() -> None:
    made = supervisor()
    made.next(0.0)
    made.topics_seen(TOPICS | {"m": Identity("id-m", 6)}, 10.0)
    first, second = made.take_notes()
    assert first.startswith("topic m has 6 partitions, 4 are read")
    assert second.startswith("6 is no multiple of 4")
    made.topics_seen(TOPICS | {"m": Identity("id-m", 6)}, 11.0)
    assert made.take_notes() == []
    made.ends_seen(Ends({0: 3}, {0: 3}), 9.0 + SETTLE_SECONDS)  # producers may still write to the old ones
    made.ends_seen(Ends({0: 5}, {0: 5}), 10.0 + SETTLE_SECONDS)
    ended(made, events=3)
    assert made.next(51.0) is Do.GO_ON
    ended(made, events=5)
    assert made.next(52.0) is Do.READ_ALL


@pytest.mark.parametrize("name", ["diffs", "ticks"])
def test_a_topic_that_is_missing_stops_the_query_and_twice_ends_the_job(name: str) -> None:
    made = supervisor()
    made.topics_seen(TOPICS | {name: None}, 1.0)
    assert made.next(1.0) is Do.CONFIRM
    with pytest.raises(TopicGone, match=f"topic {name} was deleted while the job ran.*Start `stream` again"):
        made.still_missing()


def test_a_topic_that_one_broker_missed_is_nothing() -> None:
    made = supervisor()
    made.next(0.0)
    made.topics_seen(TOPICS | {"diffs": None}, 1.0)
    made.topics_seen(TOPICS, 1.5)
    made.still_missing()
    assert made.next(1.6) is Do.GO_ON


def test_a_topic_that_nobody_described_is_not_judged() -> None:
    made = supervisor()
    made.next(0.0)
    made.topics_seen({"m": TOPICS["m"]}, 1.0)
    assert made.next(1.0) is Do.GO_ON


def test_a_written_topic_that_was_made_again_ends_the_job() -> None:
    with pytest.raises(
        TopicGone, match=r"topic diffs was deleted and made again.*1 in place of 4 partitions"
    ):
        supervisor().topics_seen(TOPICS | {"diffs": Identity("id-2", 1)}, 1.0)
    with pytest.raises(TopicGone) as told:
        supervisor().topics_seen(TOPICS | {"diffs": Identity("id-2", 4)}, 1.0)
    assert "in place of" not in str(told.value)


def test_batches_that_nothing_is_heard_of_end_the_job() -> None:
    made = supervisor()
    assert made.wants_count(0.0)
    made.counted(1, 0.0)
    assert not made.wants_count(HEARD_SECONDS - 1)
    ended(made)  # batch 1
    made.counted(7, HEARD_SECONDS)
    with pytest.raises(ListenerSilent, match="Spark has finished batch 7"):
        made.counted(9, 2 * HEARD_SECONDS)


@pytest.mark.parametrize("first", [0, 1])
def test_a_look_that_found_nothing_is_no_batch_that_was_heard_of(first: int) -> None:
    made = supervisor()
    made.counted(first, 0.0)
    made.batch_ended({}, {}, BatchReport(at=1.0))
    with pytest.raises(ListenerSilent, match=f"Spark has finished batch {first}"):
        made.counted(7, HEARD_SECONDS)


def test_batches_that_are_heard_of_late_do_not() -> None:
    made = supervisor()
    for number, finished in enumerate((5, 9, 12)):
        made.counted(finished, number * HEARD_SECONDS)
        ended(made, number=number)
    made.counted(15, 3 * HEARD_SECONDS)
    with pytest.raises(ListenerSilent, match="Spark has finished batch 15"):
        made.counted(20, 4 * HEARD_SECONDS)


def test_the_topic_that_is_read_is_a_choice() -> None:
    other = TOPICS | {"m": Identity("id-2", 4)}
    with pytest.raises(TopicRecreated, match="Choose: --on-data-loss restart"):
        supervisor().topics_seen(other, 1.0)
    supervisor(on_data_loss="continue").topics_seen(other, 1.0)
    made = supervisor()
    made.topics_seen(TOPICS | {"m": None, "diffs": None}, 1.0)
    with pytest.raises(
        TopicGone, match=r"^topics m, diffs were deleted.*needs --on-data-loss restart or continue"
    ):
        made.still_missing()


def test_what_is_applied_is_what_was_there_when_a_batch_that_left_nothing_began() -> None:
    made = supervisor()
    assert made.applied_up_to is None

    def look(at: float, lag: int | None = None) -> float | None:
        number = None if lag is None else 7
        made.batch_ended({}, {}, BatchReport(number=number, at=at, lag=lag))
        return made.applied_up_to

    assert look(100.0, lag=0) == 100.0
    assert look(101.0, lag=3) == 100.0  # some are left for the next
    assert look(102.0) == 102.0  # nothing was there
    made.batch_ended({}, {}, BatchReport(number=8, at=103.0))  # it does not say
    made.batch_ended({}, {}, BatchReport())
    assert made.applied_up_to == 102.0


def test_behind_an_open_transaction_nothing_counts_as_applied() -> None:
    made = supervisor()
    ended(made, events=5)
    for at in (100.0, 105.0, 100.0 + OPEN_SECONDS):
        made.batch_ended({}, {}, BatchReport(at=at))  # Spark sees nothing new
        made.ends_seen(Ends({0: 5, 1: 7}, {0: 9, 1: 7}), at)
    assert made.blocked == Blocked(0, 5, 100.0)
    assert (made.reached, made.applied_up_to) == (100.0, 110.0)
    assert made.lag == 4
    made.ends_seen(Ends({0: 9, 1: 7}, {0: 9, 1: 7}), 115.0)
    assert (made.blocked, made.reached) == (None, 110.0)
    assert made.take_notes() == ["the open transaction has ended: the stream reads on"]


def test_transactions_that_end_in_time_are_none_to_report() -> None:
    made = supervisor()
    for at in range(0, 60, 5):  # at each look another one is open
        made.ends_seen(Ends({0: at}, {0: at + 2}), float(at))
    assert (made.blocked, made.take_notes()) == (None, [])
    assert made.lag is None
