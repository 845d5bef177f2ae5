"""The operations of ``/api/v1`` with their parameters, and the OpenAPI document that is derived from them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final, NamedTuple

from msgspec import UNSET, Meta, UnsetType, defstruct
from msgspec.json import schema_components

from assignors import __version__
from streaming.freshness import Part
from streaming.records.diffs import Diff, LatestAssignment
from streaming.records.episodes import Downtime, Episode, Incident
from streaming.serve.board import Stale
from streaming.serve.parameters import Parameter, choice, flag, moment, text, whole
from streaming.serve.records import GroupSummary, OwnerChange, RoundSummary
from streaming.serve.stories import DowntimeTotals, EpisodeSummary, IncidentSummary
from streaming.simulation.migration import TARGETS

Names = Annotated[
    dict[str, str],
    Meta(description="Display names of members by member id; members without one are left out."),
]
Since = Annotated[
    dict[str, int],
    Meta(description="When members joined, by member id; none of who was there before the oldest round."),
]
Change = Annotated[OwnerChange, Meta(description="[owner or null, topic, partitions]")]
Count = Annotated[int, Meta(ge=0)]


def _answer(name: str, fields: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> Any:
    """Return the type of an answer. It describes JSON that is put together from stored bytes, and has no values."""
    options = [(field, kind | UnsetType, UNSET) for field, kind in (optional or {}).items()]
    return defstruct(name, [*fields.items(), *options], rename="camel")


def _page(name: str, items: str, item: Any, **fields: Any) -> Any:
    return _answer(name, {items: list[item], "next": str | None, **fields})


_ROUND: Final = _answer("Round", {"seq": Count, "summary": RoundSummary}, {"names": Names, "diff": Diff})
_ROUND_PAGE: Final = _page("RoundPage", "rounds", _ROUND)
_TIMELINE_ROUND: Final = _answer(
    "TimelineRound", {"seq": Count, "summary": RoundSummary, "changes": list[Change]}
)
_STORIES: Final = {"names": Names, "caught_up": bool}
_INCIDENT_PAGE: Final = _page("IncidentPage", "incidents", Incident, **_STORIES)
_PROGRESS: Final = {"caught_up": bool, "lag": int | None, "seq": Count}
_PARTS: Final = {"stale": Stale, "parts": list[Part]}
_GROUPS: Final = _answer("Groups", {**_PROGRESS, "groups": list[GroupSummary]}, _PARTS)
_GROUP: Final = _answer(
    "Group",
    {
        "group": GroupSummary,
        "assignment": LatestAssignment | None,
        "names": Names,
        "since": Since,
        "downtime": DowntimeTotals,
        "downtime_today": Downtime | None,
        "standing": _answer("Progress", _PROGRESS, _PARTS),
    },
)
_OBJECTS = dict[str, dict[str, Any]]
_FORECAST: Final = _answer(
    "Forecast",
    dict.fromkeys(("group_id", "change", "now", "sentence"), str)
    | dict.fromkeys(("session_timeout_ms", "rebalance_timeout_ms"), Count)
    | {"unsure": list[str], "protocols": _OBJECTS},
)
_MIGRATION: Final = _answer(
    "Migration",
    {"group_id": str, "now": str, "assignor": str | None, "unsure": list[str]}
    | {"targets": _OBJECTS, "happened": list[dict[str, Any]]},
)
_WHAT_IF: Final = _answer(
    "WhatIf",
    {"group_id": str, "kind": str, "protocol": str, "assignor": str | None, "timestamp": Count}
    | dict.fromkeys(("generation", "group_epoch"), int | None)
    | dict.fromkeys(("added", "removed", "inexact"), list[str])
    | {"names": dict[str, str], "partitions": dict[str, int], "answers": list[dict[str, Any]]},
)
_PROBLEM: Final = _answer(
    "Problem", dict.fromkeys(("type", "title", "detail", "instance"), str) | {"status": int}
)


class Operation(NamedTuple):
    """A GET of the API: ``name`` is its method of :class:`streaming.serve.api.Api`, ``path`` is below /api/v1."""

    name: str
    path: str
    summary: str
    answer: Any
    parameters: tuple[Parameter, ...] = ()
    media_type: str = "application/json"


SELECTION: Final = (
    text("cause", "Only rounds of this cause, such as `member.fenced`."),
    whole("min_moved", "Only rounds that moved at least this many partitions."),
)
PAGE: Final = (
    moment("from", "Rounds at or after this time: RFC 3339 or milliseconds since the epoch."),
    moment("to", "Rounds before this time."),
    whole("cursor", "`next` of the page before."),
    whole("limit", "Rounds a page, at most; the server may give less.", minimum=1),
)
_ROUNDS: Final = (*PAGE, *SELECTION, choice("view", ("diff", "summary"), "`summary` leaves the diffs out."))
_OPEN: Final = flag("open", "`true`: only those that are open; `false`: the others.")
_RESTART: Final = (
    whole("parallel", "Members that restart at once; a twentieth of the group if left out.", minimum=1),
    whole("down_ms", "How long a member is away; 20000 if left out.", minimum=1),
    whole("between_ms", "From the return of some to the stop of the next; 30000 if left out."),
    whole("heartbeat_ms", "Between heartbeats; 3000, KIP-848 5000 if left out.", minimum=1),
    whole("processing_ms", "How long members process what one poll gave; 1000 if left out."),
)
_PATH_PARAMETERS: Final = (
    text("group", "Group id, percent-encoded.", location="path"),
    whole("seq", "Number of the round.", location="path"),
)
_COMPLETE: Final = (
    "`caughtUp` is false while there may be others, or newer ones: at a start, or where their topic is missing or "
    "can't be read. `from` and `to` are of their beginnings."
)
_STREAM: Final = (
    "Rounds as they happen. Events: `snapshot` (all groups; its id is the place of what follows), "
    "`round` (as in the pages of rounds, and its `group` as it is now), `group` (changed without a round), "
    "`gone` (deleted groups that left the history), `progress` (how far the server is, and whether it is `stale`), "
    "`reset` (the place of Last-Event-ID is gone). With `stories=true` also `stories` (the newest episode of "
    "every group, and the incidents that are open, as summaries), `episode` and `incident` (one that changed)."
)

#: In the order in which paths are matched.
OPERATIONS: Final = (
    Operation(
        "stream",
        "/stream",
        _STREAM,
        str,
        (
            text("group", "Only this group."),
            *SELECTION,
            flag("stories", "Episodes and incidents too."),
            text("Last-Event-ID", "Go on after this event.", location="header"),
            text("last_event_id", "The same, for clients that can't set headers."),
        ),
        "text/event-stream",
    ),
    Operation(
        "groups",
        "/groups",
        "All groups as they are now.",
        _GROUPS,
    ),
    Operation("rounds", "/groups/{group}/rounds", "A group's rounds, newest first.", _ROUND_PAGE, _ROUNDS),
    Operation("round", "/groups/{group}/rounds/{seq}", "One round.", _ROUND),
    Operation(
        "episodes",
        "/groups/{group}/episodes",
        f"A group's last episodes, newest first: rounds that belong together, as stories. {_COMPLETE}",
        _page("EpisodePage", "episodes", Episode, **_STORIES),
        PAGE,
    ),
    Operation(
        "incidents",
        "/groups/{group}/incidents",
        f"A group's last incidents, newest first: what somebody should look at. {_COMPLETE}",
        _INCIDENT_PAGE,
        (*PAGE, _OPEN),
    ),
    Operation(
        "timeline",
        "/groups/{group}/timeline",
        "Ownership over time: owners before the oldest round, then what changed hands in each.",
        _page("TimelinePage", "rounds", _TIMELINE_ROUND, base=list[Change], names=Names),
        PAGE,
    ),
    Operation(
        "forecast",
        "/groups/{group}/forecast",
        "What a rolling restart, or another size, would cost, by the history: `forecast --json` less rounds.",
        _FORECAST,
        (*_RESTART, whole("scale", "Members that the group gets, in place of a restart.", minimum=1)),
    ),
    Operation(
        "migrate",
        "/groups/{group}/migrate",
        "Whether the group is ready for another protocol, by the history: as `migrate --json`.",
        _MIGRATION,
        (*_RESTART, choice("to", TARGETS, "Only the way there.")),
    ),
    Operation(
        "what_if",
        "/groups/{group}/what-if",
        "What a change would move, under every assignor, by the history: as `what-if --json`.",
        _WHAT_IF,
        (
            text("add", "How many members come, or their names; several with commas."),
            text("remove", "Members that go, by name; several with commas."),
            text("partitions", "`orders=24`; several with commas."),
            text("subscribe", "Topics, with commas, in place of those that are read now."),
            text("protocol", "Which is `chosen`: `eager`, `cooperative` or `consumer`."),
            text("assignor", "Which is `chosen`."),
        ),
    ),
    Operation("group", "/groups/{group}", "One group, and who owns what.", _GROUP),
    Operation("all_rounds", "/rounds", "All groups' rounds, newest first.", _ROUND_PAGE, _ROUNDS),
    Operation(
        "all_incidents",
        "/incidents",
        f"All groups' incidents, newest first. {_COMPLETE}",
        _INCIDENT_PAGE,
        (text("group", "Only this group's."), *PAGE, _OPEN),
    ),
)


def _path_item(operation: Operation, answer: Mapping[str, Any], problem: Mapping[str, Any]) -> dict[str, Any]:
    content = {"content": {"application/problem+json": {"schema": problem}}}
    path = [parameter for parameter in _PATH_PARAMETERS if f"{{{parameter.name}}}" in operation.path]
    responses: dict[str, Any] = {
        "200": {"description": "OK", "content": {operation.media_type: {"schema": answer}}},
        "400": {"description": "A parameter is unknown or malformed.", **content},
        "401": {"description": "No token, or not the right one.", **content},
        "default": {"description": "What else can't be answered, and what to do about it.", **content},
    }
    if path:
        responses["404"] = {"description": "No such group or round.", **content}
    return {
        "get": {
            "operationId": operation.name,
            "summary": operation.summary,
            "parameters": [parameter.document() for parameter in (*path, *operation.parameters)],
            "responses": responses,
        }
    }


@cache
def document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of everything below /api/v1/."""
    types = (*(operation.answer for operation in OPERATIONS), _PROBLEM, EpisodeSummary, IncidentSummary)
    schemas, components = schema_components(types, ref_template="#/components/schemas/{name}")
    answers = list(schemas)
    problem = answers[len(OPERATIONS)]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kafka-rebalance-monitor",
            "version": __version__,
            "description": "Who rebalanced, why, and what moved. Times are milliseconds since the epoch.",
        },
        "paths": {
            f"/api/v1{operation.path}": _path_item(operation, answer, problem)
            for operation, answer in zip(OPERATIONS, answers, strict=False)
        },
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }
