import pytest

from tests.support.memory_kafka import MemoryKafka


@pytest.fixture
def kafka(kafka: MemoryKafka) -> MemoryKafka:
    """Return a cluster in memory with a topic ``t`` of two partitions."""
    kafka.cluster_id = "c"
    kafka.create("t", 2)
    return kafka
