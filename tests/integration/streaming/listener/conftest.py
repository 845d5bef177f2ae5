"""Fixtures of the listener's integration tests."""

from collections.abc import Iterator

import pytest

from tests.integration.streaming.collect.collector_process import topic_with_writer
from tests.support.kafka import Kafka


@pytest.fixture
def written(broker: Kafka) -> Iterator[str]:
    """Return a topic of six partitions to which a producer writes until the end of the module."""
    with topic_with_writer(broker.bootstrap_servers) as name:
        yield name
