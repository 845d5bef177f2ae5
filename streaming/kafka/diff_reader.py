"""Reads the diffs from Kafka: each exactly once, resumable.

The Spark sink delivers at least once, and each diff's ``ce_id`` is a pure function of the log. A reader that drops
the ids it has seen gets every diff exactly once::

    for record in read_diffs(load(bootstrap_servers="127.0.0.1:9092"), from_beginning=True):
        print(record.diff.group_id, record.diff.cause.kind, record.diff.moved)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from confluent_kafka import Message

from assignors.errors import BadInput
from streaming.kafka.clients import Closing
from streaming.kafka.topic_reader import TopicReader
from streaming.records import codec
from streaming.records.diffs import Diff
from streaming.settings.config import Settings

#: Most ids kept. Repeats are close to the first copy: they come from a batch that Spark writes again.
REMEMBERED_IDS = 200_000

_decoder = msgspec.json.Decoder(Diff)


class MalformedDiff(BadInput):
    """A record of the diff topic does not parse as a diff."""


@dataclass(frozen=True, slots=True)
class DiffRecord:
    """One diff, its ``ce_id``, its bytes, and its offset."""

    id: str
    diff: Diff
    value: bytes
    partition: int
    offset: int


class DiffReader(Closing):
    """Follows the diff topic without a consumer group.

    Args:
        from_beginning: start at the earliest diff; otherwise read new diffs only.
        positions: ``{partition: next offset}`` of an earlier reader, to continue there.
        topic_id: that reader's; a topic that was made again since is read from its beginning.
        follow: wait for a topic that is deleted, and read it from its beginning once it is made again; otherwise
            that is an error.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        from_beginning: bool = False,
        positions: Mapping[int, int] | None = None,
        topic_id: str | None = None,
        group: str | None = None,
        follow: bool = True,
    ) -> None:
        self._topic = settings.topics.diffs
        self._reader = TopicReader(
            settings.kafka,
            [self._topic],
            from_beginning=from_beginning,
            positions={(self._topic, number): offset for number, offset in (positions or {}).items()},
            ids={} if topic_id is None else {self._topic: topic_id},
            follow=follow,
        )
        self._group = None if group is None else group.encode()
        self._seen: OrderedDict[str, None] = OrderedDict()

    @property
    def positions(self) -> dict[int, int]:
        """``{partition: next offset}``, with which a later reader continues."""
        return {number: offset for (_, number), offset in self._reader.positions.items()}

    @property
    def topic_id(self) -> str | None:
        """The id of the topic; None while it does not exist."""
        return self._reader.ids.get(self._topic)

    @property
    def at_end(self) -> bool:
        """True if all records that existed at the start have been read."""
        return self._reader.at_end

    def poll(self, timeout: float) -> DiffRecord | None:
        """Return the next new diff, or None after ``timeout`` seconds or for a record of another group.

        Raises:
            MalformedDiff: a record is no diff; the next call continues behind it.
        """
        for message in self._reader.poll(timeout):
            return self._record(message)
        return None

    def _record(self, message: Message) -> DiffRecord | None:
        partition, offset, value = message.partition() or 0, message.offset() or 0, message.value() or b""
        ce_id = codec.ce_attributes(message.headers()).get("id")
        if ce_id is None or ce_id in self._seen:
            return None
        if self._group is not None and message.key() != self._group:
            return None
        try:
            diff = codec.decode(_decoder, value)
        except codec.UNREADABLE as problem:
            raise MalformedDiff(f"{self._topic} partition {partition} offset {offset}: {problem}") from problem
        self._seen[ce_id] = None
        if len(self._seen) > REMEMBERED_IDS:
            self._seen.popitem(last=False)
        return DiffRecord(ce_id, diff, value, partition, offset)

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()


def read_diffs(
    settings: Settings,
    *,
    until: Callable[[], bool] = lambda: False,
    exit_at_end: bool = False,
    on_malformed: Callable[[MalformedDiff], None] | None = None,
    **options: Any,
) -> Iterator[DiffRecord]:
    """Yield every diff once, until ``until()`` is true, which is called 10 times a second.

    ``exit_at_end``: end with what the topic held at the start. ``on_malformed``: called with each record that is no
    diff, which is left out. Other options are those of :class:`DiffReader`.

    Raises:
        MalformedDiff: a record is no diff, and there is no ``on_malformed``.
    """
    with DiffReader(settings, follow=not exit_at_end, **options) as reader:
        while not until():
            if exit_at_end and reader.at_end:
                return
            try:
                record = reader.poll(0.1)
            except MalformedDiff as problem:
                if on_malformed is None:
                    raise
                on_malformed(problem)
            else:
                if record is not None:
                    yield record
