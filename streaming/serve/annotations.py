"""Annotations: marks such as deployments, and the sentence that they add to the story of an episode."""

from __future__ import annotations

import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Final
from uuid import uuid4

import msgspec
from msgspec import Meta, Struct, structs

from streaming.episodes.story import duration
from streaming.records.codec import UNREADABLE, decode, encode
from streaming.records.episodes import StoredAnnotation
from streaming.records.events import Annotation, Event, Timestamp
from streaming.serve.problems import Problem
from streaming.serve.records import TopicRecord, decoded

#: An episode that begins so long after an annotation of its group names it.
AFTER_MS: Final = 600_000
#: Annotations that are kept: the newest.
MOST_ANNOTATIONS: Final = 1000
_Line = Annotated[str, Meta(max_length=1000)]
_stored: Final = msgspec.json.Decoder(StoredAnnotation)


class AnnotationRequest(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The body of a POST: ``timestamp`` is now if left out; ``groups`` has ``*`` and ``?`` as in a shell."""

    timestamp: Timestamp | None = None
    groups: _Line = "*"
    text: _Line = ""
    link: Annotated[str, Meta(max_length=1000, pattern="^https?://")] | None = None
    revision: _Line | None = None


class _OfEpisode(Struct, frozen=True, rename="camel"):
    group_id: str
    opened_at: int
    story: str


_requests: Final = msgspec.json.Decoder(AnnotationRequest)
_of_episode: Final = msgspec.json.Decoder(_OfEpisode)


def requested(body: bytes) -> Event:
    """Return the event of a request's body.

    Raises:
        Problem: it is no annotation, or has neither a text nor a revision.
    """
    try:
        fields = structs.asdict(decode(_requests, body))
    except UNREADABLE as error:
        raise Problem("annotation", str(error)) from error
    if not (fields["text"].strip() or fields["revision"]):
        raise Problem("annotation", "text or revision: one of them is needed")
    fields["timestamp"] = fields["timestamp"] or time.time_ns() // 1_000_000
    return Event("rebalance-monitor/serve", uuid4().hex, Annotation(**fields))


def annotation_of(record: TopicRecord) -> StoredAnnotation:
    """Return the annotation of a record; its link is dropped unless it is one of the web.

    Raises:
        UnusableRecord: it is none.
    """
    found = decoded(_stored, record.value)
    is_safe = found.link is None or found.link.startswith(("http://", "https://"))
    return found if is_safe else structs.replace(found, link=None)


def of_group(annotations: Sequence[StoredAnnotation], group_id: str) -> list[StoredAnnotation]:
    """Return the annotations whose pattern matches a group."""
    return [one for one in annotations if fnmatchcase(group_id, one.groups)]


def annotated(story: str, group_id: str, opened_at: int, annotations: Sequence[StoredAnnotation]) -> str:
    """Return the story of an episode; it ends with ``Began 40 s after deploy a1b2c3.`` where that is so.

    The annotations are the newest first.
    """
    for one in annotations:
        elapsed = opened_at - one.timestamp
        if 0 <= elapsed <= AFTER_MS and fnmatchcase(group_id, one.groups):
            revision = "" if not one.revision or one.revision in one.text else one.revision
            return f"{story} Began {duration(elapsed)} after {' '.join(filter(None, (one.text.strip(), revision)))}."
    return story


def annotated_body(body: bytes, annotations: Sequence[StoredAnnotation]) -> bytes:
    """Return the JSON of an episode with its annotated story."""
    if not annotations:
        return body
    episode = _of_episode.decode(body)
    story = annotated(episode.story, episode.group_id, episode.opened_at, annotations)
    return body if story == episode.story else encode(msgspec.json.decode(body) | {"story": story})
