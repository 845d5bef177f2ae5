"""Reads the lag of groups over the last hours from the ``group.progress`` events of the membership topic."""

import time
from typing import Final

import msgspec
from confluent_kafka import Message
from confluent_kafka.admin import OffsetSpec
from msgspec import Struct

from streaming.kafka.background_reader import POLL_SECONDS, BackgroundReader
from streaming.kafka.metadata import OffsetRequest, Place, request_identities
from streaming.kafka.topic_reader import TopicReader
from streaming.records import codec
from streaming.records.events import GroupProgress
from streaming.settings.config import Settings

#: The age of the oldest events that a start reads (ms): 120,000 samples for 2,000 stable groups.
_START_MS: Final = 3_600_000
#: The most samples per group: six hours of a stable group.
_MAX_SAMPLES: Final = 360
_BATCH: Final = 500
_samples: Final = msgspec.json.Decoder(GroupProgress)


class GroupLag(Struct, frozen=True, rename="camel"):
    """A group's lag in records, with its samples; ``lag`` is None if the group has committed no offset.

    ``timestamp`` (ms) and ``partitions`` are those of the newest sample; ``timestamp`` is 0 without a sample.
    ``samples``: ``(timestamp, lag of all partitions)``, oldest first.
    """

    timestamp: int = 0
    lag: int | None = None
    partitions: dict[str, dict[str, int | None]] = {}
    samples: tuple[tuple[int, int | None], ...] = ()

    def add(self, sample: GroupProgress) -> "GroupLag":
        """Return the lag with one more sample; a sample that is not newer than the last sample is ignored."""
        if sample.timestamp <= self.timestamp:
            return self
        partitions = {
            topic: {number: None if offset is None else end - offset for number, (offset, end) in offsets.items()}
            for topic, offsets in sample.partitions.items()
        }
        lags = [lag for lag_by_number in partitions.values() for lag in lag_by_number.values() if lag is not None]
        lag = sum(lags) if lags else None
        return GroupLag(sample.timestamp, lag, partitions, (*self.samples[1 - _MAX_SAMPLES :], (sample.timestamp, lag)))

    def until(self, at_ms: int) -> "GroupLag":
        """Return the lag as of ``at_ms``; without partitions, which are stored only for the newest sample."""
        samples = tuple(sample for sample in self.samples if sample[0] <= at_ms)
        return GroupLag(*samples[-1], samples=samples) if samples else GroupLag()


class LagReader(BackgroundReader):
    """Tracks the lag of every group over the last hours: ``with LagReader(settings) as reader: reader.groups``."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.topics.membership, "lags")
        self._settings = settings
        #: Lag by group id.
        self.groups: dict[str, GroupLag] = {}

    def read(self) -> None:
        """Read the events of the last hour, then each new event, until :attr:`stopping` is set."""
        since = time.time_ns() // 1_000_000 - _START_MS
        with TopicReader(
            self._settings.kafka,
            [self.topic],
            from_beginning=False,
            positions=_offsets_at(self._settings, since),
            wait=True,
            follow=True,
            properties={"fetch.wait.max.ms": 500, "queued.max.messages.kbytes": 4096},
        ) as reader:
            while not self.stopping.is_set():
                groups = _add_progress(self.groups, reader.poll(POLL_SECONDS, _BATCH))
                since = time.time_ns() // 1_000_000 - 6 * 3_600_000  # groups without a newer sample are dropped
                self.groups = {group_id: lag for group_id, lag in groups.items() if lag.timestamp > since}
                self.log_trouble(None)

    def mark_unreadable(self) -> None:
        """Do nothing, because the times of the samples show how old the samples are."""


def read_lags(settings: Settings, now_ms: int) -> dict[str, int | None]:
    """Return the lag of each group in its newest sample; raise the errors of :class:`TopicReader`."""
    groups: dict[str, GroupLag] = {}
    # The newest sample of a stable group is not older than twice the sampling interval and 30 s.
    positions = _offsets_at(settings, now_ms - 2000 * settings.collect.progress_rest_seconds - 30_000)
    topics = [settings.topics.membership]
    with TopicReader(settings.kafka, topics, from_beginning=False, positions=positions) as reader:
        while not reader.at_end:
            groups = _add_progress(groups, reader.poll(POLL_SECONDS, _BATCH))
    return {group_id: lag.lag for group_id, lag in groups.items()}


def _add_progress(groups: dict[str, GroupLag], messages: list[Message]) -> dict[str, GroupLag]:
    """Return the groups with the samples of these records, as a new dictionary: other threads read the old one."""
    added = dict(groups)
    for message in messages:
        if dict(message.headers() or ()).get("ce_type") != b"group.progress":
            continue
        try:
            sample = codec.decode(_samples, message.value() or b"")
        except codec.DECODE_ERRORS:  # the stream writes it to the dead-letter topic
            continue
        added[sample.group_id] = added.get(sample.group_id, GroupLag()).add(sample)
    return added


def _offsets_at(settings: Settings, timestamp: int) -> dict[Place, int]:
    """Return each partition's first offset at or after ``timestamp`` (ms), as far as there is such a record."""
    topic = settings.topics.membership
    identity = request_identities(settings.kafka, [topic]).get(topic)
    places = [(topic, number) for number in range(identity.partitions if identity is not None else 0)]
    return OffsetRequest(settings.kafka).wait(places, OffsetSpec.for_timestamp(timestamp))
