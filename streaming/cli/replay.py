"""The commands ``replay`` and ``record``: diffs computed again from the membership log or from a recording of it.

The replay needs no Spark, timers or checkpoint. Its diffs equal those of the stream, byte for byte.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from msgspec import UNSET, structs

from assignors import __version__
from assignors.errors import BadInput
from streaming.cli import options
from streaming.cli.diff_lines import FeedPrinter, print_diffs
from streaming.cli.options import GroupId, Session, connected, flag, long_running, now_ms, option, time_option
from streaming.cli.output import Progress, file_errors
from streaming.kafka.diff_reader import DiffRecord, MalformedDiff, read_diffs
from streaming.kafka.group_reader import read_log, replay_sinks
from streaming.kafka.producer import EventProducer
from streaming.monitor.outputs import ListedMembers
from streaming.process import print_line, warn
from streaming.process.children import open_private
from streaming.recording.anonymise import anonymised
from streaming.recording.file import RecordedSettings, RecordingHeader, read_recording, record_log, write_recording
from streaming.recording.history import RecordedHistory, ReplayedOutput, event_time
from streaming.records.diffs import Diff
from streaming.records.episodes import Episode
from streaming.settings.config import Settings


def replayed_diffs(
    settings: Settings,
    group: str | None = None,
    *,
    listing: ListedMembers | None = None,
    until: Callable[[], bool] = lambda: False,
) -> Iterator[DiffRecord]:
    """Compute and yield the diffs of all events in the membership topic, each with its event's partition and offset.

    ``listing``: the members that diffs list; None: as configured. The replay stops early if ``until()`` is true.
    """
    for output in RecordedHistory(replay_sinks(settings, listing)).play(read_log(settings, group, until=until)):
        if isinstance(output.value, Diff):
            source, value = output.source, output.write.value or b""
            yield DiffRecord(output.id, output.value, value, source.partition, source.offset)


def print_replay(steps: Iterable[list[ReplayedOutput]], begin: int, *, stories: bool, as_json: bool) -> None:
    """Print the diffs of a replay from ``begin`` (ms) on; if ``stories``, print changed stories above the diffs."""
    printer = FeedPrinter(as_json=as_json)
    for outputs in steps:
        for output in sorted(outputs, key=lambda output: isinstance(output.value, Diff)):
            value, record = output.value, output.write.value or b""
            if event_time(output.source) < begin:
                continue
            if isinstance(value, Diff):
                printer.diff(value, record)
            elif stories and isinstance(value, Episode):
                printer.story(value, record, prints_only_changes=True)


def differences(settings: Settings, group: str | None = None) -> Iterator[str]:
    """Yield a line for each difference between the diff topic and a replay.

    Events that retention has removed can't be replayed: compare while the membership topic is complete.
    """
    bad_diffs: list[MalformedDiff] = []
    records = read_diffs(settings, from_beginning=True, exit_at_end=True, on_malformed=bad_diffs.append, group=group)
    written = {record.id: record for record in records}
    yield from map(str, bad_diffs)
    for record in replayed_diffs(settings, group, listing="all"):
        place = f"{record.diff.group_id}, event at partition {record.partition} offset {record.offset}"
        stored = written.pop(record.id, None)
        if stored is None:
            yield f"{place}: the diff {record.id} is not in the topic"
        elif not _has_same_members(stored, record):
            yield f"{place}: the diff {record.id} has other content in the topic"
    for extra in written.values():
        yield f"{extra.diff.group_id}: no event explains the diff {extra.id} in the topic"


def _has_same_members(stored: DiffRecord, replayed: DiffRecord) -> bool:
    """Return True if the stored diff equals the replayed one, which lists all members."""
    if stored.diff.unchanged is UNSET:
        return stored.value == replayed.value
    listed, partitions = stored.diff.members, stored.diff.unchanged_partitions
    members = {member_id: member for member_id, member in replayed.diff.members.items() if member_id in listed}
    unlisted_members = [member for member_id, member in replayed.diff.members.items() if member_id not in listed]
    expected = structs.replace(
        replayed.diff, members=members, unchanged=len(unlisted_members), unchanged_partitions=partitions
    )
    return stored.diff == expected and not any(member.revoked or member.assigned for member in unlisted_members)


@long_running(
    "rebalance-monitor replay --group orders --check",
    "rebalance-monitor replay incident.rmlog",
    "rebalance-monitor replay incident.rmlog --page",
)
def replay(
    session: Session,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Recording of `record`; needs no cluster.", show_default=False)
    ] = None,
    *,
    group: options.GroupFlag = None,
    check: bool = flag("--check", "Compare with the published diffs; exit 1 if they differ."),
    page: bool = flag("--page", "Serve the page of the recording, without a cluster."),
    port: int = option("PORT", "Port of the page; 0: any free port.", 8686, min=0, max=65535),
    publish: bool = flag("--publish", "Write the recording's events to the membership topic, for `stream`."),
    as_json: options.AsJson = False,
) -> None:
    """Compute the diffs again, from the membership log or a recording, and print or compare them.

    For a recording it also prints each episode's story, unless --json is given.
    """
    if file is None:
        if page or publish:
            raise BadInput(f"{'--page' if page else '--publish'}: needs the FILE of a recording")
        if check:
            _report_differences(differences(session.settings, group))
        else:
            print_diffs(replayed_diffs(session.settings, group, until=session.stop.is_set), as_json=as_json)
        return
    with file_errors(str(file)), file.open("rb") as content:
        recording = read_recording(content, str(file), group)
    if page:
        from streaming.serve.server import serve_recording

        serve_recording(recording, "127.0.0.1", port, lambda server: print_line(f"serving {server.address}"))
    elif publish:
        settings, topic = session.settings, session.settings.topics.membership
        with EventProducer(settings) as producer:
            for record in recording.log:
                producer.send_record(topic, record.key or b"", record.value or b"", record.all_headers)
        print_line(f"{len(recording.log)} events written to {topic}")
    elif check:
        _report_differences(recording.differences())
    else:
        print_replay(recording.steps(), recording.header.begin, stories=not as_json, as_json=as_json)


def _report_differences(lines: Iterable[str]) -> None:
    count = 0
    for line in lines:
        print_line(line)
        count += 1
    warn(f"{count or 'no'} differences")
    if count:
        raise typer.Exit(1)


@connected(
    "rebalance-monitor record checkout --from 2026-01-31T09:00:00Z --to 2026-01-31T10:00:00Z -o incident.rmlog",
    "rebalance-monitor record checkout --anonymise -o incident.rmlog",
)
def record(
    settings: Settings,
    group_id: GroupId,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File to write, such as a.rmlog.")],
    since: int | None = time_option("--from", "Begin: RFC 3339, or ms since the epoch.", show_default="all"),
    until: int | None = time_option("--to", "End, in the same form.", show_default="now"),
    anonymise: bool = flag("--anonymise", "Replace names of groups, topics, members, clients, hosts and racks."),
) -> None:
    """Record a group's events, outputs and settings in one file; `replay FILE` opens it without a cluster.

    The file has all events of the group until --to, because the group's state at --from follows from the earlier
    events. Only this user may read it.
    """
    begin, end = since or 0, now_ms() if until is None else until
    with Progress("records read") as progress:
        log = [r for r in read_log(settings, group_id, on_step=progress.step) if event_time(r) <= end]
    if not any(event_time(record) >= begin for record in log):
        raise BadInput(f"group {group_id}: the membership topic has no event of it in that time")
    recorded_settings = RecordedSettings.of(replay_sinks(settings))
    mismatches = sum(1 for _ in differences(settings, group_id))
    if mismatches:
        warn(f"{mismatches} published diffs differ from a replay: the topic no longer has all events of the group")
    if anonymise:
        log = anonymised(log, recorded_settings.sinks)
    name = (log[-1].key or b"").decode(errors="backslashreplace")
    header = RecordingHeader(
        monitor=__version__, groups=[name], begin=begin, end=end, settings=recorded_settings, anonymised=anonymise
    )
    with file_errors(f"--output {output}"), open_private(output, "wb") as file:
        count = write_recording(file, header, record_log(log, begin, recorded_settings.sinks))
    print_line(f"{output}: {len(log)} events and {count - len(log)} outputs of {name}, {output.stat().st_size:,} bytes")
