"""Lists the dead letters in their topic, and sends their records again.

Sending again helps once the stream can use a record: after an upgrade that supports a new type, for example.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from confluent_kafka import KafkaException, Message

from assignors.errors import BadInput
from streaming.kafka.access import refusal
from streaming.kafka.producer import EventProducer, SendFailed
from streaming.kafka.topic_reader import read_to_end
from streaming.records.dead_letters import HEADER_PREFIX, TRUNCATED_HEADER
from streaming.settings.config import Settings

_FLUSH_SECONDS: Final = 60.0


class DeadLetter(msgspec.Struct, frozen=True, rename="camel"):
    """One dead letter; ``value`` and the headers' values are bytes, written as base64 in JSON."""

    partition: int
    offset: int
    exception: str
    message: str
    source_topic: str
    source_partition: int
    source_offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    truncated: bool = False


def read(settings: Settings) -> Iterator[DeadLetter]:
    """Yield every dead letter that is in the topic now, in order within each partition."""
    return map(_parse_dead_letter, read_to_end(settings.kafka, settings.topics.dead_letters))


def resubmit(settings: Settings, dead_letters: Iterable[DeadLetter]) -> int:
    """Send the records of dead letters to the membership topic, and return how many records were delivered.

    Sending a record twice is harmless: an event that was already applied changes nothing. Raises BadInput for a dead
    letter that has only a part of its record, because the record is longer than the topic allows.
    """
    topic, sent = settings.topics.membership, 0
    producer = EventProducer(settings, component="dlt")
    try:
        producer.prepare()
        for letter in dead_letters:
            if letter.truncated:
                producer.flush(_FLUSH_SECONDS)
                source = f"{letter.source_topic} {letter.source_partition}:{letter.source_offset}"
                raise BadInput(
                    f"{letter.partition}:{letter.offset}: contains only part of the record; the complete record is at "
                    f"{source}; {sent} records were sent before it"
                )
            producer.send_record(topic, letter.key, letter.value, letter.headers)
            sent += 1
        producer.flush(_FLUSH_SECONDS)
    except KafkaException as error:  # the cluster refuses an idempotent producer that may write to no topic
        reason = error.args[0]
        raise refusal(reason, settings, "dlt") or SendFailed(f"topic {topic}: {reason.str()}") from error
    return sent


def pick_letters(dead_letters: Iterator[DeadLetter], places: list[str]) -> list[DeadLetter]:
    """Return the dead letters at the given ``partition:offset`` places, in that order."""
    by_place = {f"{letter.partition}:{letter.offset}": letter for letter in dead_letters}
    for place in places:
        if place not in by_place:
            raise BadInput(f"{place!r}: no dead letter at this offset; `dlt list` shows PARTITION:OFFSET of each")
    return [by_place[place] for place in places]


def _parse_dead_letter(message: Message) -> DeadLetter:
    headers: list[tuple[str, bytes | None]] = message.headers() or []
    texts = {name: (data or b"").decode(errors="replace") for name, data in headers if name.startswith(HEADER_PREFIX)}
    partition, offset = (
        int(text) if re.fullmatch(r"[0-9]{1,19}", text := texts.get(name, "")) else 0
        for name in ("dlt_partition", "dlt_offset")
    )
    return DeadLetter(
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        exception=texts.get("dlt_exception", ""),
        message=texts.get("dlt_message", ""),
        source_topic=texts.get("dlt_topic", ""),
        source_partition=partition,
        source_offset=offset,
        key=message.key(),
        value=message.value(),
        headers=[(name, data) for name, data in headers if not name.startswith(HEADER_PREFIX)],
        truncated=TRUNCATED_HEADER in texts,
    )
