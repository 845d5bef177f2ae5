"""Records to write: what an event gave, with its topic, partition and headers and within the size limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from assignors.partitioner import partition_for_key
from streaming.episodes.fold import QUIET_MS
from streaming.episodes.kinds import STORM_TURNS
from streaming.incidents.state import DEFAULTS, Thresholds
from streaming.monitor import liveness
from streaming.monitor.expected import MOST_PARTITIONS
from streaming.monitor.rendering import (
    AssignmentOutput,
    DiffOutput,
    EpisodeOutput,
    IncidentOutput,
    Listing,
    Output,
)
from streaming.wire import codec, episodes
from streaming.wire.codec import Record, RecordHeaders
from streaming.wire.dead_letters import dead_letter_headers, fit
from streaming.wire.episodes import EPISODE_TYPE, INCIDENT_TYPE
from streaming.wire.events import Event

#: ``ce_source`` of everything the stream writes from events.
SOURCE = "rebalance-monitor/stream"
DIFF_TYPE = "rebalance.diff"
ASSIGNMENT_TYPE = "rebalance.assignment"
#: A worker sees the same groups again and again.
_partition_for_key = lru_cache(maxsize=1 << 14)(partition_for_key)
#: More than a record of ours takes beside its key and value, bytes.
_HEADROOM = 1024


class Write(NamedTuple):
    """A record to write. ``partition`` None: the producer decides (there is no key)."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders
    partition: int | None


class Sinks(NamedTuple):
    """Where outputs go: topic names, their partition counts, and their longest records where not the usual.

    ``forget_after_ms``: how long an empty group is remembered; the event that ends it goes to ``membership``.
    ``episodes``, ``incidents``: None for none. ``quiet_ms``: how long a group is quiet before its episode is over.
    ``storm_turns``: how often one member is the reason of a rebalance in a storm.
    ``thresholds``: when something is an incident. ``expected_partitions``: observed rounds of so many at most are
    computed again. ``listing``: which members diffs list.
    """

    membership: str
    diffs: str
    assignments: str
    dead_letters: str
    partitions: dict[str, int]
    max_bytes: Mapping[str, int] = MappingProxyType({})
    forget_after_ms: int = liveness.FORGET_AFTER_MS
    episodes: str | None = None
    quiet_ms: int = QUIET_MS
    storm_turns: int = STORM_TURNS
    incidents: str | None = None
    thresholds: Thresholds = DEFAULTS
    expected_partitions: int = MOST_PARTITIONS
    listing: Listing = "auto"

    def limit(self, topic: str) -> int:
        """The longest record of a topic, bytes."""
        return self.max_bytes.get(topic, codec.MAX_RECORD_BYTES)


def write(event: Event, output: Output, sinks: Sinks) -> Write:
    """Return the record of a diff or a latest assignment."""
    value: bytes | None
    if isinstance(output, DiffOutput):
        topic, ce_type, value = sinks.diffs, DIFF_TYPE, output.value(sinks.listing)
    else:
        topic, ce_type, value = sinks.assignments, ASSIGNMENT_TYPE, output.value()
    data = event.data
    headers = codec.headers(ce_type, SOURCE, output.id, data.timestamp)
    return _keyed(topic, data.group_id.encode(), value, headers, sinks)


def write_episode(told: EpisodeOutput, topic: str, sinks: Sinks) -> Write:
    """The record of an episode. All of a group are in one partition, whatever their keys."""
    data = told.event.data
    headers = codec.headers(EPISODE_TYPE, SOURCE, told.id, data.timestamp)
    key = episodes.key(data.group_id, told.state.number)
    value = told.value(sinks.limit(topic) - len(key) - _HEADROOM, sinks.storm_turns)
    partition = _partition_for_key(data.group_id.encode(), sinks.partitions[topic])
    return Write(topic, key, value, headers, partition)


def write_incident(one: IncidentOutput, topic: str, sinks: Sinks) -> Write:
    """The record of an incident; see :func:`write_episode`."""
    data = one.event.data
    headers = codec.headers(INCIDENT_TYPE, SOURCE, one.id, data.timestamp)
    key = episodes.key(data.group_id, one.known.number)
    value = one.value(sinks.limit(topic) - len(key) - _HEADROOM)
    return Write(
        topic, key, value, headers, _partition_for_key(data.group_id.encode(), sinks.partitions[topic])
    )


def write_event(event: Event, sinks: Sinks) -> Write:
    """The record of an event that the timer gave, for the membership log."""
    return _keyed(sinks.membership, *codec.encode_event(event), sinks)


def written(event: Event, outputs: Sequence[Output], sinks: Sinks) -> list[Write]:
    """Return the records of the diffs that an event gave.

    Raises:
        RecordTooLarge: one of them, or the latest assignment, is longer than its topic takes. It would stop the job
            for good, so the event is refused instead.
    """
    if not outputs:
        return []
    writes = [write(event, output, sinks) for output in outputs if isinstance(output, DiffOutput)]
    limit = min(sinks.limit(sinks.diffs), sinks.limit(sinks.assignments))
    # The latest assignment may name a member four times where a diff does once: only then is it made here.
    longest = max((len(made.value or b"") + len(made.key or b"") for made in writes), default=0)
    if any(_may_leave_out(output, sinks.listing) for output in outputs) or 4 * longest + _HEADROOM >= limit:
        _refuse_too_large(writes, limit, sinks)
        latest = [write(event, output, sinks) for output in outputs if isinstance(output, AssignmentOutput)]
        _refuse_too_large(latest, limit, sinks)
    return writes


def _may_leave_out(output: Output, listing: Listing) -> bool:
    """Whether the length of a diff says nothing about that of the latest assignment."""
    if not isinstance(output, DiffOutput):
        return False
    return listing == "changed" or (listing == "auto" and output.is_large)


def _refuse_too_large(writes: Iterable[Write], limit: int, sinks: Sinks) -> None:
    for one in writes:
        if len(one.key or b"") + len(one.value or b"") + _HEADROOM < limit:
            continue
        size = codec.record_bytes(one.key, one.value, one.headers)
        if size > limit:
            raise codec.RecordTooLarge(
                f"group {(one.key or b'').decode()[:100]!r}: {(dict(one.headers)['ce_type'] or b'').decode()} "
                f"would have {size} bytes, max.message.bytes of {sinks.diffs} and {sinks.assignments} is {limit}"
            )


def dead_letter(record: Record, error: Exception, sinks: Sinks) -> Write:
    """The dead letter of a record that could not be used."""
    headers = dead_letter_headers(
        record.all_headers, error, topic=sinks.membership, partition=record.partition, offset=record.offset
    )
    key, value, headers = fit(record.key, record.value, headers, sinks.limit(sinks.dead_letters))
    partition = None
    if record.key is not None:  # of the key as it was, should it have been cut
        partition = partition_for_key(record.key, sinks.partitions[sinks.dead_letters])
    return Write(sinks.dead_letters, key, value, headers, partition)


def _keyed(topic: str, key: bytes | None, value: bytes | None, headers: RecordHeaders, sinks: Sinks) -> Write:
    partition = None if key is None else _partition_for_key(key, sinks.partitions[topic])
    return Write(topic, key, value, headers, partition)
