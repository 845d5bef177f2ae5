"""The command ``replay``: diffs computed again from the membership log, and compared with the diff topic.

Neither Spark nor a timer or checkpoint takes part. The stream must have written exactly these diffs, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated

import msgspec
import typer
from msgspec import UNSET, structs

from streaming.cli.diff_lines import print_diffs
from streaming.cli.options import AsJson, OnlyGroup, Session, command, long_running
from streaming.kafka.diff_reader import DiffRecord, MalformedDiff, read_diffs
from streaming.kafka.topic_reader import read_to_end
from streaming.kafka.topics import describe_topics, longest_records
from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import DIFF_TYPE, Listing, Sinks
from streaming.process.plain import say, warn
from streaming.records import codec
from streaming.records.codec import Record
from streaming.records.diffs import Diff
from streaming.settings.config import Settings


def replayed_diffs(
    settings: Settings,
    group: str | None = None,
    *,
    listing: Listing | None = None,
    until: Callable[[], bool] = lambda: False,
) -> Iterator[DiffRecord]:
    """Yield the diffs of all events in the membership topic; ``partition`` and ``offset`` are the event's.

    ``listing``: which members diffs list; None: as in the settings. It stops early when ``until()`` is true.

    Raises:
        ClusterUnavailable, TopicsNotCreated: the topics can't be described.
        TopicUnreadable: there is no such topic, or it is deleted meanwhile.
    """
    topics = settings.topics
    names = (topics.membership, topics.diffs, topics.assignments, topics.dead_letters)
    # A diff that its topic would refuse as too large is left out, as in the stream.
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
    """Yield a line for each difference between the diff topic and a replay.

    Events that retention has removed can't be replayed: compare while the membership topic is complete.
    """
    unreadable: list[MalformedDiff] = []
    records = read_diffs(
        settings, from_beginning=True, exit_at_end=True, on_malformed=unreadable.append, group=group
    )
    written = {record.id: record for record in records}
    yield from map(str, unreadable)
    for record in replayed_diffs(settings, group, listing="all"):
        place = f"{record.diff.group_id}, event at partition {record.partition} offset {record.offset}"
        stored = written.pop(record.id, None)
        if stored is None:
            yield f"{place}: the diff {record.id} is not in the topic"
        elif not _is_same(stored, record):
            yield f"{place}: the diff {record.id} has other content in the topic"
    for extra in written.values():
        yield f"{extra.diff.group_id}: no event explains the diff {extra.id} in the topic"


def _is_same(stored: DiffRecord, replayed: DiffRecord) -> bool:
    """Return True if the stored diff equals the replayed one, which lists all members."""
    if stored.diff.unchanged is UNSET:
        return stored.value == replayed.value
    members = replayed.diff.members
    omitted = [member for member_id, member in members.items() if member_id not in stored.diff.members]
    expected = structs.replace(
        replayed.diff,
        members={
            member_id: member for member_id, member in members.items() if member_id in stored.diff.members
        },
        unchanged=len(omitted),
        unchanged_partitions=stored.diff.unchanged_partitions,
    )
    return stored.diff == expected and not any(member.revoked or member.assigned for member in omitted)


@command("rebalance-monitor replay --group orders --check")
@long_running
def replay(
    session: Session,
    *,
    group: OnlyGroup = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare with the diff topic; exit 1 if they differ.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compute the diffs from the membership log again, without Spark, and print or compare them."""
    if not check:
        stop = session.stop
        print_diffs(replayed_diffs(session.settings, group, until=stop.is_set), as_json=as_json)
        return
    count = 0
    for line in differences(session.settings, group):
        say(line)
        count += 1
    warn(f"{count or 'no'} differences")
    if count:
        raise typer.Exit(1)
