"""Fixtures for the unit tests of every package."""

import pytest

from tests.support.memory_kafka import MemoryKafka


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    """Replace every Kafka client by an in-memory cluster without topics, and return this cluster."""
    return MemoryKafka(monkeypatch)
