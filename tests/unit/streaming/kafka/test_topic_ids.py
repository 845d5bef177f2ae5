"""Which topics stand under their names, asked again and again."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError

from streaming.kafka import metadata as identity
from streaming.kafka.clients import ClusterUnavailable
from streaming.kafka.metadata import Contact, Identity, IdentityWatch, identify
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import MemoryAdmin, MemoryKafka

SETTINGS = KafkaSettings(bootstrap_servers="memory:1")


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    made = MemoryKafka(monkeypatch)
    made.create("a", 3)
    made.create("b", 1)
    return made


def test_topics_that_are_there_that_are_not_and_that_may_not_be_seen(kafka: MemoryKafka) -> None:
    kafka.deny("b", "DESCRIBE")
    assert identify(SETTINGS, ["a", "b", "c"]) == {"a": Identity("id-1", 3), "c": None}


def test_an_answer_comes_with_the_next_look_and_a_question_when_it_is_time(kafka: MemoryKafka) -> None:
    watch = IdentityWatch(SETTINGS, ["a"], every=2.0)
    assert watch.look(10.0) is None
    assert watch.look(10.5) == {"a": Identity("id-1", 3)}
    assert watch.trouble is None
    assert watch.look(11.9) is None
    assert kafka.requests.count("describe_topics") == 1
    assert watch.look(12.0) is None  # asked now
    assert watch.look(12.1) == {"a": Identity("id-1", 3)}
    assert kafka.requests.count("describe_topics") == 2


def test_trouble_is_told_and_the_next_question_goes_by_a_new_client(kafka: MemoryKafka) -> None:
    watch = IdentityWatch(SETTINGS, ["a", "b"], every=1.0)
    kafka.fail("describe_topics", KafkaError(KafkaError._TRANSPORT, "away"))
    first = watch._admin
    assert [watch.look(0.0), watch.look(0.5), watch.trouble] == [None, None, "away"]
    assert watch._admin is not first
    assert watch.look(1.0) is None
    assert (watch.look(1.1) or {}).keys() == {"a", "b"}
    assert watch.trouble is None


def test_a_client_that_never_answers_is_replaced(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: object, **__: object) -> dict[str, Future[Any]]:
        return {"a": Future()}

    watch = IdentityWatch(SETTINGS, ["a"], every=1.0)
    with monkeypatch.context() as patched:
        patched.setattr(MemoryAdmin, "describe_topics", silent)
        assert watch.look(0.0) is None
    for now in (1.0, 5.0, 11.0):
        assert (watch.look(now), watch.trouble) == (None, None)
    assert (watch.look(11.1), watch.trouble) == (None, "no answer")
    assert watch.look(11.2) == {"a": Identity("id-1", 3)}


def test_a_cluster_that_does_not_say_is_told_with_its_reason(
    kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "_ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(identity, "LOOK_SECONDS", 0.0)
    kafka.fail("describe_topics", *[KafkaError(KafkaError._TRANSPORT, "away")] * 100)
    with pytest.raises(
        ClusterUnavailable, match=r"bootstrap_servers memory:1: does not describe its topics \(away\)"
    ):
        identify(SETTINGS, ["a"])


def test_contact_that_is_lost_and_found_is_news_once() -> None:
    contact = Contact()
    told = [contact.news(trouble) for trouble in (None, "away", "still away", None, None, "away")]
    lost = "no contact with Kafka (away): waiting for it"
    assert told == [None, lost, None, "Kafka answers again", None, lost]
