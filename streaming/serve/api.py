"""Handlers of the JSON API: groups, rounds, timelines, and the feed."""

import inspect
import time
from collections.abc import Awaitable, Callable, Sequence
from fnmatch import fnmatchcase
from functools import cache, partial
from http import HTTPStatus
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from anyio import to_thread
from msgspec import Raw
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assignors.errors import MonitorError
from streaming.kafka.lag_reader import GroupLag
from streaming.monitor.outputs import output_id
from streaming.records.codec import encode
from streaming.records.cost import figure_changes
from streaming.records.downtime import start_of_day
from streaming.records.episodes import StoredAnnotation
from streaming.records.events import MAX_TIMESTAMP
from streaming.serve import forecasts, openapi
from streaming.serve.annotations import MAX_ANNOTATIONS, AnnotationRequest, add_story_suffix, parse_request
from streaming.serve.archive import MAX_DIFFS, MAX_PAGE_ITEMS, Archive, StoredPage
from streaming.serve.board import FeedFilter
from streaming.serve.clusters import Cluster
from streaming.serve.feed import Feed, FeedResponse, LastEvent
from streaming.serve.forecasts import WorkerPool
from streaming.serve.openapi import Query
from streaming.serve.parameters import (
    AT,
    CHANGES,
    DEFAULT_LIMIT,
    FILTERS,
    IS_OPEN,
    LISTING,
    PAGING,
    RESTART,
    SPAN,
    page_query,
    rolling_restart,
    simulated_times,
)
from streaming.serve.problems import Problem
from streaming.serve.records import GroupSummary
from streaming.serve.security import CALLER_KEY, Access
from streaming.serve.stories import DowntimeTotals, Sort, member_names
from streaming.simulation.changes import ScaleChange
from streaming.simulation.migration import TARGETS

_Handler = TypeVar("_Handler", bound=Callable[..., Awaitable[Any]])
#: Operations in the order in which their paths are matched.
_OPERATIONS: Final[list[openapi.Operation]] = []


def _route(
    path: str,
    answer: Any,
    *parameters: openapi.Parameter,
    media_type: str = "application/json",
    method: str = "GET",
    body: Any = None,
) -> Callable[[_Handler], _Handler]:
    """Register a handler for a path below /api/v1; the handler's docstring is the operation's summary."""

    def register(handler: _Handler) -> _Handler:
        names = handler.__name__, path, " ".join((inspect.getdoc(handler) or "").split())
        _OPERATIONS.append(openapi.Operation(*names, answer, parameters, media_type, method, body))
        return handler

    return register


@cache
def document() -> dict[str, Any]:
    """Return the OpenAPI document of everything below /api/v1/."""
    return openapi.document(_OPERATIONS)


class Json(Response):
    """A response with a JSON body; parts of its content may be ``Raw``, which is JSON already."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the content of a response as JSON bytes."""
        return encode(content)


def _page_document(page: StoredPage, name: str = "rounds") -> dict[str, object]:
    return {name: list(map(Raw, page.items)), "next": None if page.next is None else str(page.next)}


class GroupApi:
    """The API's request handlers, which read the current groups (board) and the stored history (archive)."""

    def __init__(
        self, cluster: Cluster, clusters: Sequence[Cluster], *, access: Access, max_clients: int, workers: WorkerPool
    ) -> None:
        self._cluster, self._clusters = cluster, clusters
        self._access, self._max_clients, self._workers = access, max_clients, workers

    @property
    def _feed(self) -> Feed:
        return self._cluster.open_feed()

    def routes(self, prefix: str = "") -> list[Route]:
        """Return the HTTP routes of the API; ``prefix``: the path before ``/api/v1/``, such as that of one cluster."""
        routes = [Route(f"{prefix}/api/v1/openapi.json", self.description)]
        for operation in _OPERATIONS:
            path = f"{prefix}/api/v1{operation.path.replace('{group}', '{group:path}')}"  # group ids may have slashes
            routes.append(Route(path, partial(self._answer, operation), methods=[operation.method]))
        return routes

    async def _answer(self, operation: openapi.Operation, request: Request) -> Response:
        query = openapi.decode_query(request, operation.parameters)
        response: Response = await getattr(self, operation.name)(request, query)
        return response

    def _group(self, request: Request) -> GroupSummary:
        name = unquote(request.path_params["group"])  # see EncodedGroupIds
        group = self._feed.board.groups.get(name)
        if group is None:
            raise Problem("group", f"no group {name!r} is known; /api/v1/groups lists all")
        return group

    @_route(
        "/groups",
        openapi.GROUPS,
        AT,
        openapi.text("cursor", "`next` of the page before."),
        openapi.integer("limit", "Groups a page, by group id; all groups if left out.", minimum=1),
    )
    async def groups(self, request: Request, query: Query) -> Response:
        """The state of all groups, now or at a past moment."""
        cursor, limit, at_ms = query["cursor"], query["limit"], query["at"]
        if cursor is None and limit is None and at_ms is None:
            return await self._feed.board.snapshot().body.response(request, self._feed.readers)
        groups = self._feed.board.groups
        if at_ms is not None:
            groups = await self._feed.read(Archive.groups_at, list(groups.values()), at_ms)
        names = sorted(name for name in groups if cursor is None or name > cursor)
        page = names[:limit]
        next_cursor = page[-1] if len(page) < len(names) else None
        return Json(self._feed.board.groups_document([groups[name] for name in page], next_cursor))

    @_route("/groups/{group}/rounds", openapi.ROUND_PAGE, *LISTING)
    async def rounds(self, request: Request, query: Query) -> Response:
        """A group's rounds, newest first."""
        return await self._page(query, self._group(request).group_id)

    @_route("/rounds", openapi.ROUND_PAGE, *LISTING)
    async def all_rounds(self, _: Request, query: Query) -> Response:
        """The rounds of all groups, newest first."""
        return await self._page(query, None)

    async def _page(self, query: Query, group: str | None) -> Response:
        with_diff = query["view"] != "summary"
        selection = page_query(query, group, MAX_DIFFS if with_diff else MAX_PAGE_ITEMS)
        return Json(_page_document(await self._feed.read(Archive.page, selection, with_diff=with_diff)))

    @_route("/groups/{group}/rounds/{seq}", openapi.ROUND)
    async def round(self, request: Request, _: Query) -> Response:
        """One rebalance round of a group with its diff."""
        group, seq = self._group(request).group_id, openapi.digits(request.path_params["seq"])
        body = await self._feed.read(Archive.round, group, seq) if seq is not None else None
        if body is None:
            raise Problem("round", f"group {group!r} has no such round, or no longer has it")
        return Json(Raw(body))

    @_route("/groups/{group}/timeline", openapi.TIMELINE_PAGE, *PAGING)
    async def timeline(self, request: Request, query: Query) -> Response:
        """Ownership of the partitions over time: owners before the oldest round, then the changes of each round."""
        selection = page_query(query, self._group(request).group_id, MAX_PAGE_ITEMS)
        owners, page, began = await self._feed.read(Archive.timeline, selection)
        since = max(began if page.next is not None else 0, selection.since or 0)
        annotations = self._annotations(selection.group, since, selection.until)
        return Json({**owners, "annotations": annotations, **_page_document(page)})

    @_route(
        "/groups/{group}/forecast",
        openapi.FORECAST,
        *RESTART,
        openapi.integer("scale", "Members that the group gets, in place of a restart.", minimum=1),
    )
    async def forecast(self, request: Request, query: Query) -> Response:
        """Forecast a rolling restart or another number of members: the JSON of `forecast --json` without rounds."""
        change = rolling_restart(query) if query["scale"] is None else ScaleChange(query["scale"])
        return await self._forecast(request, forecasts.forecast, change, simulated_times(query))

    @_route(
        "/groups/{group}/migrate", openapi.MIGRATION, *RESTART, openapi.choice("to", TARGETS, "Only the way there.")
    )
    async def migrate(self, request: Request, query: Query) -> Response:
        """Return the group's readiness for another protocol, by the history, in the JSON of `migrate --json`."""
        targets = TARGETS if query["to"] is None else (query["to"],)
        return await self._forecast(request, forecasts.plan, targets, rolling_restart(query), simulated_times(query))

    @_route(
        "/groups/{group}/what-if",
        openapi.WHAT_IF,
        openapi.text("add", "How many members come, or their names; several with commas."),
        openapi.text("remove", "Members that go, by name; several with commas."),
        openapi.text("partitions", "`orders=24`; several with commas."),
        openapi.text("subscribe", "Topics, with commas, in place of those that are read now."),
        openapi.text("protocol", "Which is `chosen`: `eager`, `cooperative` or `consumer`."),
        openapi.text("assignor", "Which is `chosen`."),
    )
    async def what_if(self, request: Request, query: Query) -> Response:
        """Return the partitions that a change would move under each assignor, as `what-if --json` does."""
        options = query | {name: [word for word in (query[name] or "").split(",") if word] for name in CHANGES}
        return await self._forecast(request, forecasts.what_if, options)

    @_route("/groups/{group}/advice", openapi.ADVICE)
    async def advice(self, request: Request, _: Query) -> Response:
        """Advice for the group, the worst first, from the stored history; the JSON of `advise --json`."""
        group, now_ms = self._group(request).group_id, time.time_ns() // 1_000_000
        past = await self._feed.read(Archive.past, group, now_ms)
        return Json(Raw(await self._workers.run(request, forecasts.advice, group, now_ms, past)))

    async def _forecast(self, request: Request, function: Callable[..., bytes], *arguments: object) -> Response:
        assignment = await self._feed.read(Archive.assignment, self._group(request).group_id)
        return Json(Raw(await self._workers.run(request, function, assignment, *arguments)))

    @_route("/groups/{group}/episodes", openapi.EPISODE_PAGE, *PAGING)
    async def episodes(self, request: Request, query: Query) -> Response:
        """A group's last episodes, newest first: rounds that belong together, as stories.

        `caughtUp` is false while episodes may be missing: after a start, or if their topic is missing or can't be
        read. `from` and `to` apply to the time of opening.
        """
        return await self._stories(query, "episode", self._group(request).group_id)

    @_route("/groups/{group}/incidents", openapi.INCIDENT_PAGE, *PAGING, IS_OPEN)
    async def incidents(self, request: Request, query: Query) -> Response:
        """A group's last incidents, newest first: conditions that somebody should look at.

        `caughtUp` is false while incidents may be missing: after a start, or if their topic is missing or can't be
        read. `from` and `to` apply to the time of opening.
        """
        return await self._stories(query, "incident", self._group(request).group_id)

    @_route("/groups/{group}/compare/{before}/{after}", openapi.COMPARISON)
    async def comparison(self, request: Request, _: Query) -> Response:
        """Two episodes of a group, with the figures of `compare --json`: rebalances, moves, downtime, cost."""
        group = self._group(request).group_id
        before, after = [
            await self._feed.read(Archive.episode, group, request.path_params[name]) for name in ("before", "after")
        ]
        if before is None or after is None:
            raise Problem("episode")
        return Json({"before": before, "after": after, "figures": figure_changes(before, after)})

    @_route("/clusters", openapi.CLUSTERS)
    async def clusters(self, _: Request, __: Query) -> Response:
        """The served clusters, and whether each is ready. Of several, each has its API at `/clusters/NAME/api/v1`."""
        return Json({"clusters": [cluster.document() for cluster in self._clusters]})

    @_route("/lag", openapi.LAGS_ANSWER)
    async def lags(self, _: Request, __: Query) -> Response:
        """Lag of each group in records at its last sample; null if the group has committed no offset."""
        return Json({"groups": {group_id: lag.lag for group_id, lag in self._feed.board.lags().items()}})

    @_route("/groups/{group}/lag", GroupLag, AT)
    async def lag(self, request: Request, query: Query) -> Response:
        """A group's lag over the last hours, with the newest lag by partition; with `at` its samples up to then."""
        lag = self._feed.board.lags().get(self._group(request).group_id, GroupLag())
        return Json(lag if query["at"] is None else lag.until(query["at"]))

    @_route("/groups/{group}", openapi.GROUP, AT)
    async def group(self, request: Request, query: Query) -> Response:
        """One group: its members and its partitions' owners, each with a start time, and the freshness of the data.

        With `at`, the group as of that moment, with `episodes` and `incidents`, without `since` and downtime.
        """
        group, at_ms = self._group(request), query["at"]
        annotations = self._annotations(group.group_id, until=None if at_ms is None else at_ms + 1)
        now = {"standing": self._feed.board.status_document(), "annotations": annotations[:20]}
        if at_ms is None:
            today = start_of_day(time.time_ns() // 1_000_000)
            downtime = self._feed.board.current_stories.downtime.get(group.group_id, DowntimeTotals())
            stored = await self._feed.read(Archive.group, group.group_id, today)
            return Json({"group": group, "downtime": downtime, **now, **stored})
        then = await self._feed.read(Archive.group_at, group, at_ms)
        if then is None:
            raise Problem("group", f"no round of group {group.group_id!r} is kept from before then")
        then["episodes"] = [Raw(add_story_suffix(body, annotations)) for body in then["episodes"]]
        then["incidents"] = list(map(Raw, then["incidents"]))
        return Json(then | now)

    def _annotations(self, group: str | None, since: int = 0, until: int | None = None) -> list[StoredAnnotation]:
        """Return the annotations of a group, or all, in ``[since, until)`` ms, the newest first."""
        annotations, end = self._feed.board.current_stories.annotations, MAX_TIMESTAMP + 1 if until is None else until
        listed = (annotation for annotation in annotations if group is None or fnmatchcase(group, annotation.groups))
        return [annotation for annotation in listed if since <= annotation.timestamp < end]

    @_route(
        "/annotations",
        openapi.ANNOTATIONS,
        openapi.text("group", "Only those that concern this group."),
        *SPAN,
        openapi.integer("limit", "Annotations at most.", minimum=1),
    )
    async def annotations(self, _: Request, query: Query) -> Response:
        """Annotations such as deployments, the newest first; the newest 1000 are kept."""
        selection = page_query(query | {"cursor": None}, query["group"], MAX_ANNOTATIONS)
        annotations = self._annotations(selection.group, selection.since or 0, selection.until)
        return Json({"annotations": annotations[: selection.limit]})

    @_route("/annotations", openapi.PUBLISHED_ANSWER, method="POST", body=AnnotationRequest)
    async def annotate(self, request: Request, _: Query) -> Response:
        """Publish an annotation to the membership topic; the stream copies it to the incidents topic. Needs a token."""
        if CALLER_KEY not in request.scope:
            raise Problem("writing")
        # A page of another origin can't send this type without a preflight, which is refused.
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise Problem("annotation", "send Content-Type: application/json")
        event = parse_request(await request.body())
        try:
            await to_thread.run_sync(self._cluster.publish, event, limiter=self._feed.readers)
        except MonitorError as error:
            raise Problem("publish", str(error)) from error
        return Json({"id": output_id(event, "annotation")}, HTTPStatus.ACCEPTED)

    @_route("/incidents", openapi.INCIDENT_PAGE, openapi.text("group", "Only this group's."), *PAGING, IS_OPEN)
    async def all_incidents(self, _: Request, query: Query) -> Response:
        """Incidents of all groups, newest first, or of one group, which may be unknown to the server."""
        return await self._stories(query, "incident", query["group"])

    @_route(
        "/search",
        openapi.SEARCH_ANSWER,
        openapi.text("q", "A part of a member's name or a topic's; or a partition, such as `orders-17`."),
        openapi.integer("limit", "Matches at most.", minimum=1),
    )
    async def search(self, _: Request, query: Query) -> Response:
        """Members, topics and partitions by name, with the owners of a partition, in the latest assignments."""
        words = (query["q"] or "").strip()
        limit = min(MAX_PAGE_ITEMS, query["limit"] or DEFAULT_LIMIT)
        return Json({"found": await self._feed.read(Archive.search, words, limit) if words else []})

    async def _stories(self, query: Query, sort: Sort, group: str | None) -> Response:
        selection = page_query(query, group, MAX_DIFFS)
        page = await self._feed.read(Archive.stories, sort, selection, opened=query.get("open"))
        if sort == "episode":
            stored_annotations = self._feed.board.current_stories.annotations
            page = page._replace(items=[add_story_suffix(body, stored_annotations) for body in page.items])
        names: dict[str, str] = {}
        for body in reversed(page.items):  # the oldest first, so that the newest name of a member wins
            names |= member_names(body)
        extra_fields = {"names": names, "caughtUp": sort in self._feed.board.status.whole}
        return Json(_page_document(page, f"{sort}s") | extra_fields)

    async def description(self, request: Request) -> Response:
        """The OpenAPI document of this service."""
        openapi.decode_query(request, ())
        return Json(document())

    @_route(
        "/stream",
        str,
        openapi.text("group", "Only this group."),
        *FILTERS,
        openapi.flag("stories", "Episodes and incidents too."),
        openapi.text("Last-Event-ID", "Go on after this event.", location="header"),
        openapi.text("last_event_id", "The same, for clients that can't set headers."),
        media_type="text/event-stream",
    )
    async def stream(self, request: Request, query: Query) -> FeedResponse:
        """Rounds as they happen, as server-sent events.

        Events: `snapshot` (all groups; its id is the position to resume from), `round` (as in the pages of rounds,
        with the current `group`), `group` (a group that changed without a round), `gone` (deleted groups that left the
        history), `progress` (how far the server has read, and whether it is `stale`), `reset` (the position of
        Last-Event-ID is no longer stored). With `stories=true` also `stories` (summaries of the newest episode of
        every group and of the open incidents), `episode` and `incident` (a changed one).
        """
        if sum(len(cluster.board.listeners) for cluster in self._clusters) >= self._max_clients:
            most = f"{self._max_clients} clients follow the feed already, the most that --max-clients allows"
            raise Problem("clients", most)
        wanted = FeedFilter(query["group"], query["cause"], query["min_moved"] or 0, stories=bool(query["stories"]))
        return FeedResponse(self._feed, wanted, self._last_event(request, query), self._access.access_check(request))

    def _last_event(self, request: Request, query: Query) -> LastEvent | None:
        """Return the number of the last round, and of the last story, that a client received; -1 in another history."""
        event_id = request.headers.get("last-event-id") or query["last_event_id"]
        if not event_id:
            return None
        epoch, number, story_number = [*event_id.split(".", 2), "", ""][:3]
        seq = openapi.digits(number)
        if seq is None or epoch != self._feed.board.round_range.epoch:
            return -1, None
        return seq, openapi.digits(story_number)
