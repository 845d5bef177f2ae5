"""A Kafka cluster in memory behind the client classes of confluent-kafka, for fast tests.

It implements the behaviour that our code relies on: offset gaps at transaction markers, ends of partitions as
events, ids of topics, deliveries that come with ``poll``, transactions that are there whole or not at all. What a
broker decides by itself (elections, ACLs, timeouts) a test says: :attr:`MemoryKafka.away`,
:meth:`MemoryKafka.deny`, :meth:`MemoryKafka.fail`. Real brokers answer the same in the integration tests.
"""

from tests.support.memory_kafka.admin import MemoryAdmin, group
from tests.support.memory_kafka.clients import MemoryProducer
from tests.support.memory_kafka.cluster import MemoryKafka
from tests.support.memory_kafka.log import Log, Message

__all__ = ["Log", "MemoryAdmin", "MemoryKafka", "MemoryProducer", "Message", "group"]
