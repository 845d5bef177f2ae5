"""The JSON routes: groups, rounds, timelines, and the feed."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import wraps
from http import HTTPStatus
from typing import Any, Final, ParamSpec, TypeVar
from urllib.parse import unquote

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streaming.records.codec import encode
from streaming.records.downtime import midnight
from streaming.serve import forecasts
from streaming.serve.archive import MAX_DIFFS, MAX_PAGE, StoredPage, Window
from streaming.serve.board import Filter
from streaming.serve.feed import Feed, FeedResponse, Place
from streaming.serve.forecasts import Workers
from streaming.serve.openapi import OPERATIONS, Operation, document
from streaming.serve.parameters import Query, decode_query, digits, refuse
from streaming.serve.problems import Problem
from streaming.serve.records import GroupSummary
from streaming.serve.security import Access
from streaming.serve.stories import DowntimeTotals, Sort, names_in
from streaming.simulation.changes import RollingRestart, Scale
from streaming.simulation.migration import TARGETS

_P = ParamSpec("_P")
_T = TypeVar("_T")

_DEFAULT_LIMIT: Final = 100
#: Parameters of ``what-if`` that are lists.
_LISTS: Final = ("add", "remove", "partitions", "subscribe")
#: Fields of a scenario that a forecast takes from a parameter.
_TIMES: Final = {
    "heartbeat_ms": ("heartbeat_ms", "consumer_heartbeat_ms"),
    "processing_ms": ("processing_ms",),
}
#: A day; longer times would only take longer to simulate.
_MAX_TIME_MS: Final = 86_400_000


class JsonBytes(Response):
    """A body that is JSON already."""

    media_type = "application/json"


def _joined(members: dict[bytes, bytes]) -> JsonBytes:
    return JsonBytes(b"{%b}" % b",".join(b'"%b":%b' % item for item in members.items()))


def _listed(page: StoredPage, name: bytes = b"rounds") -> dict[bytes, bytes]:
    return {
        name: b"[%b]" % b",".join(page.items),
        b"next": b"null" if page.next is None else b'"%d"' % page.next,
    }


def _times(query: Query) -> dict[str, int]:
    """Return the times that replace those of a scenario."""
    return {
        field: min(query[name], _MAX_TIME_MS)
        for name, fields in _TIMES.items()
        if query[name] is not None
        for field in fields
    }


def _restart(query: Query) -> RollingRestart:
    default = RollingRestart()
    between_ms = query["between_ms"]
    return RollingRestart(
        query["parallel"],
        query["down_ms"] or default.down_ms,
        default.between_ms if between_ms is None else between_ms,
    )


def _window(query: Query, group: str | None, max_items: int) -> Window:
    since, until = query["from"], query["to"]
    if since is not None and until is not None and since >= until:
        raise refuse("from", "must be before to")
    return Window(
        group=group,
        since=since,
        until=until,
        cause=query.get("cause"),
        min_moved=query.get("min_moved") or 0,
        before=query["cursor"],
        limit=min(max_items, query["limit"] or _DEFAULT_LIMIT),
    )


class Api:
    """The handlers; their answers come from the board and the archive."""

    def __init__(self, feed: Feed, *, access: Access, max_clients: int, workers: Workers) -> None:
        self._feed = feed
        self._access = access
        self._board = feed.board
        self._archive = feed.archive
        self._max_clients = max_clients
        self._workers = workers

    def routes(self) -> list[Route]:
        """The routes below /api/v1/."""
        # Group ids may hold slashes.
        routes = [
            Route(
                f"/api/v1{operation.path.replace('{group}', '{group:path}')}",
                self._endpoint(operation),
                name=operation.name,
            )
            for operation in OPERATIONS
        ]
        return [*routes, Route("/api/v1/openapi.json", self.description)]

    def _endpoint(self, operation: Operation) -> Callable[[Request], Awaitable[Any]]:
        """Return the method of that name, called with the decoded parameters."""
        method: Callable[[Request, Query], Awaitable[Any]] = getattr(self, operation.name)

        async def endpoint(request: Request) -> Any:
            return await method(request, decode_query(request, operation.parameters))

        return endpoint

    async def _read(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Query the archive in a worker thread, a few at a time, so that one large query leaves room for others."""

        @wraps(function)
        def call() -> _T:
            return function(*args, **kwargs)

        return await to_thread.run_sync(call, limiter=self._feed.readers)

    def _known(self, request: Request) -> GroupSummary:
        name = unquote(request.path_params["group"])  # what paths.py protected
        group = self._board.groups.get(name)
        if group is None:
            raise Problem(
                HTTPStatus.NOT_FOUND, "group", f"no group {name!r} is known; /api/v1/groups lists all"
            )
        return group

    async def groups(self, request: Request, _: Query) -> Response:
        """Every group as it stands."""
        return await self._board.shared_snapshot().body.response(request, self._feed.readers)

    async def group(self, request: Request, _: Query) -> Response:
        """One group, who owns what in it and is in it since when, and whether that is true now."""
        group = self._known(request)
        assignment = await self._read(self._archive.assignment, group.group_id)
        today = midnight(time.time_ns() // 1_000_000)
        since = await self._read(self._archive.since, group.group_id, assignment)
        return _joined(
            {
                b"group": encode(group),
                b"assignment": assignment or b"null",
                b"names": await self._read(self._archive.names, assignment),
                b"downtime": encode(
                    self._board.current_stories.downtime.get(group.group_id, DowntimeTotals())
                ),
                b"downtimeToday": encode(await self._read(self._archive.downtime, group.group_id, today)),
                b"since": encode(since),
                b"standing": encode(self._board.status_document()),
            }
        )

    async def rounds(self, request: Request, query: Query) -> Response:
        """A group's rounds, newest first."""
        return await self._page(query, self._known(request).group_id)

    async def all_rounds(self, _: Request, query: Query) -> Response:
        """All groups' rounds, newest first."""
        return await self._page(query, None)

    async def _page(self, query: Query, group: str | None) -> Response:
        with_diff = query["view"] != "summary"
        window = _window(query, group, MAX_DIFFS if with_diff else MAX_PAGE)
        return _joined(_listed(await self._read(self._archive.page, window, with_diff=with_diff)))

    async def round(self, request: Request, _: Query) -> Response:
        """One round with its diff."""
        group, seq = self._known(request).group_id, digits(request.path_params["seq"])
        found = await self._read(self._archive.round, group, seq) if seq is not None else None
        if found is None:
            raise Problem(
                HTTPStatus.NOT_FOUND, "round", f"group {group!r} has no such round, or no longer has it"
            )
        return JsonBytes(found)

    async def timeline(self, request: Request, query: Query) -> Response:
        """Ownership over time: who owned what before the oldest round of the page, then the changes."""
        window = _window(query, self._known(request).group_id, MAX_PAGE)
        found = await self._read(self._archive.timeline, window)
        return _joined({b"base": found.base, b"names": found.names, **_listed(found.page)})

    async def forecast(self, request: Request, query: Query) -> Response:
        """What a rolling restart, or another number of members, would cost a group under each protocol."""
        change = _restart(query) if query["scale"] is None else Scale(query["scale"])
        return await self._forecast(request, forecasts.forecast, change, _times(query))

    async def migrate(self, request: Request, query: Query) -> Response:
        """Whether a group is ready for another protocol, and the way there."""
        targets = TARGETS if query["to"] is None else (query["to"],)
        return await self._forecast(request, forecasts.plan, targets, _restart(query), _times(query))

    async def what_if(self, request: Request, query: Query) -> Response:
        """What would move if members came or went, or topics grew, under every assignor."""
        options = query | {name: [word for word in (query[name] or "").split(",") if word] for name in _LISTS}
        return await self._forecast(request, forecasts.what_if, options)

    async def _forecast(
        self, request: Request, function: Callable[..., bytes], *arguments: object
    ) -> Response:
        assignment = await self._read(self._archive.assignment, self._known(request).group_id)
        return JsonBytes(await self._workers.run(request, function, assignment, *arguments))

    async def episodes(self, request: Request, query: Query) -> Response:
        """A group's episodes, newest first, as they stand in their topic, and whether these are all."""
        return await self._stories(query, "episode", self._known(request).group_id)

    async def incidents(self, request: Request, query: Query) -> Response:
        """A group's incidents, newest first, as they stand in their topic, and whether these are all."""
        return await self._stories(query, "incident", self._known(request).group_id)

    async def all_incidents(self, _: Request, query: Query) -> Response:
        """All groups' incidents, or one group's, which need not be known."""
        return await self._stories(query, "incident", query["group"])

    async def _stories(self, query: Query, sort: Sort, group: str | None) -> Response:
        window = _window(query, group, MAX_DIFFS)
        page = await self._read(self._archive.stories, sort, window, opened=query.get("open"))
        # The newest comes first, and what it calls a member goes before what an older one does.
        names = {
            member: name for body in reversed(page.items) for member, name in names_in(sort, body).items()
        }
        caught_up = sort in self._board.status.whole
        items = _listed(page, b"%bs" % sort.encode())
        return _joined({**items, b"names": encode(names), b"caughtUp": encode(caught_up)})

    async def description(self, request: Request) -> Response:
        """The OpenAPI document of this service."""
        decode_query(request, ())
        return JsonBytes(encode(document()))

    async def stream(self, request: Request, query: Query) -> FeedResponse:
        """Server-sent events."""
        if self._board.listeners >= self._max_clients:
            raise Problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "clients",
                f"{self._max_clients} clients follow the feed already, the most that --max-clients allows",
                {"Retry-After": "10"},
            )
        wanted = Filter(
            query["group"], query["cause"], query["min_moved"] or 0, stories=bool(query["stories"])
        )
        return FeedResponse(self._feed, wanted, self._place(request, query), self._access.admission(request))

    def _place(self, request: Request, query: Query) -> Place | None:
        """Where the client was; −1, which is in no history, if that was in another one."""
        event_id = request.headers.get("last-event-id") or query["last_event_id"]
        if not event_id:
            return None
        epoch, _, numbers = event_id.partition(".")
        seqs = [digits(number) for number in numbers.split(".", 1)]
        if epoch != self._board.extent.epoch or seqs[0] is None:
            return Place(-1)
        return Place(seqs[0], seqs[1] if seqs[1:] else None)
