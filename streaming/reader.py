"""Read the diff feed from Kafka: every diff once, resumable.

The Spark sink delivers at least once and each diff's ``ce_id`` is a pure function of the log, so a reader that
drops the ids it has seen gets every diff exactly once. Nobody should write that by hand::

    for record in read_diffs(load(bootstrap_servers="127.0.0.1:9092"), from_beginning=True):
        print(record.diff.group_id, record.diff.cause.kind, record.diff.moved)
"""

from __future__ import annotations

import contextlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import msgspec

from assignors.errors import BadInput, OutsideFailure
from streaming import codec
from streaming.events import Diff
from streaming.kafka.clients import confluent_config

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

    from streaming.config import Settings

#: Repeats come from a batch that Spark writes again, so they stand close to the first copy. Ids remembered:
REMEMBERED_IDS = 200_000
#: A cluster that does not answer for so long at the start is an error; later it is waited for.
START_SECONDS = 10.0

_decoder = msgspec.json.Decoder(Diff)


class MalformedDiff(BadInput):
    """A record of the diff topic does not parse as a diff."""


class DiffTopicUnavailable(OutsideFailure):
    """The diff topic can't be read."""


@dataclass(frozen=True, slots=True)
class DiffRecord:
    """One diff, its ``ce_id``, its bytes, and where it stands in the topic."""

    id: str
    diff: Diff
    value: bytes
    partition: int
    offset: int


class DiffReader:
    """Follows the diff topic without a consumer group.

    Args:
        settings: how to reach the cluster and what the topic is called.
        from_beginning: start at the earliest diff; otherwise only diffs that land from now on.
        positions: ``{partition: next offset}`` of an earlier reader; it goes on there.
        group: only this group's diffs.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        from_beginning: bool = False,
        positions: Mapping[int, int] | None = None,
        group: str | None = None,
    ) -> None:
        from confluent_kafka import Consumer

        self._topic = settings.topics.diffs
        self._group = group
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._positions: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._consumer: Consumer = Consumer(
            confluent_config(settings.kafka)
            | {
                "group.id": "rebalance-monitor-reader",  # required by the client, never joined: we assign
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
            }
        )
        try:
            self._start(from_beginning, positions or {})
        except BaseException:
            self._consumer.close()
            raise

    def _start(self, from_beginning: bool, positions: Mapping[int, int]) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                bounds = self._bounds()
                break
            except KafkaException as error:
                # A topic that was just created, or moves: its leader is found within moments.
                if time.monotonic() > deadline:
                    raise DiffTopicUnavailable(f"topic {self._topic}: {error.args[0].str()}") from error
                self._consumer.poll(0.2)
        for partition, (low, high) in bounds.items():
            self._ends[partition] = high
            self._positions[partition] = positions.get(partition, low if from_beginning else high)
        self._consumer.assign(
            [TopicPartition(self._topic, p, offset) for p, offset in self._positions.items()]
        )

    def _bounds(self) -> dict[int, tuple[int, int]]:
        """``{partition: (earliest offset, next offset)}``."""
        from confluent_kafka import TopicPartition

        metadata = self._consumer.list_topics(self._topic, timeout=START_SECONDS).topics[self._topic]
        if metadata.error is not None or not metadata.partitions:
            raise DiffTopicUnavailable(
                f"topic {self._topic}: does not exist; `rebalance-monitor topics --create` makes it"
            )
        return {
            partition: self._consumer.get_watermark_offsets(
                TopicPartition(self._topic, partition), timeout=START_SECONDS
            )
            for partition in metadata.partitions
        }

    @property
    def positions(self) -> dict[int, int]:
        """``{partition: next offset}``: give it to a later reader to go on there."""
        return dict(self._positions)

    @property
    def at_end(self) -> bool:
        """Whether everything that was in the topic when the reader started has been read."""
        return all(self._positions[partition] >= end for partition, end in self._ends.items())

    def poll(self, timeout: float) -> DiffRecord | None:
        """The next new diff, or None after ``timeout`` seconds or for a record that is not asked for.

        Raises:
            MalformedDiff: a record is no diff; the reader goes on behind it when called again.
            DiffTopicUnavailable: the topic is gone.
        """
        message = self._consumer.poll(timeout)
        if message is None:
            return None
        error = message.error()
        if error is not None:
            if error.retriable() or not error.fatal():
                return None  # librdkafka reconnects by itself; a broker that is away is waited for
            raise DiffTopicUnavailable(f"topic {self._topic}: {error.str()}")
        return self._record(message)

    def _record(self, message: Message) -> DiffRecord | None:
        partition, offset = message.partition(), message.offset()
        self._positions[partition] = offset + 1
        ce_id = codec.ce_attributes(message.headers()).get("id")
        if ce_id is None or ce_id in self._seen:
            return None
        self._seen[ce_id] = None
        if len(self._seen) > REMEMBERED_IDS:
            self._seen.popitem(last=False)
        if self._group is not None and message.key() != self._group.encode():
            return None
        value = message.value()
        try:
            diff = _decoder.decode(value)
        except (msgspec.MsgspecError, TypeError) as problem:
            raise MalformedDiff(
                f"{self._topic} partition {partition} offset {offset}: {problem}"
            ) from problem
        return DiffRecord(ce_id, diff, value, partition, offset)

    def close(self) -> None:
        """Give the connections back."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_diffs(
    settings: Settings,
    *,
    until: Callable[[], bool] = lambda: False,
    exit_at_end: bool = False,
    **options: Any,
) -> Iterator[DiffRecord]:
    """Every diff once, as :class:`DiffReader` gives them, until ``until()`` is true (asked 10 times a second).

    ``exit_at_end`` ends at what was there at the start. Other options are those of :class:`DiffReader`.
    """
    with contextlib.closing(DiffReader(settings, **options)) as reader:
        while not until():
            if exit_at_end and reader.at_end:
                return
            record = reader.poll(0.1)
            if record is not None:
                yield record
