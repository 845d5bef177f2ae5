"""Metadata of topics: topic ids, committed and end offsets, and clients that have stalled."""

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError

from streaming.kafka import metadata
from streaming.kafka.clients import ClusterUnavailable
from streaming.kafka.metadata import (
    STALL_SECONDS,
    EndOffsets,
    Identity,
    IdentityWatch,
    Place,
    StallCheck,
    bounds,
    request_identities,
)
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import MemoryAdmin, MemoryKafka

SETTINGS = KafkaSettings(bootstrap_servers="memory:1")
A, B = ("t", 0), ("t", 1)


@pytest.fixture
def kafka(kafka: MemoryKafka) -> MemoryKafka:
    kafka.create("a", 3)
    kafka.create("b", 1)
    kafka.create("t", 2)
    kafka.append("t", b"v", partition=1)
    return kafka


def test_topics_are_present_missing_or_invisible(kafka: MemoryKafka) -> None:
    kafka.deny("b", "DESCRIBE")
    assert request_identities(SETTINGS, ["a", "b", "c"]) == {"a": Identity("id-1", 3), "c": None}


def test_topic_identity_is_returned_by_the_next_call(kafka: MemoryKafka) -> None:
    watch = IdentityWatch(SETTINGS, ["a"], interval_s=2.0)
    assert watch.poll(10.0) is None
    assert watch.poll(10.5) == {"a": Identity("id-1", 3)}
    assert watch.trouble is None
    assert watch.poll(11.9) is None
    assert kafka.requests.count("describe_topics") == 1
    assert watch.poll(12.0) is None  # the request is sent now
    assert watch.poll(12.1) == {"a": Identity("id-1", 3)}
    assert kafka.requests.count("describe_topics") == 2


def test_error_is_reported_and_a_new_client_is_used(kafka: MemoryKafka) -> None:
    watch = IdentityWatch(SETTINGS, ["a", "b"], interval_s=1.0)
    kafka.fail("describe_topics", KafkaError(KafkaError._TRANSPORT, "away"))
    first = watch._admin
    assert [watch.poll(0.0), watch.poll(0.5), watch.trouble] == [None, None, "away"]
    assert watch._admin is not first
    assert watch.poll(1.0) is None
    assert (watch.poll(1.1) or {}).keys() == {"a", "b"}
    assert watch.trouble is None


def test_a_client_that_never_answers_is_replaced(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    def never_answer(*_: object, **__: object) -> dict[str, Future[Any]]:
        return {"a": Future()}

    watch = IdentityWatch(SETTINGS, ["a"], interval_s=1.0)
    with monkeypatch.context() as patch_context:
        patch_context.setattr(MemoryAdmin, "describe_topics", never_answer)
        assert watch.poll(0.0) is None
    for now in (1.0, 5.0, 11.0):
        assert (watch.poll(now), watch.trouble) == (None, None)
    assert (watch.poll(11.1), watch.trouble) == (None, "no answer")
    assert watch.poll(11.2) == {"a": Identity("id-1", 3)}


def test_cluster_error_is_reported_with_its_reason(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "_REQUEST_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(metadata, "CHECK_SECONDS", 0.0)
    kafka.fail("describe_topics", *[KafkaError(KafkaError._TRANSPORT, "away")] * 100)
    with pytest.raises(
        ClusterUnavailable, match=r"bootstrap_servers memory:1: no broker describes its topics \(away\)"
    ):
        request_identities(SETTINGS, ["a"])


def test_leaderless_partition_is_awaited(kafka: MemoryKafka) -> None:
    for code in (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE):
        kafka.fail("list_offsets", KafkaError(code, "no leader"))
    assert bounds(SETTINGS, [B]) == {B: (0, 1)}


def test_denied_topic_is_reported_at_once(kafka: MemoryKafka) -> None:
    kafka.fail("list_offsets", KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "denied"))
    with pytest.raises(ClusterUnavailable, match="topic t: no broker returns its partitions' ends: denied"):
        bounds(SETTINGS, [A])


def test_client_has_metadata_before_it_is_polled(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(kafka, "receive", calls.append)
    assert bounds(SETTINGS, [A]) == {A: (0, 0)}
    assert calls == ["list_topics", "list_offsets", "list_offsets"]


def test_end_offsets_are_refreshed_once_a_second(kafka: MemoryKafka) -> None:
    ends = EndOffsets(SETTINGS, [A, B])
    assert (ends.are_current(0), dict(ends.poll(0))) == (False, {A: 0, B: 1})
    kafka.append("t", b"v", partition=1)
    assert ends.poll(0.9) == {A: 0, B: 1}
    assert ends.poll(1.0) == {A: 0, B: 2}
    assert (ends.are_current(6.0), ends.are_current(6.1)) == (True, False)


def test_a_partition_without_a_leader_keeps_its_end(kafka: MemoryKafka) -> None:
    ends = EndOffsets(SETTINGS, [A, B])
    ends.poll(0)
    for now in range(1, 7):
        kafka.fail("list_offsets", KafkaError(KafkaError.LEADER_NOT_AVAILABLE, "no leader"))
        assert ends.poll(now) == {A: 0, B: 1}
    assert not ends.are_current(6)
    ends.poll(7)
    assert ends.are_current(7)


def test_request_without_an_answer_times_out(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = EndOffsets(SETTINGS, [A])
    ends.poll(0)
    (admin,) = kafka.admins
    unanswered_future: Future[Any] = Future()
    with monkeypatch.context() as patch_context:
        patch_context.setattr(admin, "list_offsets", lambda places, **_: dict.fromkeys(places, unanswered_future))
        assert (ends.poll(1), ends.poll(11)) == ({A: 0}, {A: 0})
    ends.poll(12)
    assert not ends.are_current(12)
    ends.poll(13)
    assert ends.are_current(13)


@pytest.mark.parametrize(
    ("end_of_b", "positions", "stalled"),
    [
        (5, [{A: 5, B: 5}, {A: 5, B: 5}], {}),
        (5, [{A: 5, B: 4}, {A: 5, B: 4}], {B: (0, 5)}),
        (5, [{A: 3, B: 4}, {A: 4, B: 4}, {A: 5, B: 4}], {}),
        (2, [{A: 3, B: 4}, {A: 4, B: 4}], {B: (0, 2)}),
    ],
    ids=["at-the-end", "without-progress", "progress-in-another-partition", "truncated"],
)
def test_reader_without_progress_is_stalled(
    monkeypatch: pytest.MonkeyPatch,
    end_of_b: int,
    positions: list[dict[Place, int]],
    stalled: dict[Place, tuple[int, int]],
) -> None:
    known_bounds = {A: (0, 5), B: (0, end_of_b)}
    monkeypatch.setattr(metadata, "bounds", lambda _, places, **__: {place: known_bounds[place] for place in places})
    check = StallCheck(KafkaSettings())
    polled = [check.poll(position, number * STALL_SECONDS) for number, position in enumerate(positions)]
    assert polled == [{}] * (len(positions) - 1) + [stalled]
