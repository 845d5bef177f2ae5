"""Fixtures of the collector's integration tests."""

from collections.abc import Iterator

import pytest

from tests.integration.streaming.collect.collector_process import topic_with_writer
from tests.support.kafka import Kafka


@pytest.fixture
def topic(broker: Kafka) -> Iterator[str]:
    with topic_with_writer(broker.bootstrap_servers) as name:
        yield name
