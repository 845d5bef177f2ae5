"""Diffs from the membership log by the pure functions alone: no Spark, no timer, no checkpoint.

What the stream wrote must be exactly this, id for id and byte for byte: :func:`differences` looks. One that leaves
members out is compared with everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
from msgspec import UNSET, structs

from streaming.kafka.diff_reader import DiffRecord, MalformedDiff, read_diffs
from streaming.kafka.topic_reader import read_to_end
from streaming.kafka.topics import describe_topics, longest_records
from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import DIFF_TYPE, Listing, Sinks
from streaming.settings.config import Settings
from streaming.wire import codec
from streaming.wire.codec import Record
from streaming.wire.diffs import Diff


def replay(
    settings: Settings,
    group: str | None = None,
    *,
    listing: Listing | None = None,
    until: Callable[[], bool] = lambda: False,
) -> Iterator[DiffRecord]:
    """Every diff of what is in the membership topic now; ``partition`` and ``offset`` are the event's.

    ``listing``: which members they list; None: as the settings say. It stops early when ``until()`` is true.

    Raises:
        ClusterUnavailable, TopicsNotCreated: nobody answers, or nobody says what the topics are like.
        TopicUnreadable: there is no such topic, or it is deleted meanwhile.
    """
    topics = settings.topics
    names = (topics.membership, topics.diffs, topics.assignments, topics.dead_letters)
    # Where a diff would go plays no part here, but whether its topic would take it does.
    limits = longest_records(describe_topics(settings))
    sinks = Sinks(
        *names,
        partitions=dict.fromkeys(names, 1),
        max_bytes=limits,
        listing=listing or settings.stream.diffs,
    )
    bucket = Bucket()
    wanted = None if group is None else group.encode()
    for message in read_to_end(settings.kafka, topics.membership, until=until):
        if wanted is not None and message.key() != wanted:
            continue
        place = (message.partition() or 0, message.offset() or 0)
        record = Record.of(*place, message.key(), message.value(), message.headers() or [])
        for write in process(bucket, [record], 0, sinks):
            ids = codec.ce_attributes(write.headers)
            if ids.get("type") == DIFF_TYPE and write.topic == topics.diffs and write.value is not None:
                diff = msgspec.json.decode(write.value, type=Diff)
                yield DiffRecord(ids["id"], diff, write.value, record.partition, record.offset)


def differences(settings: Settings, group: str | None = None) -> Iterator[str]:
    """Where the diff topic differs from what a replay says, one line for each difference.

    Diffs of events that have left the membership topic by its retention can't be replayed and are not compared,
    nor those of a group whose first events are gone: compare while the log is whole.
    """
    unreadable: list[MalformedDiff] = []
    records = read_diffs(
        settings, from_beginning=True, exit_at_end=True, on_malformed=unreadable.append, group=group
    )
    written = {record.id: record for record in records}
    yield from map(str, unreadable)
    for record in replay(settings, group, listing="all"):
        place = f"{record.diff.group_id}, event at partition {record.partition} offset {record.offset}"
        found = written.pop(record.id, None)
        if found is None:
            yield f"{place}: the diff {record.id} is not in the topic"
        elif not _same(found, record):
            yield f"{place}: the diff {record.id} has other content in the topic"
    for found in written.values():
        yield f"{found.diff.group_id}: the topic has a diff {found.id} that no event explains"


def _same(found: DiffRecord, replayed: DiffRecord) -> bool:
    """Whether the topic has what the replay gives, which lists all members."""
    if found.diff.unchanged is UNSET:
        return found.value == replayed.value
    members = replayed.diff.members
    left_out = [one for member_id, one in members.items() if member_id not in found.diff.members]
    listed = {member_id: one for member_id, one in members.items() if member_id in found.diff.members}
    expected = structs.replace(
        replayed.diff,
        members=listed,
        unchanged=len(left_out),
        unchanged_partitions=found.diff.unchanged_partitions,
    )
    return found.diff == expected and not any(one.revoked or one.assigned for one in left_out)
