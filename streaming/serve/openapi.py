"""The OpenAPI document: types of the answers, and the description of each operation of ``/api/v1``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple

from msgspec import UNSET, Meta, UnsetType, defstruct
from msgspec.json import schema_components

from assignors import __version__
from streaming.advice.model import Advice
from streaming.freshness import Part
from streaming.records.diffs import Diff, LatestAssignment
from streaming.records.episodes import Downtime, Episode, Incident, StoredAnnotation
from streaming.serve.board import Stale
from streaming.serve.parameters import Parameter, text, whole
from streaming.serve.problems import KINDS
from streaming.serve.records import GroupSummary, OwnerChange, RoundSummary
from streaming.serve.stories import DowntimeTotals, EpisodeSummary, IncidentSummary

Names = Annotated[
    dict[str, str], Meta(description="Display names of members by member id; members without one are left out.")
]
Since = Annotated[
    dict[str, int],
    Meta(description="When members joined, by member id; none of who was there before the oldest round."),
]
Change = Annotated[OwnerChange, Meta(description="[owner or null, topic, partitions]")]
Count = Annotated[int, Meta(ge=0)]


def _answer(name: str, fields: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> Any:
    """Return the type of an answer, used only for its schema, as answers are built from stored JSON."""
    options = [(field, kind | UnsetType, UNSET) for field, kind in (optional or {}).items()]
    return defstruct(name, [*fields.items(), *options], rename="camel")


def _page(name: str, items: str, item: Any, **fields: Any) -> Any:
    return _answer(name, {items: list[item], "next": str | None, **fields})


ROUND: Final = _answer("Round", {"seq": Count, "summary": RoundSummary}, {"names": Names, "diff": Diff})
ROUND_PAGE: Final = _page("RoundPage", "rounds", ROUND)
_TIMELINE_ROUND: Final = _answer("TimelineRound", {"seq": Count, "summary": RoundSummary, "changes": list[Change]})
_STORIES: Final = {"names": Names, "caught_up": bool}
INCIDENT_PAGE: Final = _page("IncidentPage", "incidents", Incident, **_STORIES)
EPISODE_PAGE: Final = _page("EpisodePage", "episodes", Episode, **_STORIES)
_MARKS: Final = {"annotations": list[StoredAnnotation]}
TIMELINE_PAGE: Final = _page("TimelinePage", "rounds", _TIMELINE_ROUND, base=list[Change], names=Names, **_MARKS)
_PROGRESS: Final = {"caught_up": bool, "lag": int | None, "seq": Count}
_PARTS: Final = {"stale": Stale, "parts": list[Part]}
GROUPS: Final = _answer(
    "Groups", {**_PROGRESS, "cluster": str, "groups": list[GroupSummary], "next": str | None}, _PARTS
)
GROUP: Final = _answer(
    "Group",
    {
        "group": GroupSummary,
        "assignment": LatestAssignment | None,
        "names": Names,
        "standing": _answer("Progress", _PROGRESS, _PARTS),
        **_MARKS,
    },
    {
        "since": Since,
        "downtime": DowntimeTotals,
        "downtime_today": Downtime | None,
        "at": int,
        "episodes": list[Episode],
        "incidents": list[Incident],
    },
)
_OBJECTS = dict[str, dict[str, Any]]
FORECAST: Final = _answer(
    "Forecast",
    dict.fromkeys(("group_id", "change", "now", "sentence"), str)
    | dict.fromkeys(("session_timeout_ms", "rebalance_timeout_ms"), Count)
    | {"unsure": list[str], "protocols": _OBJECTS},
)
MIGRATION: Final = _answer(
    "Migration",
    {"group_id": str, "now": str, "assignor": str | None, "unsure": list[str]}
    | {"targets": _OBJECTS, "happened": list[dict[str, Any]]},
)
WHAT_IF: Final = _answer(
    "WhatIf",
    {"group_id": str, "kind": str, "protocol": str, "assignor": str | None, "timestamp": Count}
    | dict.fromkeys(("generation", "group_epoch"), int | None)
    | dict.fromkeys(("added", "removed", "inexact"), list[str])
    | {"names": dict[str, str], "partitions": dict[str, int], "answers": list[dict[str, Any]]},
)
_MATCH: Final = _answer(
    "Match",
    {"group_id": str, "kind": Literal["partition", "topic", "member"]},
    {"topic": str, "partition": Count, "owners": list[str], "partitions": Count}
    | dict.fromkeys(("member_id", "name"), str),
)
LAGS: Final = _answer("Lags", {"groups": dict[str, int | None]})
SEARCH: Final = _answer("Search", {"found": list[_MATCH]})  # type: ignore[valid-type] # built at run time
ANNOTATIONS: Final = _answer("Annotations", {"annotations": list[StoredAnnotation]})
PUBLISHED: Final = _answer("Published", {"id": str})
ADVICE: Final = _answer("GroupAdvice", {"group_id": str, "advice": list[Advice]})
_PROBLEM: Final = _answer("Problem", dict.fromkeys(("type", "title", "detail", "instance"), str) | {"status": int})


class Operation(NamedTuple):
    """An operation of the API: a ``path`` below /api/v1, and the ``name`` of its method in :mod:`streaming.serve.api`.

    ``answer`` and ``body`` are the types of the response and of the request's body.
    """

    name: str
    path: str
    summary: str
    answer: Any
    parameters: tuple[Parameter, ...]
    media_type: str
    method: str
    body: Any


_PATH_PARAMETERS: Final = (
    text("group", "Group id, percent-encoded.", location="path"),
    whole("seq", "Number of the round.", location="path"),
)


def _problem_responses(problem: Mapping[str, Any]) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": problem}}
    kinds: dict[str, list[str]] = {}
    for name, kind in KINDS.items():
        kinds.setdefault(str(kind.status.value), []).append(f"`{name}`: {kind.meaning}")
    return {status: {"description": " ".join(texts), "content": content} for status, texts in kinds.items()}


def _described(operation: Operation, answer: Mapping[str, Any], body: Mapping[str, Any] | None) -> dict[str, Any]:
    path = [parameter for parameter in _PATH_PARAMETERS if f"{{{parameter.name}}}" in operation.path]
    success = "200" if operation.method == "GET" else "202"
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [parameter.document() for parameter in (*path, *operation.parameters)],
        "responses": {
            success: {"description": "OK", "content": {operation.media_type: {"schema": answer}}},
            **{status: {"$ref": f"#/components/responses/{status}"} for status in _problem_responses({})},
        },
    }
    if body is not None:
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return described


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the operations."""
    types = [kind for operation in operations for kind in (operation.answer, operation.body)]
    schemas, components = schema_components(
        [*types, _PROBLEM, EpisodeSummary, IncidentSummary], ref_template="#/components/schemas/{name}"
    )
    *pairs, problem, _, _ = schemas
    paths: dict[str, Any] = {}
    for operation, answer, body in zip(operations, pairs[::2], pairs[1::2], strict=True):
        item = paths.setdefault(f"/api/v1{operation.path}", {})
        item[operation.method.lower()] = _described(operation, answer, None if operation.body is None else body)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kafka-rebalance-monitor",
            "version": __version__,
            "description": "Who rebalanced, why, and what moved. Times are milliseconds since the epoch.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": _problem_responses(problem),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }
