"""The OpenAPI document, with schemas generated from the types that are encoded."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from msgspec.json import schema_components

from assignors import __version__
from streaming.freshness.verdict import Part
from streaming.serve.board import Stale
from streaming.serve.records import GroupSummary, RoundSummary
from streaming.serve.stories import EpisodeSummary, IncidentSummary, Stood
from streaming.wire.diffs import Diff, LatestAssignment
from streaming.wire.episodes import Downtime, Episode, Incident

_TYPES: Final = (
    *(Diff, Downtime, Episode, Incident, LatestAssignment, Stale, Part),
    *(GroupSummary, RoundSummary, EpisodeSummary, IncidentSummary, Stood),
)
_INTEGER: Final = {"type": "integer", "minimum": 0}
_STRING: Final = {"type": "string"}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _parameter(
    name: str, schema: dict[str, Any], description: str, *, where: str = "query"
) -> dict[str, Any]:
    return {
        "name": name,
        "in": where,
        "required": where == "path",
        "description": description,
        "schema": schema,
    }


_GROUP = _parameter("group", _STRING, "Group id, percent-encoded.", where="path")
_MOMENT: Final = {"oneOf": [{"type": "integer"}, {"type": "string", "format": "date-time"}]}
_SELECTION = [
    _parameter("cause", _STRING, "Only rounds of this cause, such as `member.fenced`."),
    _parameter("min_moved", _INTEGER, "Only rounds that moved at least this many partitions."),
]
_RANGE = [
    _parameter("from", _MOMENT, "Rounds at or after this time: RFC 3339 or milliseconds since the epoch."),
    _parameter("to", _MOMENT, "Rounds before this time."),
    _parameter("cursor", _STRING, "`next` of the page before."),
    _parameter(
        "limit", {"type": "integer", "minimum": 1}, "Rounds a page, at most; the server may give less."
    ),
]
_NAMES: Final = {
    "type": "object",
    "additionalProperties": _STRING,
    "description": "What people call members, by member id; one that is known by its id alone is left out.",
}
_VIEW = _parameter("view", {"enum": ["diff", "summary"]}, "`summary` leaves the diffs out.")


def _get(
    summary: str,
    schema: Any,
    parameters: list[dict[str, Any]],
    *,
    media_type: str = "application/json",
    missing: bool = False,
) -> dict[str, Any]:
    problem = {"content": {"application/problem+json": {"schema": _ref("Problem")}}}
    responses: dict[str, Any] = {
        "200": {"description": "OK", "content": {media_type: {"schema": schema}}},
        "400": {"description": "A parameter is unknown or malformed.", **problem},
        "401": {"description": "No token, or not the right one.", **problem},
        "default": {"description": "What else can't be answered, and what to do about it.", **problem},
    }
    if missing:
        responses["404"] = {"description": "No such group or round.", **problem}
    return {"get": {"summary": summary, "parameters": parameters, "responses": responses}}


_FLAG: Final = {"type": "boolean"}
_NEXT: Final = {"type": ["string", "null"]}
_ROUNDS = _object(rounds=_list(_ref("Round")), next=_NEXT)
_CHANGE: Final = {
    "description": "[owner or null, topic, partitions]",
    "type": "array",
    "minItems": 3,
    "maxItems": 3,
}
_TIMELINE = _object(
    base=_list(_CHANGE),
    names=_NAMES,
    rounds=_list(_object(seq=_INTEGER, summary=_ref("RoundSummary"), changes=_list(_CHANGE))),
    next=_NEXT,
)
_OPEN = _parameter(
    "open", {"enum": ["true", "false"]}, "`true`: only those that are open; `false`: the others."
)
_WHOLE: Final = (
    "`caughtUp` is false while there may be others, or newer ones: at a start, or where their topic is missing or "
    "can't be read. `from` and `to` are of their beginnings."
)


_POSITIVE: Final = {"type": "integer", "minimum": 1}
_RESTART = [
    _parameter("parallel", _POSITIVE, "Members that restart at once; a twentieth of the group if left out."),
    _parameter("down_ms", _POSITIVE, "How long a member is away; 20000 if left out."),
    _parameter("between_ms", _INTEGER, "From the return of some to the stop of the next; 30000 if left out."),
    _parameter("heartbeat_ms", _POSITIVE, "Between heartbeats; 3000, KIP-848 5000 if left out."),
    _parameter("processing_ms", _INTEGER, "How long members process what one poll gave; 1000 if left out."),
]
_TEXTS: Final = {"type": "array", "items": _STRING}
_FORECAST = _object(
    groupId=_STRING,
    change=_STRING,
    now=_STRING,
    sentence=_STRING,
    unsure=_TEXTS,
    sessionTimeoutMs=_INTEGER,
    rebalanceTimeoutMs=_INTEGER,
    protocols={"type": "object", "additionalProperties": {"type": "object"}},
)
_WHAT_IF = _object(
    groupId=_STRING,
    kind=_STRING,
    protocol=_STRING,
    assignor={"type": ["string", "null"]},
    generation={"type": ["integer", "null"]},
    groupEpoch={"type": ["integer", "null"]},
    timestamp=_INTEGER,
    names={"type": "object", "additionalProperties": _STRING},
    added=_TEXTS,
    removed=_TEXTS,
    partitions={"type": "object", "additionalProperties": _INTEGER},
    inexact=_TEXTS,
    answers=_list({"type": "object"}),
)
_MIGRATE = _object(
    groupId=_STRING,
    now=_STRING,
    assignor={"type": ["string", "null"]},
    targets={"type": "object", "additionalProperties": {"type": "object"}},
    happened=_list({"type": "object"}),
    unsure=_TEXTS,
)


def _standing(**more: Any) -> dict[str, Any]:
    """How far the topics are read, and what comes with it."""
    found = _object(caughtUp=_FLAG, lag={"type": ["integer", "null"]}, seq=_INTEGER, **more)
    found["properties"] |= {"stale": _ref("Stale"), "parts": _list(_ref("Part"))}
    return found


def _stories(sort: str) -> dict[str, Any]:
    return _object(**{f"{sort}s": _list(_ref(sort.capitalize()))}, next=_NEXT, names=_NAMES, caughtUp=_FLAG)


def _stream() -> dict[str, Any]:
    return _get(
        "Rounds as they happen. Events: `snapshot` (all groups; its id is the place of what follows), "
        "`round` (as in the pages of rounds, and its `group` as it stands), `group` (a group's standing "
        "changed without a round), `gone` (deleted groups that left the "
        "history), `progress` (how far the server is, and whether that is `stale`), "
        "`reset` (the place of Last-Event-ID is gone). With `stories=true` also `stories` (the newest episode of "
        "every group, and the incidents that are open, as summaries), `episode` and `incident` (one that changed).",
        _STRING,
        [
            _parameter("group", _STRING, "Only this group."),
            *_SELECTION,
            _parameter("stories", {"enum": ["true", "false"]}, "Episodes and incidents too."),
            _parameter("Last-Event-ID", _STRING, "Go on after this event.", where="header"),
            _parameter("last_event_id", _STRING, "The same, for clients that can't set headers."),
        ],
        media_type="text/event-stream",
    )


def _foreseen() -> dict[str, Any]:
    """What may come of a group."""
    return {
        "/forecast": (
            "What a rolling restart, or another size, would cost, by the history: `forecast --json` less rounds.",
            _FORECAST,
            [
                *_RESTART,
                _parameter("scale", _POSITIVE, "How many members the group gets, in place of a restart."),
            ],
        ),
        "/migrate": (
            "Whether the group is ready for another protocol, by the history: as `migrate --json`.",
            _MIGRATE,
            [
                *_RESTART,
                _parameter("to", {"enum": ["cooperative", "static", "consumer"]}, "Only the way there."),
            ],
        ),
        "/what-if": (
            "What a change would move, under every assignor, by the history: as `what-if --json`.",
            _WHAT_IF,
            [
                _parameter("add", _STRING, "How many members come, or their names; several with commas."),
                _parameter("remove", _STRING, "Members that go, by name; several with commas."),
                _parameter("partitions", _STRING, "`orders=24`; several with commas."),
                _parameter("subscribe", _STRING, "Topics, with commas, in place of those that are read now."),
                _parameter("protocol", {"enum": ["eager", "cooperative", "consumer"]}, "Which is `chosen`."),
                _parameter("assignor", _STRING, "Which is `chosen`."),
            ],
        ),
    }


def _group_paths() -> dict[str, Any]:
    nullable = {"oneOf": [_ref("LatestAssignment"), {"type": "null"}]}
    since = {
        "type": "object",
        "additionalProperties": _INTEGER,
        "description": "When members joined, by member id; none of who was there before the oldest round.",
    }
    group = _object(
        group=_ref("GroupSummary"),
        assignment=nullable,
        names=_NAMES,
        since=since,
        downtime=_ref("Stood"),
        downtimeToday={"oneOf": [_ref("Downtime"), {"type": "null"}]},
        standing=_standing(),
    )
    seq = _parameter("seq", _INTEGER, "Number of the round.", where="path")
    below = {
        "": ("One group, and who owns what.", group, []),
        "/rounds": ("A group's rounds, newest first.", _ROUNDS, [*_RANGE, *_SELECTION, _VIEW]),
        "/rounds/{seq}": ("One round.", _ref("Round"), [seq]),
        "/episodes": (
            f"A group's last episodes, newest first: rounds that belong together, as stories. {_WHOLE}",
            _stories("episode"),
            _RANGE,
        ),
        "/incidents": (
            f"A group's last incidents, newest first: what somebody should look at. {_WHOLE}",
            _stories("incident"),
            [*_RANGE, _OPEN],
        ),
        **_foreseen(),
        "/timeline": (
            "Ownership over time: owners before the oldest round, then what changed hands in each.",
            _TIMELINE,
            _RANGE,
        ),
    }
    return {
        f"/api/v1/groups/{{group}}{path}": _get(summary, schema, [_GROUP, *parameters], missing=True)
        for path, (summary, schema, parameters) in below.items()
    }


def _paths() -> dict[str, Any]:
    of_group = _parameter("group", _STRING, "Only this group's.")
    return {
        "/api/v1/stream": _stream(),
        "/api/v1/groups": _get(
            "Every group as it stands.", _standing(groups=_list(_ref("GroupSummary"))), []
        ),
        **_group_paths(),
        "/api/v1/rounds": _get("All groups' rounds, newest first.", _ROUNDS, [*_RANGE, *_SELECTION, _VIEW]),
        "/api/v1/incidents": _get(
            f"All groups' incidents, newest first. {_WHOLE}", _stories("incident"), [of_group, *_RANGE, _OPEN]
        ),
    }


@cache
def document() -> dict[str, Any]:
    """OpenAPI 3.1 of everything below /api/v1/."""
    _, components = schema_components(_TYPES, ref_template="#/components/schemas/{name}")
    components["Round"] = {
        "type": "object",
        "properties": {
            "seq": _INTEGER,
            "summary": _ref("RoundSummary"),
            "names": _NAMES,
            "diff": _ref("Diff"),
        },
        "required": ["seq", "summary"],
    }
    components["Problem"] = _object(
        type=_STRING, title=_STRING, status=_INTEGER, detail=_STRING, instance=_STRING
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kafka-rebalance-monitor",
            "version": __version__,
            "description": "Who rebalanced, why, and what moved. Times are milliseconds since the epoch.",
        },
        "paths": _paths(),
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }
