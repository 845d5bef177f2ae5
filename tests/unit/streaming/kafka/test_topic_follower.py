"""A topic follower whose broker rejects requests for a while."""

import threading
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from streaming.kafka import topic_follower
from streaming.kafka.clients import ClusterUnavailable
from streaming.kafka.topic_follower import TopicFollower
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import Message

END_OFFSET = 7


class RefusingConsumer:
    """A fake consumer of one record; each kind of request fails with its listed errors before it succeeds."""

    def __init__(self, kept: int = -1001, **errors: list[int]) -> None:
        self.kept, self._error_codes = kept, errors
        self.commits: list[int] = []
        self.starts: list[int] = []

    def _raise_refusal(self, request: str) -> None:
        if error_codes := self._error_codes.get(request):
            raise KafkaException(KafkaError(error_codes.pop(0)))

    def subscribe(self, topics: list[str], on_assign: Callable[..., None]) -> None:
        self._topics, self._on_assign = topics, on_assign

    def poll(self, _timeout: float) -> Message | None:
        if not self.starts:
            self._on_assign(self, [TopicPartition(self._topics[0], 0)])
            return Message(self._topics[0], 0, END_OFFSET)
        return None

    def committed(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        del timeout
        self._raise_refusal("committed")
        return [TopicPartition(place.topic, place.partition, self.kept) for place in places]

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        del place, timeout
        self._raise_refusal("end")
        return 0, END_OFFSET

    def commit(self, *, asynchronous: bool, message: Message | None = None, offsets: Any = None) -> None:
        assert not asynchronous
        self._raise_refusal("commit")
        self.commits.append(END_OFFSET + 1 if message else offsets[0].offset)

    def assign(self, places: list[TopicPartition]) -> None:
        self.starts = [place.offset for place in places]

    def assignment(self) -> list[TopicPartition]:
        return []

    def resume(self, places: list[TopicPartition]) -> None: ...

    def close(self) -> None: ...


def follow(
    monkeypatch: pytest.MonkeyPatch,
    consumer: RefusingConsumer,
    restore: Callable[[TopicPartition], None] = lambda _: None,
) -> list[int | None]:
    """Run a :class:`TopicFollower` until it has handled one record; return the offsets of handled records."""
    monkeypatch.setattr(confluent_kafka, "Consumer", lambda _: consumer)
    monkeypatch.setattr(topic_follower, "_POLL_SECONDS", 0.001)
    stop, handled_offsets = threading.Event(), list[int | None]()

    def handle(message: Any) -> None:
        handled_offsets.append(message.offset())
        stop.set()

    TopicFollower(KafkaSettings(), "g", ["t"], stop).follow(handle, restore)
    return handled_offsets


def test_requests_that_fail_for_a_while_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = RefusingConsumer(
        committed=[KafkaError.NOT_COORDINATOR, KafkaError._TIMED_OUT],
        end=[KafkaError.LEADER_NOT_AVAILABLE, KafkaError._ALL_BROKERS_DOWN],
        commit=[KafkaError.INVALID_REPLICATION_FACTOR],
    )
    assert follow(monkeypatch, consumer) == [END_OFFSET]
    assert (consumer.starts, consumer.commits) == ([END_OFFSET], [END_OFFSET, END_OFFSET + 1])


def test_state_is_restored_again_after_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    restored_positions: list[int] = []

    def restore(place: TopicPartition) -> None:
        restored_positions.append(place.offset)
        if len(restored_positions) == 1:
            raise ClusterUnavailable("no answer")

    assert follow(monkeypatch, RefusingConsumer(kept=END_OFFSET), restore) == [END_OFFSET]
    assert restored_positions == [END_OFFSET, END_OFFSET]


def test_lost_group_membership_is_not_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = RefusingConsumer(commit=[KafkaError.ILLEGAL_GENERATION])
    assert follow(monkeypatch, consumer) == [END_OFFSET]
    assert (consumer.starts, consumer.commits) == ([END_OFFSET], [END_OFFSET + 1])


def test_a_missing_permission_ends_the_follower(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = RefusingConsumer(end=[KafkaError.TOPIC_AUTHORIZATION_FAILED])
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        follow(monkeypatch, consumer)
