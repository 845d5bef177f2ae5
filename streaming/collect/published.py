"""What the membership topic already says of partition counts: a restarted collector does not repeat it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignors.errors import BadInput
from streaming.kafka.clients import confluent_config
from streaming.wire import codec
from streaming.wire.events import GroupDeleted, PartitionsChanged, TopicMetadata

if TYPE_CHECKING:
    from streaming.settings.config import Settings

_TYPES = ("topic.partitions_changed", "group.deleted")
_TIMEOUT = 30.0


def published_topics(settings: Settings, source: str) -> dict[str, dict[str, TopicMetadata]]:
    """Group → topic → the metadata published last with this ``ce_source``; reads the topic once.

    Only two types of event are decoded, so this is as fast as the topic can be read.
    """
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    topic = settings.topics.membership
    told: dict[str, dict[str, TopicMetadata]] = {}
    consumer = Consumer(
        confluent_config(settings.kafka)
        | {"group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True}
    )
    try:
        numbers = set(consumer.list_topics(topic, timeout=_TIMEOUT).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers])
        while numbers:
            for message in consumer.consume(1000, 0.1):
                error = message.error()
                if error is None:
                    _remember(told, message.key(), message.value(), message.headers(), source)
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own code
                    numbers.discard(message.partition())
    finally:
        consumer.close()
    return told


def _remember(
    told: dict[str, dict[str, TopicMetadata]],
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]] | None,
    source: str,
) -> None:
    attributes = codec.ce_attributes(headers)
    if attributes.get("type") not in _TYPES:
        return
    try:
        data = codec.decode_event(key, value, attributes).data
    except BadInput:
        return  # the Spark job sends it to the dead letters
    if isinstance(data, GroupDeleted):
        told.pop(data.group_id, None)
    elif isinstance(data, PartitionsChanged) and attributes["source"] == source:
        told.setdefault(data.group_id, {}).update(data.topics)
