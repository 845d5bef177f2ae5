"""Fixtures of the listener's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.streaming.collect.collecting import written_topic
from tests.support.kafka import Kafka


@pytest.fixture
def written(broker: Kafka) -> Iterator[str]:
    """A topic of six partitions that somebody writes to."""
    with written_topic(broker.bootstrap_servers) as name:
        yield name
