"""The command ``replay``: diffs computed again from the membership log, and compared with the diff topic.

Neither Spark nor a timer or checkpoint takes part. The stream must have written exactly these diffs, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated

import typer
from msgspec import UNSET, structs

from streaming.cli.diff_lines import diff_lines, print_diffs
from streaming.cli.options import AsJson, OnlyGroup, Session, command, long_running
from streaming.cli.output import json_lines, raw_json
from streaming.cli.why import story_line
from streaming.kafka.diff_reader import DiffRecord, MalformedDiff, read_diffs
from streaming.kafka.membership_log import read_log, replay_sinks
from streaming.monitor.outputs import Listing
from streaming.process.plain import say, warn
from streaming.process.terminal import console
from streaming.recording.history import History, event_time
from streaming.records.diffs import Diff
from streaming.records.episodes import Episode, Incident
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
        ClusterUnavailable, TopicsNotCreated, TopicUnreadable: as :func:`~streaming.kafka.membership_log.read_log`.
    """
    history = History(replay_sinks(settings, listing))
    for output in history.play(read_log(settings, group, until=until)):
        if isinstance(output.value, Diff):
            source, value = output.source, output.write.value or b""
            yield DiffRecord(output.id, output.value, value, source.partition, source.offset)


def print_replay(
    settings: Settings,
    group: str | None,
    begin: int,
    end: int,
    *,
    stories: bool,
    as_json: bool,
    until: Callable[[], bool] = lambda: False,
) -> None:
    """Print the diffs of the rounds from ``begin`` to ``end`` (ms); ``stories``: changed stories above them."""
    write, screen = json_lines(), console(soft_wrap=True)
    history = History(replay_sinks(settings))
    printed: dict[str, tuple[int, str, str]] = {}
    log = read_log(settings, group, until=until)
    for outputs in history.steps(log, until_ms=end, until=until):
        for output in sorted(outputs, key=lambda output: isinstance(output.value, Diff)):
            value = output.value
            if event_time(output.source) < begin or isinstance(value, Incident):
                continue
            if isinstance(value, Episode):
                story = (value.episode, value.status, value.story)
                if not stories or printed.get(value.group_id) == story:
                    continue
                printed[value.group_id] = story
            if as_json:
                write(raw_json(output.write.value or b""))
                continue
            for line in [story_line(value)] if isinstance(value, Episode) else diff_lines(value):
                screen.print(line)


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
