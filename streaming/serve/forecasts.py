"""Forecasts over HTTP: what a change would cost a group as the history knows it, within bounds of size and time.

The history has who owns what. Members' settings, their lists of assignors and partitions that nobody owns are in
the membership log alone, which the commands ``forecast``, ``migrate`` and ``what-if`` read: an answer says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from msgspec import structs

from assignors.errors import BadInput
from assignors.model import Topic
from streaming.serve.problems import Problem
from streaming.simulation import migration, what_if_query
from streaming.simulation.baseline import baseline_of
from streaming.simulation.changes import RollingRestart, Scale, request_change, usual_parallel
from streaming.simulation.forecast import forecast_change, forecast_document
from streaming.simulation.live_group import LiveGroup, MembershipLog
from streaming.simulation.what_if import apply_change as changed_by
from streaming.simulation.what_if import outlooks
from streaming.wire.diffs import LatestAssignment

#: Members times turns of a restart, which is what a forecast's time grows with: some seconds, and partitions.
MAX_WORK: Final = 20_000
MAX_PARTITIONS: Final = 20_000

_decoder = msgspec.json.Decoder(LatestAssignment)
_UNSURE: Final = (
    "by the history alone, which has neither members' settings and subscriptions nor partitions that nobody owns: "
    "the commands of these names read them"
)


def forecast(
    assignment: bytes | None, change: RollingRestart | Scale, times: Mapping[str, int]
) -> dict[str, Any]:
    """What the command ``forecast --json`` answers, without rounds.

    Args:
        assignment: the group's latest assignment.
        change: what is to happen.
        times: in place of what a scenario takes.

    Raises:
        Problem: it can't be forecast, or would take too long; the detail says why.
    """
    group = _group(assignment)
    turns = _turns(group, change) if isinstance(change, RollingRestart) else 1
    most = max(len(group.members), change.to if isinstance(change, Scale) else 0)
    _bounded(group, most * turns)
    try:
        return forecast_document(
            group.group_id, forecast_change(request_change(baseline_of(group), times, change), rounds=False)
        )
    except BadInput as refusal:
        raise _refused(str(refusal)) from refusal


def plan(
    assignment: bytes | None, targets: tuple[str, ...], restart: RollingRestart, times: Mapping[str, int]
) -> dict[str, Any]:
    """What the command ``migrate --json`` answers; ``happened`` is empty: the group's episodes tell it.

    Raises:
        Problem: as :func:`forecast`.
    """
    group = _group(assignment)
    _bounded(group, len(group.members) * _turns(group, restart))
    try:
        found = migration.plan_migration(group, targets, restart=restart, times=times)
    except BadInput as refusal:
        raise _refused(str(refusal)) from refusal
    return migration.migration_document(group.group_id, found, [])


def what_if(assignment: bytes | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of ``what-if --json``. ``options``: the arguments of ``parse_query``.

    Raises:
        Problem: as :func:`forecast`.
    """
    group = _group(assignment)
    counts: dict[str, int] = {}
    for one in group.members:
        for topic, numbers in one.owned.items():
            counts[topic] = max(counts.get(topic, 0), 1 + max(numbers))
    group = group._replace(topics={name: Topic(name, count) for name, count in sorted(counts.items())})
    try:
        question = what_if_query.parse_query(group, **options)
        _bounded(group, 0, more=sum(question.changes.partitions.values()), come=len(question.changes.add))
        change = changed_by(group, question.changes)
        found = list(outlooks(change))
        return what_if_query.what_if_document(change, found, question.chosen(group, found))
    except BadInput as refusal:
        raise _refused(str(refusal)) from refusal


def _group(assignment: bytes | None) -> LiveGroup:
    if assignment is None:
        raise _refused("who owns what in this group is not known yet")
    latest = _decoder.decode(assignment)
    group = MembershipLog(latest.group_id).group(latest)
    every = tuple(sorted({topic for one in group.members for topic in one.owned}))
    members = tuple(structs.replace(one, topics=every) for one in group.members)
    return group._replace(members=members, unknown=(_UNSURE,))


def _turns(group: LiveGroup, restart: RollingRestart) -> int:
    size = len(group.members)
    return -(-size // (restart.parallel or usual_parallel(size)))


def _bounded(group: LiveGroup, work: int, *, more: int = 0, come: int = 0) -> None:
    """``work``: members times turns; ``more``, ``come``: partitions and members that a change adds at most."""
    partitions = more + sum(len(one) for member in group.members for one in member.owned.values())
    members = come + len(group.members)
    if max(work, members) > MAX_WORK or partitions > MAX_PARTITIONS:
        raise _refused(
            f"{members} members and {partitions} partitions: past what is forecast here "
            f"({MAX_WORK} members times turns, {MAX_PARTITIONS} partitions); use the commands of these names"
        )


def _refused(detail: str) -> Problem:
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "forecast", detail)
