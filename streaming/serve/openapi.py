"""The query parameters of ``/api/v1``, the types of its responses, and the OpenAPI document built from both."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, NamedTuple

from msgspec import UNSET, Meta, UnsetType, defstruct
from msgspec.json import schema_components
from starlette.requests import Request

from assignors import __version__
from streaming.advice.model import Advice
from streaming.freshness import ComponentState
from streaming.records.codec import epoch_ms
from streaming.records.cost import FigureChange
from streaming.records.diffs import Diff, LatestAssignment
from streaming.records.episodes import Downtime, Episode, Incident, StoredAnnotation
from streaming.serve.board import Stale
from streaming.serve.problems import PROBLEM_KINDS, Problem
from streaming.serve.records import GroupSummary, OwnerChange, RoundSummary
from streaming.serve.stories import DowntimeTotals, EpisodeSummary, IncidentSummary

#: The largest whole number that all JSON readers keep exact.
_MAX_INTEGER: Final = 2**53
#: Digits of 2^63.
_MAX_DIGITS: Final = 19
#: The most characters of a parameter's value that its refusal quotes.
_MAX_SHOWN_CHARACTERS: Final = 60
#: The decoded parameters of a request by name; None for a parameter that is left out or empty.
Query = dict[str, Any]


class Parameter(NamedTuple):
    """A parameter of a route. ``decode`` raises ``ValueError`` with the reason for a refusal."""

    name: str
    description: str
    schema: dict[str, Any]
    decode: Callable[[str], object] = str
    location: str = "query"

    def document(self) -> dict[str, Any]:
        """Return the parameter as an OpenAPI object."""
        document = {"name": self.name, "in": self.location, "required": self.location == "path"}
        return document | {"description": self.description, "schema": self.schema}


def text(name: str, description: str, *, location: str = "query") -> Parameter:
    """Return an OpenAPI parameter of the type ``string``."""
    return Parameter(name, description, {"type": "string"}, location=location)


def integer(name: str, description: str, *, minimum: int = 0, location: str = "query") -> Parameter:
    """Return an API parameter whose value is a whole number from ``minimum`` to 2^53."""

    def decode(value: str) -> int:
        number = digits(value)
        if number is None or not minimum <= number <= _MAX_INTEGER:
            raise ValueError(f"{_quote(value)} is not a whole number in {minimum}…{_MAX_INTEGER}")
        return number

    return Parameter(name, description, {"type": "integer", "minimum": minimum}, decode, location)


def choice(name: str, values: Collection[str], description: str) -> Parameter:
    """Return an API parameter whose value is one of ``values``."""

    def decode(value: str) -> str:
        if value not in values:
            raise ValueError(f"{_quote(value)} is not one of {', '.join(values)}")
        return value

    return Parameter(name, description, {"enum": list(values)}, decode)


def flag(name: str, description: str) -> Parameter:
    """Return an API parameter whose value is ``true`` or ``false``."""
    boolean_text = choice(name, ("true", "false"), description)
    return boolean_text._replace(decode=lambda value: boolean_text.decode(value) == "true")


def moment(name: str, description: str) -> Parameter:
    """Return an API parameter whose value is a time: milliseconds since the epoch, or RFC 3339."""
    schema = {"oneOf": [{"type": "integer"}, {"type": "string", "format": "date-time"}]}
    return Parameter(name, description, schema, _milliseconds)


def _milliseconds(value: str) -> int:
    if len(value) <= len("8640000000000000") and digits(value) is not None:
        return epoch_ms(value)
    try:
        # A '+' of an offset that was not percent-encoded arrives as a space.
        time = datetime.fromisoformat(value.replace(" ", "+"))
    except ValueError as error:
        raise ValueError(f"{_quote(value)} is neither RFC 3339 (2026-01-31T12:00:00Z) nor milliseconds") from error
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def digits(value: str) -> int | None:
    """Return the number in a text of ASCII digits, below 2^63 (the limit of SQLite); None for any other text."""
    return int(value) if value.isascii() and value.isdigit() and len(value) < _MAX_DIGITS else None


def decode_query(request: Request, parameters: Collection[Parameter]) -> Query:
    """Return the decoded query parameters of a request; raise Problem for an unknown, malformed or repeated one."""
    by_name = {parameter.name: parameter for parameter in parameters if parameter.location == "query"}
    query: Query = dict.fromkeys(by_name)
    seen: set[str] = set()
    for name, value in request.query_params.multi_items():
        if name not in by_name:  # with an ignored typo the answer would have too much
            names = ", ".join(sorted(by_name)) or "none"
            raise invalid_parameter(_shorten_value(name), f"no such parameter; there are {names}")
        if name in seen:
            raise invalid_parameter(name, "is given twice")
        seen.add(name)
        try:
            query[name] = by_name[name].decode(value) if value else None
        except ValueError as error:
            raise invalid_parameter(name, str(error)) from error
    return query


def invalid_parameter(name: str, reason: str) -> Problem:
    """Return the problem document for an invalid query parameter."""
    return Problem("parameter", f"{name}: {reason}", parameter=name)


def _shorten_value(value: str) -> str:
    return value if len(value) <= _MAX_SHOWN_CHARACTERS else f"{value[:_MAX_SHOWN_CHARACTERS]}…"


def _quote(value: str) -> str:
    return repr(_shorten_value(value))


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
    """Return a struct type that describes an API answer in the schema; answers are built from stored JSON."""
    options = [(field, kind | UnsetType, UNSET) for field, kind in (optional or {}).items()]
    return defstruct(name, [*fields.items(), *options], rename="camel")


def _page(name: str, items: str, item: Any, **fields: Any) -> Any:
    return _answer(name, {items: list[item], "next": str | None, **fields})


ROUND: Final = _answer("Round", {"seq": Count, "summary": RoundSummary}, {"names": Names, "diff": Diff})
ROUND_PAGE: Final = _page("RoundPage", "rounds", ROUND)
_TIMELINE_ROUND: Final = _answer("TimelineRound", {"seq": Count, "summary": RoundSummary, "changes": list[Change]})
_STORY_FIELDS: Final = {"names": Names, "caught_up": bool}
INCIDENT_PAGE: Final = _page("IncidentPage", "incidents", Incident, **_STORY_FIELDS)
EPISODE_PAGE: Final = _page("EpisodePage", "episodes", Episode, **_STORY_FIELDS)
_ANNOTATED: Final = {"annotations": list[StoredAnnotation]}
TIMELINE_PAGE: Final = _page("TimelinePage", "rounds", _TIMELINE_ROUND, base=list[Change], names=Names, **_ANNOTATED)
_STATUS: Final = {"caught_up": bool, "lag": int | None, "seq": Count}
_FRESHNESS_FIELDS: Final = {"stale": Stale, "parts": list[ComponentState]}
GROUPS: Final = _answer(
    "Groups", {**_STATUS, "cluster": str, "groups": list[GroupSummary], "next": str | None}, _FRESHNESS_FIELDS
)
_PROGRESS_FIELDS: Final = {"standing": _answer("Progress", _STATUS, _FRESHNESS_FIELDS), **_ANNOTATED}
_PAST_FIELDS: Final = {"at": int, "episodes": list[Episode], "incidents": list[Incident]}
GROUP: Final = _answer(
    "Group",
    {"group": GroupSummary, "assignment": LatestAssignment | None, "names": Names, **_PROGRESS_FIELDS},
    {"since": Since, "downtime": DowntimeTotals, "downtime_today": Downtime | None, **_PAST_FIELDS},
)
_CLUSTER: Final = _answer(
    "Cluster",
    {"name": str, "cluster_id": str | None, "ready": bool},
    {"problem": str, "lag": int | None, "seq": Count, **_FRESHNESS_FIELDS, "notice": str},
)
CLUSTERS: Final = _answer("Clusters", {"clusters": list[_CLUSTER]})  # type: ignore[valid-type] # built at run time
_OBJECTS_BY_NAME = dict[str, dict[str, Any]]
FORECAST: Final = _answer(
    "Forecast",
    dict.fromkeys(("group_id", "change", "now", "sentence"), str)
    | dict.fromkeys(("session_timeout_ms", "rebalance_timeout_ms"), Count)
    | {"unsure": list[str], "protocols": _OBJECTS_BY_NAME},
)
MIGRATION: Final = _answer(
    "Migration",
    {"group_id": str, "now": str, "assignor": str | None, "unsure": list[str]}
    | {"targets": _OBJECTS_BY_NAME, "happened": list[dict[str, Any]]},
)
WHAT_IF: Final = _answer(
    "WhatIf",
    {"group_id": str, "kind": str, "protocol": str, "assignor": str | None, "timestamp": Count}
    | dict.fromkeys(("generation", "group_epoch"), int | None)
    | dict.fromkeys(("added", "removed", "inexact"), list[str])
    | {"names": dict[str, str], "partitions": dict[str, int], "answers": list[dict[str, Any]]},
)
_SEARCH_MATCH: Final = _answer(
    "Match",
    {"group_id": str, "kind": Literal["partition", "topic", "member"]},
    {"topic": str, "partition": Count, "owners": list[str], "partitions": Count}
    | dict.fromkeys(("member_id", "name"), str),
)
COMPARISON: Final = _answer("Comparison", {"before": Episode, "after": Episode, "figures": list[FigureChange]})
LAGS_ANSWER: Final = _answer("Lags", {"groups": dict[str, int | None]})
SEARCH_ANSWER: Final = _answer("Search", {"found": list[_SEARCH_MATCH]})  # type: ignore[valid-type] # built at run time
ANNOTATIONS: Final = _answer("Annotations", {"annotations": list[StoredAnnotation]})
PUBLISHED_ANSWER: Final = _answer("Published", {"id": str})
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
    integer("seq", "Number of the round.", location="path"),
    integer("before", "Number of an episode.", minimum=1, location="path"),
    integer("after", "Number of a later episode.", minimum=1, location="path"),
)


def _problem_responses(problem: Mapping[str, Any]) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": problem}}
    kinds: dict[str, list[str]] = {}
    for name, (status, meaning) in PROBLEM_KINDS.items():
        kinds.setdefault(str(status.value), []).append(f"`{name}`: {meaning}")
    return {status: {"description": " ".join(texts), "content": content} for status, texts in kinds.items()}


def _operation_json(operation: Operation, answer: Mapping[str, Any], body: Mapping[str, Any] | None) -> dict[str, Any]:
    path = [parameter for parameter in _PATH_PARAMETERS if f"{{{parameter.name}}}" in operation.path]
    success_status = "200" if operation.method == "GET" else "202"
    operation_document: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [parameter.document() for parameter in (*path, *operation.parameters)],
        "responses": {
            success_status: {"description": "OK", "content": {operation.media_type: {"schema": answer}}},
            **{status: {"$ref": f"#/components/responses/{status}"} for status in _problem_responses({})},
        },
    }
    if body is not None:
        operation_document["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return operation_document


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
        item[operation.method.lower()] = _operation_json(operation, answer, None if operation.body is None else body)
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
