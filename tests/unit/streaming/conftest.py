"""Fixtures for the unit tests of every package."""

import logging

import pytest

from tests.support.memory_kafka import MemoryKafka


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    """Replace every Kafka client by an in-memory cluster without topics, and return this cluster."""
    return MemoryKafka(monkeypatch)


@pytest.fixture(autouse=True)
def _default_log_level() -> None:
    """Set the root logger's default level, whichever level earlier tests of this process have set."""
    logging.getLogger().setLevel(logging.WARNING)
