"""The JSON routes: groups, rounds, timelines, and the feed."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from typing import Final, ParamSpec, TypeVar
from urllib.parse import unquote

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streaming.serve import forecasts, openapi, params
from streaming.serve.archive import MAX_DIFFS, MAX_PAGE, StoredPage, Window
from streaming.serve.board import Filter
from streaming.serve.feed import Feed, FeedResponse, Place
from streaming.serve.forecasts import Workers
from streaming.serve.problems import Problem
from streaming.serve.records import GroupSummary
from streaming.serve.security import Access
from streaming.serve.stories import Sort, Stood, names_in
from streaming.simulation.changes import RollingRestart, Scale
from streaming.simulation.migration import TARGETS
from streaming.wire.codec import encode
from streaming.wire.downtime import midnight

_P = ParamSpec("_P")
_T = TypeVar("_T")

_SELECTION: Final = ("cause", "min_moved")
_PAGE: Final = ("from", "to", "cursor", "limit")
_RANGE: Final = (*_PAGE, *_SELECTION)
_DEFAULT_LIMIT: Final = 100
#: What ``what-if`` takes, as its command does: lists, and which way is asked for.
_LISTS: Final = ("add", "remove", "partitions", "subscribe")
_WAY: Final = ("protocol", "assignor")
#: Times that a forecast takes from a request, as a scenario calls them.
_TIMES: Final = {
    "heartbeat_ms": ("heartbeat_ms", "consumer_heartbeat_ms"),
    "processing_ms": ("processing_ms",),
}
_RESTART: Final = ("parallel", "down_ms", "between_ms", *_TIMES)
#: A day; what is longer would only take longer to play.
_LONGEST_MS: Final = 86_400_000


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


def _times(request: Request) -> dict[str, int]:
    """What stands in place of what a scenario takes."""
    found: dict[str, int] = {}
    for name, fields in _TIMES.items():
        value = params.whole(request, name, None, least=int(name == "heartbeat_ms"))
        if value is not None:
            found |= dict.fromkeys(fields, min(value, _LONGEST_MS))
    return found


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
        return [
            Route("/api/v1/stream", self.stream, name="stream"),
            Route("/api/v1/groups", self.groups, name="groups"),
            Route("/api/v1/groups/{group:path}/rounds", self.rounds, name="rounds"),
            Route("/api/v1/groups/{group:path}/rounds/{seq}", self.round, name="round"),
            Route("/api/v1/groups/{group:path}/episodes", self.episodes, name="episodes"),
            Route("/api/v1/groups/{group:path}/incidents", self.incidents, name="incidents"),
            Route("/api/v1/groups/{group:path}/timeline", self.timeline, name="timeline"),
            Route("/api/v1/groups/{group:path}/forecast", self.forecast, name="forecast"),
            Route("/api/v1/groups/{group:path}/migrate", self.migrate, name="migrate"),
            Route("/api/v1/groups/{group:path}/what-if", self.what_if, name="what-if"),
            Route("/api/v1/groups/{group:path}", self.group, name="group"),
            Route("/api/v1/rounds", self.all_rounds, name="all-rounds"),
            Route("/api/v1/incidents", self.all_incidents, name="all-incidents"),
            Route("/api/v1/openapi.json", self.description, name="openapi"),
        ]

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

    def _window(self, request: Request, group: str | None, most: int) -> Window:
        since, until = params.moment(request, "from"), params.moment(request, "to")
        if since is not None and until is not None and since >= until:
            raise Problem(HTTPStatus.BAD_REQUEST, "parameter", "from: must be before to", parameter="from")
        return Window(
            group=group,
            since=since,
            until=until,
            cause=params.text(request, "cause"),
            min_moved=params.whole(request, "min_moved", 0) or 0,
            before=params.whole(request, "cursor", None),
            limit=min(most, params.whole(request, "limit", _DEFAULT_LIMIT, least=1) or _DEFAULT_LIMIT),
        )

    async def groups(self, request: Request) -> Response:
        """Every group as it stands."""
        params.only(request, ())
        return await self._board.shared_snapshot().body.response(request, self._feed.readers)

    async def group(self, request: Request) -> Response:
        """One group, who owns what in it and is in it since when, and whether that is true now."""
        params.only(request, ())
        group = self._known(request)
        assignment = await self._read(self._archive.assignment, group.group_id)
        today = midnight(time.time_ns() // 1_000_000)
        since = await self._read(self._archive.since, group.group_id, assignment)
        return _joined(
            {
                b"group": encode(group),
                b"assignment": assignment or b"null",
                b"names": await self._read(self._archive.names, assignment),
                b"downtime": encode(self._board.told.stood.get(group.group_id, Stood())),
                b"downtimeToday": encode(await self._read(self._archive.downtime, group.group_id, today)),
                b"since": encode(since),
                b"standing": encode(self._board.stands()),
            }
        )

    async def rounds(self, request: Request) -> Response:
        """A group's rounds, newest first."""
        return await self._page(request, self._known(request).group_id)

    async def all_rounds(self, request: Request) -> Response:
        """All groups' rounds, newest first."""
        return await self._page(request, None)

    async def _page(self, request: Request, group: str | None) -> Response:
        params.only(request, (*_RANGE, "view"))
        with_diff = params.one_of(request, "view", ("diff", "summary"), "diff") == "diff"
        window = self._window(request, group, MAX_DIFFS if with_diff else MAX_PAGE)
        return _joined(_listed(await self._read(self._archive.page, window, with_diff=with_diff)))

    async def round(self, request: Request) -> Response:
        """One round with its diff."""
        params.only(request, ())
        group, seq = self._known(request).group_id, params.digits(request.path_params["seq"])
        found = await self._read(self._archive.round, group, seq) if seq is not None else None
        if found is None:
            raise Problem(
                HTTPStatus.NOT_FOUND, "round", f"group {group!r} has no such round, or no longer has it"
            )
        return JsonBytes(found)

    async def timeline(self, request: Request) -> Response:
        """Ownership over time: who owned what before the oldest round of the page, then the changes."""
        params.only(request, _PAGE)
        window = self._window(request, self._known(request).group_id, MAX_PAGE)
        found = await self._read(self._archive.timeline, window)
        return _joined({b"base": found.base, b"names": found.names, **_listed(found.page)})

    async def forecast(self, request: Request) -> Response:
        """What a rolling restart, or another number of members, would cost a group under each protocol."""
        params.only(request, (*_RESTART, "scale"))
        scale = params.whole(request, "scale", None, least=1)
        change = self._restart(request) if scale is None else Scale(scale)
        return await self._forecast(request, forecasts.forecast, change, _times(request))

    async def migrate(self, request: Request) -> Response:
        """Whether a group is ready for another protocol, and the way there."""
        params.only(request, (*_RESTART, "to"))
        to = params.text(request, "to")
        targets = TARGETS if to is None else (params.one_of(request, "to", TARGETS, to),)
        restart = self._restart(request)
        return await self._forecast(request, forecasts.plan, targets, restart, _times(request))

    async def what_if(self, request: Request) -> Response:
        """What would move if members came or went, or topics grew, under every assignor."""
        params.only(request, (*_LISTS, *_WAY))
        options = {name: (params.text(request, name) or "").split(",") for name in _LISTS}
        given: dict[str, object] = {name: [one for one in words if one] for name, words in options.items()}
        given |= {name: params.text(request, name) for name in _WAY}
        return await self._forecast(request, forecasts.what_if, given)

    def _restart(self, request: Request) -> RollingRestart:
        usual = RollingRestart()
        return RollingRestart(
            params.whole(request, "parallel", None, least=1),
            params.whole(request, "down_ms", None, least=1) or usual.down_ms,
            usual.between_ms if (between := params.whole(request, "between_ms", None)) is None else between,
        )

    async def _forecast(
        self, request: Request, function: Callable[..., bytes], *arguments: object
    ) -> Response:
        assignment = await self._read(self._archive.assignment, self._known(request).group_id)
        return JsonBytes(await self._workers.run(request, function, assignment, *arguments))

    async def episodes(self, request: Request) -> Response:
        """A group's episodes, newest first, as they stand in their topic, and whether these are all."""
        params.only(request, _PAGE)
        return await self._stories(request, "episode", self._known(request).group_id)

    async def incidents(self, request: Request) -> Response:
        """A group's incidents, newest first, as they stand in their topic, and whether these are all."""
        params.only(request, (*_PAGE, "open"))
        return await self._stories(request, "incident", self._known(request).group_id)

    async def all_incidents(self, request: Request) -> Response:
        """All groups' incidents, or one group's, which need not be known."""
        params.only(request, (*_PAGE, "open", "group"))
        return await self._stories(request, "incident", params.text(request, "group"))

    async def _stories(self, request: Request, sort: Sort, group: str | None) -> Response:
        window = self._window(request, group, MAX_DIFFS)
        opened = None
        if params.text(request, "open") is not None:
            opened = params.one_of(request, "open", ("true", "false"), "") == "true"
        page = await self._read(self._archive.stories, sort, window, opened=opened)
        # The newest comes first, and what it calls a member goes before what an older one does.
        names = {one: name for body in reversed(page.items) for one, name in names_in(sort, body).items()}
        told = {
            b"names": encode(names),
            b"caughtUp": b"true" if sort in self._board.standing.whole else b"false",
        }
        return _joined({**_listed(page, b"%bs" % sort.encode()), **told})

    async def description(self, request: Request) -> Response:
        """The OpenAPI document of this service."""
        params.only(request, ())
        return JsonBytes(encode(openapi.document()))

    async def stream(self, request: Request) -> FeedResponse:
        """Server-sent events."""
        params.only(request, ("group", "stories", "last_event_id", *_SELECTION))
        if self._board.listeners >= self._max_clients:
            raise Problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "clients",
                f"{self._max_clients} clients follow the feed already, the most that --max-clients allows",
                {"Retry-After": "10"},
            )
        wanted = Filter(
            params.text(request, "group"),
            params.text(request, "cause"),
            params.whole(request, "min_moved", 0) or 0,
            params.one_of(request, "stories", ("true", "false"), "false") == "true",
        )
        return FeedResponse(self._feed, wanted, self._place(request), self._access.admission(request))

    def _place(self, request: Request) -> Place | None:
        """Where the client was; −1, which is in no history, if that was in another one."""
        given = request.headers.get("last-event-id") or params.text(request, "last_event_id")
        if not given:
            return None
        epoch, _, numbers = given.partition(".")
        found = [params.digits(number) for number in numbers.split(".", 1)]
        if epoch != self._board.extent.epoch or found[0] is None:
            return Place(-1)
        return Place(found[0], found[1] if found[1:] else None)
