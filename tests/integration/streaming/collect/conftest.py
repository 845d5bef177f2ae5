"""Fixtures of the collector's integration tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.streaming.collect.collector_process import written_topic
from tests.support.kafka import Kafka


@pytest.fixture
def topic(broker: Kafka) -> Iterator[str]:
    with written_topic(broker.bootstrap_servers) as name:
        yield name
