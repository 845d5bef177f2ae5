"""Annotations, such as deployments, and the sentence that they add to the story of an episode."""

import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Final
from uuid import uuid4

import msgspec
from msgspec import Meta, Struct, structs

from streaming.episodes.story import duration
from streaming.records.codec import DECODE_ERRORS, decode, encode
from streaming.records.episodes import StoredAnnotation
from streaming.records.events import Annotation, Event, Timestamp
from streaming.serve.problems import Problem
from streaming.serve.records import TopicRecord, decode_value

#: The story of an episode that begins within this time after an annotation of its group mentions the annotation.
MENTION_WINDOW_MS: Final = 600_000
#: The most annotations that are kept; older ones are dropped.
MAX_ANNOTATIONS: Final = 1000
_LimitedText = Annotated[str, Meta(max_length=1000)]
annotation_decoder: Final = msgspec.json.Decoder(StoredAnnotation)


class AnnotationRequest(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Body of the POST of an annotation. ``timestamp``: default now; ``groups``: a pattern with ``*`` and ``?``."""

    timestamp: Timestamp | None = None
    groups: _LimitedText = "*"
    text: _LimitedText = ""
    link: Annotated[str, Meta(max_length=1000, pattern="^https?://")] | None = None
    revision: _LimitedText | None = None


_requests: Final = msgspec.json.Decoder(AnnotationRequest)


def parse_request(body: bytes) -> Event:
    """Return the annotation event of a request's body; raise Problem if the body is not a valid annotation."""
    try:
        fields = structs.asdict(decode(_requests, body))
    except DECODE_ERRORS as error:
        raise Problem("annotation", str(error)) from error
    if not (fields["text"].strip() or fields["revision"]):
        raise Problem("annotation", "text or revision: one of them is needed")
    fields["timestamp"] = fields["timestamp"] or time.time_ns() // 1_000_000
    return Event("rebalance-monitor/serve", uuid4().hex, Annotation(**fields))


def parse_annotation(record: TopicRecord) -> StoredAnnotation:
    """Return the annotation in a record, with its link if that is a web address; raise UnusableRecord if malformed."""
    annotation = decode_value(annotation_decoder, record.value)
    has_safe_link = annotation.link is None or annotation.link.startswith(("http://", "https://"))
    return annotation if has_safe_link else structs.replace(annotation, link=None)


def story_suffix(group_id: str, opened_at: int, annotations: Sequence[StoredAnnotation]) -> str:
    """Return the sentence `` Began 40 s after deploy a1b2c3.`` for an episode that began soon after an annotation.

    The newest annotation is first. Without a matching annotation the sentence is empty.
    """
    for annotation in annotations:
        elapsed = opened_at - annotation.timestamp
        if 0 <= elapsed <= MENTION_WINDOW_MS and fnmatchcase(group_id, annotation.groups):
            text, revision = annotation.text, annotation.revision
            words = [text.strip(), "" if not revision or revision in text else revision]
            return f" Began {duration(elapsed)} after {' '.join(filter(None, words))}."
    return ""


def add_story_suffix(body: bytes, annotations: Sequence[StoredAnnotation]) -> bytes:
    """Return the JSON of an episode; its story names the annotation before it, if there is one."""
    if not annotations:
        return body
    episode = msgspec.json.decode(body)
    sentence = story_suffix(episode["groupId"], episode["openedAt"], annotations)
    return encode(episode | {"story": episode["story"] + sentence}) if sentence else body
