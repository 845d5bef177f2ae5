"""What a record of the topics says: decoded completely, or refused, before anything is stored."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from assignors.errors import BadInput
from streaming.serve import rounds
from streaming.serve.rounds import OwnerChange, RoundSummary
from streaming.serve.stories import DecodedStory, Sort
from streaming.wire.codec import UNREADABLE, decode
from streaming.wire.diffs import Diff, LatestAssignment
from streaming.wire.episodes import Episode, Incident, MalformedEpisode, of_key

_T = TypeVar("_T")

_diffs = msgspec.json.Decoder(Diff)
_assignments = msgspec.json.Decoder(LatestAssignment)
_episodes = msgspec.json.Decoder(Episode)
_incidents = msgspec.json.Decoder(Incident)


class UnusableRecord(BadInput):
    """The record is not what its topic holds."""


class TopicRecord(Struct, frozen=True):
    """One record of the topics; ``id`` is its ``ce_id``, ``timestamp`` when it was written (ms)."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    id: str | None
    timestamp: int = 0


class DecodedRound(NamedTuple):
    """A diff: its summary, its changes of ownership, and its bytes as they stand in the topic."""

    summary: RoundSummary
    changes: list[OwnerChange]
    body: bytes


class DecodedAssignment(NamedTuple):
    """The latest assignment of a group, and its bytes; both None for a group that is gone."""

    group_id: str
    latest: LatestAssignment | None
    body: bytes | None


def round_of(record: TopicRecord) -> DecodedRound:
    """The round that a record of the diff topic tells of.

    Raises:
        UnusableRecord: it is none, or its header ``ce_id`` is missing.
    """
    if not record.id:
        raise UnusableRecord("header ce_id: missing")
    diff = _decoded(_diffs, record.value)
    return DecodedRound(rounds.summarise(record.id, diff), rounds.changes(diff), record.value or b"")


def assignment_of(record: TopicRecord) -> DecodedAssignment:
    """The assignment in a record of the compacted topic.

    Raises:
        UnusableRecord: it is none, or is not of the group that the key names.
    """
    if record.key is None:
        raise UnusableRecord("key: missing")
    try:
        name = record.key.decode()
    except UnicodeDecodeError as error:
        raise UnusableRecord(f"key: {error}") from error
    if record.value is None:
        return DecodedAssignment(name, None, None)
    latest = _decoded(_assignments, record.value)
    if latest.group_id != name:
        raise UnusableRecord(f"key: {name!r} is not the groupId {latest.group_id!r} of the value")
    return DecodedAssignment(name, latest, record.value)


def story_of(record: TopicRecord, sort: Sort) -> DecodedStory:
    """The episode or incident of a record.

    Raises:
        UnusableRecord: it is none, is not the one that the key names, or its header ``ce_id`` is missing.
    """
    try:
        name, number = of_key(record.key or b"")
    except MalformedEpisode as error:
        raise UnusableRecord(str(error)) from error
    if record.value is not None:
        if not record.id:
            raise UnusableRecord("header ce_id: missing")
        found = _named(sort, record.value)
        if found != (name, number):
            raise UnusableRecord(f"key: {record.key!r} is not that of the value")
    return DecodedStory(sort, name, number, record.id or "", record.value)


def _named(sort: Sort, value: bytes) -> tuple[str, int]:
    if sort == "episode":
        episode = _decoded(_episodes, value)
        return episode.group_id, episode.episode
    incident = _decoded(_incidents, value)
    return incident.group_id, incident.incident


def _decoded(decoder: msgspec.json.Decoder[_T], value: bytes | None) -> _T:
    if value is None:
        raise UnusableRecord("value: missing (null)")
    try:
        value.decode()  # decoders skip the text of unknown fields, which is served with the rest
        return decode(decoder, value)
    except UNREADABLE as error:
        raise UnusableRecord(f"value: {error}") from error
