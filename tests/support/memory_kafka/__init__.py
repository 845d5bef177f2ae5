"""A Kafka cluster in memory behind the client classes of confluent-kafka, for fast tests.

The fake implements the behaviour that this project relies on: offset gaps at transaction markers, ends of partitions as
events, ids of topics, delivery reports in ``poll``, atomic transactions. A test causes what a broker decides by itself
(elections, ACLs, timeouts): :attr:`MemoryKafka.away`, :meth:`MemoryKafka.deny`, :meth:`MemoryKafka.fail`. The
integration tests check the same behaviour with real brokers.
"""

from tests.support.memory_kafka.admin import MemoryAdmin, group
from tests.support.memory_kafka.clients import MemoryProducer
from tests.support.memory_kafka.cluster import SETTINGS, MemoryKafka
from tests.support.memory_kafka.log import Log, Message

__all__ = ["SETTINGS", "Log", "MemoryAdmin", "MemoryKafka", "MemoryProducer", "Message", "group"]
