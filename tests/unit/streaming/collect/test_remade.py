from __future__ import annotations

import pytest

from streaming.collect import remade as remade_module
from streaming.collect.remade import Remade
from streaming.kafka.metadata import Identity
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import MemoryKafka

SETTINGS = Settings(kafka=KafkaSettings(bootstrap_servers="memory:1"))
TOPIC = SETTINGS.topics.membership


def looks(remade: Remade, start: float) -> list[bool]:
    """A look asks, and the next has the answer."""
    return [remade.seen(start), remade.seen(start + 10), remade.seen(start + 20)]


def test_only_another_topic_of_that_name_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = MemoryKafka(monkeypatch)
    kafka.create(TOPIC)
    remade = Remade(SETTINGS)
    assert looks(remade, 0) == [False] * 3
    kafka.delete(TOPIC)
    assert looks(remade, 100) == [False] * 3
    kafka.create(TOPIC)
    assert any(looks(remade, 200))
    assert caplog.messages[:1] == [
        f"topic {TOPIC} was made again: groups are told their partition counts anew"
    ]


def test_a_topic_that_was_not_there_before_is_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = MemoryKafka(monkeypatch)
    remade = Remade(SETTINGS)
    kafka.create(TOPIC)
    assert looks(remade, 0) == [False] * 3


@pytest.mark.parametrize("ids", [("a", "b"), ("b", "a")])
def test_another_id_is_another_topic_whichever_comes_first(
    monkeypatch: pytest.MonkeyPatch, ids: tuple[str, str]
) -> None:
    kafka = MemoryKafka(monkeypatch)
    kafka.create(TOPIC)
    monkeypatch.setattr(remade_module, "identify", lambda _, names: {names[0]: Identity(ids[0], 4)})
    remade = Remade(SETTINGS)
    for topic_id, other in ((ids[0], False), (ids[1], True)):
        monkeypatch.setattr(
            remade._watch, "look", lambda _, topic_id=topic_id: {TOPIC: Identity(topic_id, 4)}
        )
        assert remade.seen(0) is other
