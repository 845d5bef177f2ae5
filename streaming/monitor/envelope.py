"""Records to write: what an event gave, with its topic, partition and headers and within the size limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from msgspec import UNSET

from assignors.partitioner import partition_for_key
from streaming.episodes.fold import QUIET_MS
from streaming.episodes.kinds import STORM_TURNS
from streaming.incidents.state import DEFAULTS, Thresholds
from streaming.monitor import liveness
from streaming.monitor.alarms import IncidentOutput
from streaming.monitor.brief import Naming
from streaming.monitor.expected import MOST_PARTITIONS
from streaming.monitor.rendering import DiffOutput, Output
from streaming.monitor.telling import EpisodeOutput
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
    computed again. ``naming``: whom diffs name.
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
    naming: Naming = "auto"

    def limit(self, topic: str) -> int:
        """The longest record of a topic, bytes."""
        return self.max_bytes.get(topic, codec.MAX_RECORD_BYTES)


def write(event: Event, output: Output, sinks: Sinks) -> Write:
    """The record of what an event gave."""
    if isinstance(output, DiffOutput):
        topic, ce_type = sinks.diffs, DIFF_TYPE
    else:
        topic, ce_type = sinks.assignments, ASSIGNMENT_TYPE
    data = event.data
    headers = codec.headers(ce_type, SOURCE, output.id, data.timestamp)
    return _keyed(topic, data.group_id.encode(), output.value, headers, sinks)


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


def written(event: Event, outputs: Sequence[Output], sinks: Sinks, told: int = 0) -> list[Write]:
    """The records of the diffs that an event gave.

    ``told``: bytes of an event that names everybody of whom the latest assignment says anything; 0: it does not.

    Raises:
        RecordTooLarge: one of them, or the latest assignment, is longer than its topic takes: it would stop the job
            for good, so the event is refused instead.
    """
    if not outputs:
        return []
    writes: list[Write] = []
    limit = min(sinks.limit(sinks.diffs), sinks.limit(sinks.assignments))
    # The latest assignment may name a member four times where a diff or a view does once: it is made when that
    # can matter. A diff that leaves members out says nothing of how long it is, and it may not be looked at again
    # before so many more are in it as one in eight.
    longest, brief = told, False
    for output in outputs:
        if isinstance(output, DiffOutput):
            made = write(event, output, sinks)
            writes.append(made)
            longest = max(longest, len(made.value or b"") + len(made.key or b""))
            brief = brief or (output.unchanged is not UNSET and not told)
    if brief or not writes or 4 * longest + _HEADROOM >= limit:
        latest = [write(event, output, sinks) for output in outputs if not isinstance(output, DiffOutput)]
        _refuse_too_large(writes, limit, sinks)
        _refuse_too_large(latest, limit * 8 // 9 if brief else limit, sinks)
    return writes


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
