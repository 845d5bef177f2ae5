"""The command ``incidents``: lists open incidents, and acknowledges or mutes an incident."""

from collections.abc import Iterable
from getpass import getuser
from typing import Annotated
from uuid import uuid4

import typer
from msgspec import UNSET
from rich.table import Table

from assignors.errors import BadInput
from streaming.cli.diff_lines import to_utc
from streaming.cli.options import AsJson, GroupFlag, GroupId, connected, duration_option, example, flag, now_ms, option
from streaming.cli.output import answer, read_records
from streaming.episodes.story import bounds
from streaming.kafka.compacted_topics import read_incident_records
from streaming.kafka.producer import EventProducer
from streaming.process import print_line
from streaming.process.terminal import SafeText, fold, nowrap, right, table, wide_column
from streaming.recording.overview import concerns_group, sort_newest_first
from streaming.records.codec import raw_records
from streaming.records.episodes import Incident, IncidentRecord
from streaming.records.events import Event, IncidentAcknowledged
from streaming.settings.config import Settings

#: The most groups that are listed with their pauses; JSON has more.
_MAX_LISTED_PAUSES = 20
_Number = Annotated[int, typer.Argument(metavar="NUMBER", help="Number of the incident.", min=0)]
_NOTE = option("TEXT", "Note for the others on call.", None, "--text", show_default=False)
_AUTHOR = option("NAME", "Who it is.", None, "--by", show_default="the user's name")
incidents = typer.Typer(invoke_without_command=True, subcommand_metavar="[COMMAND]")


@incidents.callback(epilog=example("rebalance-monitor incidents", "rebalance-monitor incidents --json | jq -r .story"))
@connected()
def list_incidents(
    settings: Settings,
    context: typer.Context,
    *,
    group_id: GroupFlag = None,
    all_of_them: bool = flag("--all", "Closed incidents too."),
    as_json: AsJson = False,
) -> None:
    """List open incidents, the newest first: storms, stuck groups, partitions without a consumer and more.

    Incidents of the cluster have the group "(cluster)".
    """
    if context.invoked_subcommand is not None:
        return
    listed = sort_newest_first(_read_incidents(settings, group_id), closed=all_of_them)
    empty_text = f"no {'' if all_of_them else 'open '}incidents"
    shown = incident_table(record.incident for record in listed) if listed else empty_text
    answer(raw_records(listed), [shown], as_json=as_json)


def _read_incidents(settings: Settings, group_id: str | None) -> list[IncidentRecord]:
    records = read_records(read_incident_records, settings, group_id)
    return [record for record in records if group_id is None or concerns_group(record.incident, group_id)]


@incidents.command(epilog=example("rebalance-monitor incidents ack checkout 3 --text 'rolled back'"))
@connected()
def ack(
    settings: Settings, group_id: GroupId, number: _Number, *, text: str | None = _NOTE, by: str | None = _AUTHOR
) -> None:
    """Acknowledge an open incident: somebody works on it."""
    _publish_acknowledgement(settings, group_id, number, text, by)


@incidents.command(epilog=example("rebalance-monitor incidents mute checkout 3 --for 2h"))
@connected()
def mute(
    settings: Settings,
    group_id: GroupId,
    number: _Number,
    *,
    duration: int = duration_option("--for", "How long: 30m, 2h or 7d.", ...),
    text: str | None = _NOTE,
    by: str | None = _AUTHOR,
) -> None:
    """Mute an open incident for some time: no notifications of it."""
    _publish_acknowledgement(settings, group_id, number, text, by, muted_ms=duration)


def _publish_acknowledgement(
    settings: Settings, group_id: str, number: int, text: str | None, by: str | None, *, muted_ms: int | None = None
) -> None:
    records = _read_incidents(settings, group_id)
    if not any((r.incident.group_id, r.incident.incident) == (group_id, number) for r in sort_newest_first(records)):
        raise BadInput(
            f"group {group_id}: no open incident {number}; `rebalance-monitor incidents --group {group_id}` lists them"
        )
    now, by = now_ms(), by or getuser()
    until = None if muted_ms is None else now + muted_ms
    data = IncidentAcknowledged(
        group_id=group_id, timestamp=now, incident=number, text=text, by=by, until=until, muted=until is not None
    )
    with EventProducer(settings, component="incidents") as producer:
        producer.send(Event("rebalance-monitor/cli", uuid4().hex, data))
    print_line(f"published to {settings.topics.membership}; the stream applies it")


def _pauses_text(incident: Incident) -> str:
    if incident.pauses is UNSET or not incident.pauses.groups:
        return ""
    longest, rebalanced = [*incident.pauses.groups.items()][:_MAX_LISTED_PAUSES], {*incident.pauses.rebalanced}
    listed = (f"{name} {bounds(span)}{' (rebalanced)' if name in rebalanced else ''}" for name, span in longest)
    return f" Longest pauses: {', '.join(listed)}."


def incident_table(listed: Iterable[Incident]) -> Table:
    """Return a table with one row per incident; it has a column with closing times if any incident is closed."""
    rows = (
        (
            SafeText(incident.group_id, "bold"),
            incident.incident,
            incident.kind,
            SafeText(incident.status, "bold red" if incident.status == "open" else "dim"),
            to_utc(incident.opened_at),
            incident.closed_at and to_utc(incident.closed_at),
            incident.times,
            incident.story + _pauses_text(incident),
        )
        for incident in listed
    )
    heads = (fold("group"), right("number"), *map(nowrap, ("incident", "status", "since", "closed")))
    return table((*heads, right("times"), wide_column("story")), rows, optional=("closed",))
