"""Annotations, such as deployments, and the sentence that they add to the story of an episode."""

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

#: The story of an episode that begins within this time after an annotation of its group mentions the annotation.
AFTER_MS: Final = 600_000
#: The most annotations that are kept; older ones are dropped.
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


_requests: Final = msgspec.json.Decoder(AnnotationRequest)


def requested(body: bytes) -> Event:
    """Return the event of a request's body; raise Problem if it is no annotation, or has neither text nor revision."""
    try:
        fields = structs.asdict(decode(_requests, body))
    except UNREADABLE as error:
        raise Problem("annotation", str(error)) from error
    if not (fields["text"].strip() or fields["revision"]):
        raise Problem("annotation", "text or revision: one of them is needed")
    fields["timestamp"] = fields["timestamp"] or time.time_ns() // 1_000_000
    return Event("rebalance-monitor/serve", uuid4().hex, Annotation(**fields))


def annotation_of(record: TopicRecord) -> StoredAnnotation:
    """Return the annotation of a record, without a link that is no web address; raise UnusableRecord if it has none."""
    annotation = decoded(_stored, record.value)
    is_safe = annotation.link is None or annotation.link.startswith(("http://", "https://"))
    return annotation if is_safe else structs.replace(annotation, link=None)


def began_after(group_id: str, opened_at: int, annotations: Sequence[StoredAnnotation]) -> str:
    """Return the sentence `` Began 40 s after deploy a1b2c3.`` for an episode that began soon after an annotation.

    The newest annotation is first. Without a matching annotation the sentence is empty.
    """
    for annotation in annotations:
        elapsed = opened_at - annotation.timestamp
        if 0 <= elapsed <= AFTER_MS and fnmatchcase(group_id, annotation.groups):
            text, revision = annotation.text, annotation.revision
            words = [text.strip(), "" if not revision or revision in text else revision]
            return f" Began {duration(elapsed)} after {' '.join(filter(None, words))}."
    return ""


def annotated_body(body: bytes, annotations: Sequence[StoredAnnotation]) -> bytes:
    """Return the JSON of an episode; its story ends with the sentence of :func:`began_after`."""
    if not annotations:
        return body
    episode = msgspec.json.decode(body)
    sentence = began_after(episode["groupId"], episode["openedAt"], annotations)
    return encode(episode | {"story": episode["story"] + sentence}) if sentence else body
