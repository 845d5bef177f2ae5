"""The command ``record``: a group's events and outputs of a time, in one file that needs no cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assignors import __version__
from assignors.errors import BadInput
from streaming.cli.options import GroupId, connected, flag, now_ms, time_option
from streaming.cli.output import Progress
from streaming.cli.replay import UnreadableFile, differences
from streaming.kafka.group_reader import read_log, replay_sinks
from streaming.process.children import open_private
from streaming.process.plain import say, warn
from streaming.recording.anonymise import anonymised
from streaming.recording.file import RecordedSettings, RecordingHeader, write_recording
from streaming.recording.history import event_time
from streaming.recording.recorder import record_log
from streaming.settings.config import Settings

_From = Annotated[int | None, time_option("--from", "Begin: RFC 3339, or ms since the epoch.", show_default="all")]
_To = Annotated[int | None, time_option("--to", "End, in the same form.", show_default="now")]
_Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File to write, such as a.rmlog.")]
_Anonymise = Annotated[bool, flag("--anonymise", "Replace names of groups, topics, members, clients, hosts and racks.")]


class NothingToRecord(BadInput):
    """The membership topic has no event of the group in that time."""


@connected(
    "rebalance-monitor record checkout --from 2026-01-31T09:00:00Z --to 2026-01-31T10:00:00Z -o incident.rmlog",
    "rebalance-monitor record checkout --anonymise -o incident.rmlog",
)
def record(
    settings: Settings,
    group_id: GroupId,
    *,
    output: _Output,
    since: _From = None,
    until: _To = None,
    anonymise: _Anonymise = False,
) -> None:
    """Record a group's events, outputs and settings in one file; `replay FILE` opens it without a cluster.

    The file has all events of the group until --to, as the state at --from follows from those before. Only this
    user may read it.
    """
    begin, end = since or 0, now_ms() if until is None else until
    with Progress("records read") as progress:
        log = [r for r in read_log(settings, group_id, each=progress.step) if event_time(r) <= end]
    if not any(event_time(record) >= begin for record in log):
        raise NothingToRecord(f"group {group_id}: the membership topic has no event of it in that time")
    recorded_settings = RecordedSettings.of(replay_sinks(settings))
    differing = sum(1 for _ in differences(settings, group_id))
    if differing:
        warn(f"{differing} published diffs differ from a replay: the topic no longer has all events of the group")
    if anonymise:
        log = anonymised(log, recorded_settings.sinks)
    name = (log[-1].key or b"").decode(errors="backslashreplace")
    header = RecordingHeader(
        monitor=__version__, groups=[name], begin=begin, end=end, settings=recorded_settings, anonymised=anonymise
    )
    try:
        with open_private(output, "wb") as file:
            count = write_recording(file, header, record_log(log, begin, recorded_settings.sinks))
    except OSError as error:
        raise UnreadableFile(f"--output {output}: {error.strerror}") from error
    say(f"{output}: {len(log)} events and {count - len(log)} outputs of {name}, {output.stat().st_size:,} bytes")
