"""Output records of the stream: their JSON, ids, headers, topics and size limits."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeVar

from msgspec import UNSET, Struct, structs

from assignors.assignment import size
from assignors.partitioner import partition_for_key
from streaming.episodes.fold import QUIET_TIME_MS
from streaming.episodes.incidents import LIMITS, IncidentLimits, StoredIncident, incident_record, shorten_incident
from streaming.episodes.kinds import STORM_ROUNDS
from streaming.episodes.record import record as episode_record
from streaming.episodes.record import shorten_episode
from streaming.episodes.state import EpisodeState
from streaming.monitor.expected import MAX_COMPARED_PARTITIONS
from streaming.monitor.heartbeats import FORGET_AFTER_MS
from streaming.monitor.rounds import Round
from streaming.monitor.state import GroupState, MemberState, names_of
from streaming.records import codec
from streaming.records.codec import Record, RecordHeaders, encode
from streaming.records.dead_letters import dead_letter_headers, shorten_dead_letter
from streaming.records.diffs import Diff, LatestAssignment, MemberDiff
from streaming.records.episodes import ANNOTATION_TYPE, EPISODE_TYPE, INCIDENT_TYPE, StoredAnnotation
from streaming.records.events import Annotation, Event, Partitions

_T = TypeVar("_T")
#: Members that a diff lists: all; only changed ones; or only changed ones if the group has more than
#: :data:`LARGE_GROUP` members.
ListedMembers = Literal["auto", "all", "changed"]
#: By default, diffs list only changed members if the group has more members than this.
LARGE_GROUP_MEMBERS: Final = 100


class DiffOutput(Struct, frozen=True, gc=False):
    """A diff to write: its ``ce_id``, the event and the round behind it, its moves, and the members before it.

    ``diff`` lists all members. ``moves``: partitions assigned to another member than their last owner.
    """

    id: str
    event: Event
    decided: Round
    diff: Diff
    moves: Partitions
    past: Sequence[MemberState]

    def value(self, listing: ListedMembers = "all") -> bytes:
        """Return the JSON of the diff, with all or only changed members."""
        if not self.omits_unchanged_members(listing):
            return encode(self.diff)
        past, members = {member.member_id: member for member in self.past}, self.diff.members
        named = self.decided.changed.union(self.diff.cause.member_ids)
        unchanged = {
            member_id: change
            for member_id, change in members.items()
            if member_id not in named and _is_unchanged(past.get(member_id), change)
        }
        if not unchanged:
            return encode(self.diff)
        listed = {member_id: change for member_id, change in members.items() if member_id not in unchanged}
        held = sum(size(member.kept) for member in unchanged.values())
        if self.diff.kind == "share":  # listed members may own the same partitions
            shares = [share for member in listed.values() for share in (member.kept, member.assigned)]
            held = len(_partition_set(member.kept for member in unchanged.values()) - _partition_set(shares))
        return encode(structs.replace(self.diff, members=listed, unchanged=len(unchanged), unchanged_partitions=held))

    def omits_unchanged_members(self, listing: ListedMembers) -> bool:
        """True if the diff lists only changed members: by default, if the group is large before or after the round."""
        is_large = max(len(self.past), len(self.decided.members)) > LARGE_GROUP_MEMBERS
        return listing == "changed" or (listing == "auto" and is_large)


def _is_unchanged(before: MemberState | None, change: MemberDiff) -> bool:
    return (
        before is not None
        and not (change.revoked or change.assigned)
        and bool(change.present)
        and before.client_id == change.client_id
        and before.client_host == change.client_host
        and before.instance_id == change.group_instance_id
    )


def _partition_set(shares: Iterable[dict[str, list[int]]]) -> set[tuple[str, int]]:
    return {(topic, number) for share in shares for topic, numbers in share.items() for number in numbers}


class AssignmentOutput(Struct, frozen=True, gc=False):
    """The latest assignment of a group; a tombstone if ``state`` is None. Only the last one per batch is encoded."""

    event: Event
    state: GroupState | None

    @property
    def assignment(self) -> LatestAssignment | None:
        """The latest assignment; None for a tombstone."""
        state = self.state
        if state is None:
            return None
        has_epochs, streams = state.protocol != "classic", state.kind == "streams"
        return LatestAssignment(
            group_id=self.event.data.group_id,
            protocol=state.protocol,
            assignor=state.assignor,
            generation=None if has_epochs else state.generation,
            group_epoch=state.generation if has_epochs else None,
            timestamp=self.event.data.timestamp,
            members={member.member_id: member.owned for member in state.members},
            kind=UNSET if state.kind == "consumer" else state.kind,
            standby=state.standby if streams else UNSET,
            warmup=state.warmup if streams else UNSET,
            names=names_of(state.members),
            racks={member.member_id: member.rack_id for member in state.members if member.rack_id} or UNSET,
        )


Output = DiffOutput | AssignmentOutput


class EpisodeOutput(NamedTuple):
    """An episode that an event changed; only its last change in a batch is written. ``closed``: it has ended."""

    event: Event
    state: EpisodeState
    closed: bool


class IncidentOutput(NamedTuple):
    """An incident that an event changed; of several changes in a batch, only the last one is encoded."""

    event: Event
    incident: StoredIncident


def output_id(event: Event, part: int | str) -> str:
    """Return the ``ce_id`` of an output: a function of the group, its event and the round.

    It is 128 bits of BLAKE2b over ``group, ce_source, ce_id, part``, each after its length, in hexadecimal.
    """
    group_id = event.data.group_id
    text = f"{len(group_id)}:{group_id}{len(event.source)}:{event.source}{len(event.id)}:{event.id}{part}"
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


#: ``ce_source`` of everything the stream writes from events.
SOURCE = "rebalance-monitor/stream"
DIFF_TYPE = "rebalance.diff"
ASSIGNMENT_TYPE = "rebalance.assignment"
#: Cached, as a worker processes the same groups again and again.
_partition_for_key = lru_cache(maxsize=1 << 14)(partition_for_key)
#: Upper bound of the bytes of a record beside its key and value.
_HEADER_BYTES = 1024


class OutputRecord(NamedTuple):
    """A record to write. ``partition`` None: the record has no key, so the producer chooses the partition."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders
    partition: int | None


class Sinks(NamedTuple):
    """Topics of the outputs, their partition counts and record limits, and the monitor's settings.

    Attributes:
        max_bytes: record limit by topic; :data:`streaming.records.codec.MAX_RECORD_BYTES` for all other topics.
        forget_after_ms: how long the state of an empty group is kept.
        episodes, incidents: names of these topics; None: not published.
        quiet_ms: time without a round after which an episode ends.
        storm_turns: how many rebalances that one member triggers are a storm.
        expected_partitions: rounds with more partitions are not compared with their assignor.
        listing: which members diffs list.
    """

    membership: str
    diffs: str
    assignments: str
    dead_letters: str
    partitions: dict[str, int]
    max_bytes: Mapping[str, int] = MappingProxyType({})
    forget_after_ms: int = FORGET_AFTER_MS
    episodes: str | None = None
    quiet_ms: int = QUIET_TIME_MS
    storm_turns: int = STORM_ROUNDS
    incidents: str | None = None
    thresholds: IncidentLimits = LIMITS
    expected_partitions: int = MAX_COMPARED_PARTITIONS
    listing: ListedMembers = "auto"

    def limit(self, topic: str) -> int:
        """Return the size limit (bytes) of a topic's records."""
        return self.max_bytes.get(topic, codec.MAX_RECORD_BYTES)


def write(event: Event, output: Output, sinks: Sinks) -> OutputRecord:
    """Return the Kafka record of a diff or of a latest assignment."""
    if isinstance(output, DiffOutput):
        return _write(event, (sinks.diffs, DIFF_TYPE, output.id), output.value(sinks.listing), sinks)
    assignment = output.assignment
    place = sinks.assignments, ASSIGNMENT_TYPE, output_id(output.event, "assignment")
    return _write(event, place, None if assignment is None else encode(assignment), sinks)


def _write(
    event: Event, place: tuple[str, str, str], value: bytes | None, sinks: Sinks, key: bytes | None = None
) -> OutputRecord:
    """Return an output record with an event's time. ``place``: topic, ``ce_type``, ``ce_id``. ``key``: None: group id.

    All records of a group are in one partition of a topic, whatever their keys.
    """
    (topic, ce_type, ce_id), group_key = place, event.data.group_id.encode()
    headers = codec.headers(ce_type, SOURCE, ce_id, event.data.timestamp)
    return OutputRecord(topic, key or group_key, value, headers, _partition_for_key(group_key, sinks.partitions[topic]))


def write_latest(
    latest: AssignmentOutput | None,
    episodes: Iterable[EpisodeOutput],
    incidents: Iterable[IncidentOutput],
    sinks: Sinks,
) -> list[OutputRecord]:
    """Return the records of a group's latest assignment, episodes and incidents."""
    writes = [] if latest is None else [write(latest.event, latest, sinks)]
    for event, state, closed in episodes if sinks.episodes else ():
        episode = episode_record(event.data.group_id, state, closed=closed, storm_turns=sinks.storm_turns)
        place = sinks.episodes or "", EPISODE_TYPE, state.number
        writes.append(_numbered_record(event, place, episode, shorten_episode, sinks))
    for event, stored in incidents if sinks.incidents else ():
        incident = incident_record(event.data.group_id, stored)
        place = sinks.incidents or "", INCIDENT_TYPE, stored.number
        writes.append(_numbered_record(event, place, incident, shorten_incident, sinks))
    return writes


def _numbered_record(
    event: Event, place: tuple[str, str, int], record: _T, shorten: Callable[[_T], _T], sinks: Sinks
) -> OutputRecord:
    topic, ce_type, number = place
    key, value = f"{event.data.group_id}/{number}".encode(), encode(record)  # as streaming.records.episodes.key
    if len(value) > sinks.limit(topic) - len(key) - _HEADER_BYTES:
        value = encode(shorten(record))
    ce_id = output_id(event, f"{ce_type.removeprefix('rebalance.')}/{number}")
    return _write(event, (topic, ce_type, ce_id), value, sinks, key)


def write_annotation(event: Event, data: Annotation, sinks: Sinks) -> list[OutputRecord]:
    """Return the record of an annotation for the topic of incidents."""
    if sinks.incidents is None:
        return []
    ce_id = output_id(event, "annotation")
    value = StoredAnnotation(
        id=ce_id, timestamp=data.timestamp, groups=data.groups, text=data.text, link=data.link, revision=data.revision
    )
    headers = codec.headers(ANNOTATION_TYPE, SOURCE, ce_id, data.timestamp)
    return [_keyed_record(sinks.incidents, f"annotation/{ce_id}".encode(), encode(value), headers, sinks)]


def write_event(event: Event, sinks: Sinks) -> OutputRecord:
    """Return the record of a timer event for the membership log."""
    return _keyed_record(sinks.membership, *codec.encode_event(event), sinks)


def write_diffs(event: Event, outputs: Sequence[Output], sinks: Sinks) -> list[OutputRecord]:
    """Return the records of the diffs that an event caused.

    Raises RecordTooLarge if one of these records, or the latest assignment, is larger than its topic accepts. Such a
    record would stop the job on every restart, so the event is refused instead.
    """
    diffs = [output for output in outputs if isinstance(output, DiffOutput)]
    writes = [write(event, output, sinks) for output in diffs]
    limit = min(sinks.limit(sinks.diffs), sinks.limit(sinks.assignments))
    longest = max((len(diff.value or b"") + len(diff.key or b"") for diff in writes), default=0)
    # The latest assignment may repeat a member's id up to four times, a diff with all members only once.
    if any(output.omits_unchanged_members(sinks.listing) for output in diffs) or 4 * longest + _HEADER_BYTES >= limit:
        latest = [write(event, output, sinks) for output in outputs if isinstance(output, AssignmentOutput)]
        for record in (*writes, *latest):
            total = codec.record_bytes(record.key, record.value, record.headers)
            if total > limit:
                ce_type = (dict(record.headers)["ce_type"] or b"").decode()
                raise codec.RecordTooLarge(
                    f"group {event.data.group_id[:100]!r}: {ce_type} would have {total} bytes, "
                    f"max.message.bytes of {sinks.diffs} and {sinks.assignments} is {limit}"
                )
    return writes


def dead_letter(record: Record, error: Exception, sinks: Sinks) -> OutputRecord:
    """Return the dead letter of an unusable record."""
    headers = dead_letter_headers(
        record.all_headers, error, topic=sinks.membership, partition=record.partition, offset=record.offset
    )
    key, value, headers = shorten_dead_letter(record.key, record.value, headers, sinks.limit(sinks.dead_letters))
    partition = None
    if record.key is not None:  # the original key, even if the dead letter has a shortened one
        partition = partition_for_key(record.key, sinks.partitions[sinks.dead_letters])
    return OutputRecord(sinks.dead_letters, key, value, headers, partition)


def _keyed_record(topic: str, key: bytes, value: bytes, headers: RecordHeaders, sinks: Sinks) -> OutputRecord:
    return OutputRecord(topic, key, value, headers, _partition_for_key(key, sinks.partitions[topic]))
