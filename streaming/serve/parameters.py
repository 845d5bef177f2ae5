"""Query parameters of the JSON API, and what they select."""

from typing import Final

from streaming.serve import openapi
from streaming.serve.archive import PageQuery
from streaming.serve.openapi import Query
from streaming.simulation.changes import RollingRestart

#: Items of a page if the query sets no limit.
DEFAULT_LIMIT: Final = 100
#: Parameters of ``what-if`` that are lists of changes.
CHANGES: Final = ("add", "remove", "partitions", "subscribe")
#: The longest time that a parameter may have, ms: a day. Longer times only make the simulation slower.
_MAX_TIME_MS: Final = 86_400_000
FILTERS: Final = (
    openapi.text("cause", "Only rounds of this cause, such as `member.fenced`."),
    openapi.integer("min_moved", "Only rounds that moved at least this many partitions."),
)
AT: Final = openapi.moment("at", "As of this time, as far as the history reaches: RFC 3339 or milliseconds.")
SPAN: Final = (
    openapi.moment("from", "At or after this time: RFC 3339 or milliseconds since the epoch."),
    openapi.moment("to", "Before this time."),
)
PAGING: Final = (
    *SPAN,
    openapi.integer("cursor", "`next` of the page before."),
    openapi.integer("limit", "Rounds a page, at most; the server may give less.", minimum=1),
)
LISTING: Final = (*PAGING, *FILTERS, openapi.choice("view", ("diff", "summary"), "`summary` leaves the diffs out."))
IS_OPEN: Final = openapi.flag("open", "`true`: only those that are open; `false`: the others.")
RESTART: Final = (
    openapi.integer("parallel", "Members that restart at once; a twentieth of the group if left out.", minimum=1),
    openapi.integer("down_ms", "How long a member is away; 20000 if left out.", minimum=1),
    openapi.integer("between_ms", "From the return of some to the stop of the next; 30000 if left out."),
    openapi.integer("heartbeat_ms", "Between heartbeats; 3000, KIP-848 5000 if left out.", minimum=1),
    openapi.integer("processing_ms", "How long members process what one poll gave; 1000 if left out."),
)


def simulated_times(query: Query) -> dict[str, int]:
    """Return the times of a simulation that the query sets, ms."""
    heartbeat_ms, processing_ms = query["heartbeat_ms"], query["processing_ms"]
    times = {"heartbeat_ms": heartbeat_ms, "consumer_heartbeat_ms": heartbeat_ms, "processing_ms": processing_ms}
    return {name: min(value, _MAX_TIME_MS) for name, value in times.items() if value is not None}


def rolling_restart(query: Query) -> RollingRestart:
    """Return the rolling restart that the query describes."""
    names = ("parallel", "down_ms", "between_ms")
    return RollingRestart(**{name: query[name] for name in names if query[name] is not None})


def page_query(query: Query, group: str | None, max_items: int) -> PageQuery:
    """Return the selection of rounds of one group, or of all; ``max_items``: the most rounds of a page."""
    since, until = query["from"], query["to"]
    if since is not None and until is not None and since >= until:
        raise openapi.invalid_parameter("from", "must be before to")
    limit, cause, min_moved = query["limit"] or DEFAULT_LIMIT, query.get("cause"), query.get("min_moved") or 0
    return PageQuery(group, since, until, cause, min_moved, before=query["cursor"], limit=min(max_items, limit))
