"""Forecasts over HTTP: what a change would cost a group as the history knows it.

The history has who owns what. Members' settings, their lists of assignors and partitions that nobody owns are in
the membership log alone, which the commands ``forecast``, ``migrate`` and ``what-if`` read: an answer says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import structs

from assignors.errors import BadInput
from assignors.model import Topic
from streaming.simulation import migration, what_if_query
from streaming.simulation.baseline import baseline_of
from streaming.simulation.changes import RollingRestart, Scale, request_change
from streaming.simulation.forecast import forecast_change, forecast_document
from streaming.simulation.live_group import LiveGroup, MembershipLog
from streaming.simulation.what_if import apply_change, outlooks
from streaming.wire.codec import encode
from streaming.wire.diffs import LatestAssignment

_decoder = msgspec.json.Decoder(LatestAssignment)
_UNSURE: Final = (
    "by the history alone, which has neither members' settings and subscriptions nor partitions that nobody owns: "
    "the commands of these names read them"
)


class NotKnown(BadInput):
    """The history does not have what a forecast begins with."""


def forecast(assignment: bytes | None, change: RollingRestart | Scale, times: Mapping[str, int]) -> bytes:
    """Return the document of ``forecast --json``, without rounds.

    Args:
        assignment: the group's latest assignment.
        change: what is to happen.
        times: in place of what a scenario takes.

    Raises:
        BadInput: it can't be forecast; the message says why.
    """
    group = _group(assignment)
    found = forecast_change(request_change(baseline_of(group), times, change), rounds=False)
    return encode(forecast_document(group.group_id, found))


def plan(
    assignment: bytes | None, targets: tuple[str, ...], restart: RollingRestart, times: Mapping[str, int]
) -> bytes:
    """Return the document of ``migrate --json``; ``happened`` is empty: the group's episodes have it.

    Raises:
        BadInput: as :func:`forecast`.
    """
    group = _group(assignment)
    found = migration.plan_migration(group, targets, restart=restart, times=times)
    return encode(migration.migration_document(group.group_id, found, []))


def what_if(assignment: bytes | None, options: Mapping[str, Any]) -> bytes:
    """Return the document of ``what-if --json``. ``options``: the arguments of ``parse_query``.

    Raises:
        BadInput: as :func:`forecast`.
    """
    group = _group(assignment)
    counts: dict[str, int] = {}
    for one in group.members:
        for topic, numbers in one.owned.items():
            counts[topic] = max(counts.get(topic, 0), 1 + max(numbers))
    group = group._replace(topics={name: Topic(name, count) for name, count in sorted(counts.items())})
    query = what_if_query.parse_query(group, **options)
    change = apply_change(group, query.changes)
    found = list(outlooks(change))
    return encode(what_if_query.what_if_document(change, found, query.chosen(group, found)))


def _group(assignment: bytes | None) -> LiveGroup:
    if assignment is None:
        raise NotKnown("who owns what in this group is not known yet")
    latest = _decoder.decode(assignment)
    group = MembershipLog(latest.group_id).group(latest)
    every = tuple(sorted({topic for one in group.members for topic in one.owned}))
    members = tuple(structs.replace(one, topics=every) for one in group.members)
    return group._replace(members=members, unknown=(_UNSURE,))
