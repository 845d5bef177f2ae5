from __future__ import annotations

import pytest

from tests.support.memory_kafka import MemoryKafka


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    """Return a cluster in memory with a topic ``t`` of two partitions."""
    made = MemoryKafka(monkeypatch)
    made.cluster_id = "c"
    made.create("t", 2)
    return made
