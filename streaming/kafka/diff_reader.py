"""Reads the diffs from Kafka, each exactly once, and can resume after a restart.

The Spark sink delivers each diff at least once, and a diff's ``ce_id`` is a pure function of the log. So a reader that
drops diffs whose id it has seen gets every diff exactly once.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Message

from assignors.errors import BadInput
from streaming.kafka.clients import Closeable
from streaming.kafka.topic_reader import TopicReader
from streaming.records import codec
from streaming.records.diffs import Diff, diff_decoder
from streaming.settings.config import Settings

#: The most ids that are remembered: when Spark repeats a batch, its diffs soon follow the first copies.
MAX_REMEMBERED_IDS = 200_000


class MalformedDiff(BadInput):
    """A record of the diff topic does not parse as a diff."""


@dataclass(frozen=True, slots=True)
class DiffRecord:
    """One diff with its ``ce_id``, its bytes, and its partition and offset."""

    id: str
    diff: Diff
    value: bytes
    partition: int
    offset: int


class DiffReader(Closeable):
    """Follows the diff topic without a consumer group.

    ``from_beginning``: start at the earliest diff; otherwise read only new diffs. ``positions`` (``{partition: next
    offset}``) and ``topic_id`` of an earlier reader: continue there; a topic that was created again since is read from
    its beginning. ``follow``: wait for a deleted topic, and read the next one; otherwise a deleted topic is an error.
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
        self._seen_ids: OrderedDict[str, None] = OrderedDict()

    @property
    def positions(self) -> dict[int, int]:
        """The next offset of each partition (``{partition: offset}``), from which a later reader can continue."""
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
        """Return the next new diff; None after ``timeout`` seconds, or for a repeated diff or another group's diff.

        Raises MalformedDiff if the record is not a diff; the next call continues with the next record.
        """
        for message in self._reader.poll(timeout):
            return self._parse_record(message)
        return None

    def _parse_record(self, message: Message) -> DiffRecord | None:
        partition, offset, value = message.partition() or 0, message.offset() or 0, message.value() or b""
        ce_id = codec.ce_attributes(message.headers()).get("id")
        if ce_id is None or ce_id in self._seen_ids or self._group not in (None, message.key()):
            return None
        try:
            diff = codec.decode(diff_decoder, value)
        except codec.DECODE_ERRORS as problem:
            raise MalformedDiff(f"{self._topic} partition {partition} offset {offset}: {problem}") from problem
        self._seen_ids[ce_id] = None
        if len(self._seen_ids) > MAX_REMEMBERED_IDS:
            self._seen_ids.popitem(last=False)
        return DiffRecord(ce_id, diff, value, partition, offset)

    def close(self) -> None:
        """Close the connections to Kafka."""
        self._reader.close()


def read_diffs(
    settings: Settings,
    *,
    until: Callable[[], bool] = lambda: False,
    exit_at_end: bool = False,
    on_malformed: Callable[[MalformedDiff], None] | None = None,
    **options: Any,
) -> Iterator[DiffRecord]:
    """Yield every diff once, until ``until()`` returns true; ``until`` is called 10 times per second.

    ``exit_at_end``: end after the diffs that were in the topic at the start. ``on_malformed``: called with the error of
    each record that is not a diff, which is left out; without it the error is raised. Other options are those of
    :class:`DiffReader`.
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
