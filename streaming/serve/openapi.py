"""The OpenAPI document, with schemas generated from the types that are encoded."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from msgspec.json import schema_components

from assignors import __version__
from streaming.freshness.verdict import Part
from streaming.serve.rounds import GroupSummary, RoundSummary
from streaming.serve.standing import Stale
from streaming.wire.episodes import Episode
from streaming.wire.events import Diff, LatestAssignment

_TYPES: Final = (Diff, Episode, LatestAssignment, GroupSummary, RoundSummary, Stale, Part)
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


def _paths() -> dict[str, Any]:
    page = _object(rounds=_list(_ref("Round")), next={"type": ["string", "null"]})
    episodes = _object(
        episodes=_list(_ref("Episode")), next={"type": ["string", "null"]}, caughtUp={"type": "boolean"}
    )
    change = {
        "description": "[owner or null, topic, partitions]",
        "type": "array",
        "minItems": 3,
        "maxItems": 3,
    }
    timeline = _object(
        base=_list(change),
        names=_NAMES,
        rounds=_list(_object(seq=_INTEGER, summary=_ref("RoundSummary"), changes=_list(change))),
        next={"type": ["string", "null"]},
    )
    standing = {
        "caughtUp": {"type": "boolean"},
        "lag": {"type": ["integer", "null"]},
        "seq": _INTEGER,
    }
    told = {"stale": _ref("Stale"), "parts": _list(_ref("Part"))}
    groups = _object(**standing, groups=_list(_ref("GroupSummary")))
    groups["properties"] |= told
    now = _object(**standing)
    now["properties"] |= told
    nullable = {"oneOf": [_ref("LatestAssignment"), {"type": "null"}]}
    group = _object(group=_ref("GroupSummary"), assignment=nullable, standing=now)
    seq = _parameter("seq", _INTEGER, "Number of the round.", where="path")
    last = _parameter("Last-Event-ID", _STRING, "Go on after this event.", where="header")
    by_query = _parameter("last_event_id", _STRING, "The same, for clients that can't set headers.")
    stream = [_parameter("group", _STRING, "Only this group."), *_SELECTION, last, by_query]
    return {
        "/api/stream": _get(
            "Rounds as they happen. Events: `snapshot` (all groups; its id is the place of what follows), "
            "`round` (as in the pages of rounds, and its `group` as it stands), `group` (a group's standing "
            "changed without a round), `progress` (how far the server is, and whether that is `stale`), "
            "`reset` (the place of Last-Event-ID is gone).",
            _STRING,
            stream,
            media_type="text/event-stream",
        ),
        "/api/groups": _get("Every group as it stands.", groups, []),
        "/api/groups/{group}": _get("One group, and who owns what.", group, [_GROUP], missing=True),
        "/api/groups/{group}/rounds": _get(
            "A group's rounds, newest first.", page, [_GROUP, *_RANGE, *_SELECTION, _VIEW], missing=True
        ),
        "/api/groups/{group}/rounds/{seq}": _get("One round.", _ref("Round"), [_GROUP, seq], missing=True),
        "/api/groups/{group}/episodes": _get(
            "A group's last episodes, newest first: rounds that belong together, as stories. `caughtUp` is false "
            "while there may be others, or newer ones: at a start, or where their topic is missing or can't be "
            "read. `from` and `to` are of their beginnings.",
            episodes,
            [_GROUP, *_RANGE],
            missing=True,
        ),
        "/api/groups/{group}/timeline": _get(
            "Ownership over time: owners before the oldest round, then what changed hands in each.",
            timeline,
            [_GROUP, *_RANGE],
            missing=True,
        ),
        "/api/rounds": _get("All groups' rounds, newest first.", page, [*_RANGE, *_SELECTION, _VIEW]),
    }


@cache
def document() -> dict[str, Any]:
    """OpenAPI 3.1 of everything below /api/."""
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
