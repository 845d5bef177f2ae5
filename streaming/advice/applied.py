"""Advice that was followed: deploys before and after the change, beside the forecast."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from streaming.advice.clients import COOPERATIVE
from streaming.advice.history import DEPLOYS, GroupHistory, fact, listed
from streaming.advice.model import Finding, Replay, Saving
from streaming.advice.replay import Replayer
from streaming.episodes.story import bounds, count, duration, moment
from streaming.records.episodes import Bounds, Episode

#: Deploys, those that static members survive without a rebalance included.
_COMPARED: Final = DEPLOYS | {"static-bounce"}


class AppliedChange(NamedTuple):
    """A change that a rule advises: its name for people, its way to rebalance, and how an episode shows it."""

    rule: str
    what: str
    way: str
    is_before: Callable[[Episode], bool]
    is_after: Callable[[Episode], bool]


def _instance_ids(episode: Episode) -> list[bool]:
    return [bool(one.group_instance_id) for one in episode.members.names.values()]


_CHANGES: Final = (
    AppliedChange(
        "cooperative-assignor",
        "cooperative",
        "cooperative",
        lambda one: one.protocol == "classic" and one.assignor not in (None, COOPERATIVE),
        lambda one: one.protocol == "classic" and one.assignor == COOPERATIVE,
    ),
    AppliedChange(
        "consumer-protocol",
        "KIP-848",
        "consumer",
        lambda one: one.protocol == "classic",
        lambda one: one.protocol == "consumer",
    ),
    AppliedChange(
        "static-membership",
        "static members",
        "static",
        lambda one: bool(one.members.names) and not any(_instance_ids(one)),
        lambda one: bool(one.members.names) and all(_instance_ids(one)),
    ),
)


def applied(history: GroupHistory, replayer: Replayer) -> Iterator[tuple[str, Finding]]:
    """Yield ``RULE/applied`` and what the change brought, for each that lies between two deploys of the window."""
    deploys = [one for one in history.of_kinds(_COMPARED) if one.downtime is not None or not one.rebalances]
    for change in _CHANGES:
        after = [one for one in deploys if change.is_after(one)]
        before = [one for one in deploys if change.is_before(one)]
        if after and before and after[-1].episode > before[0].episode:
            yield f"{change.rule}/applied", _compared(change, before, after, replayer)


def _compared(
    change: AppliedChange, before: Sequence[Episode], after: Sequence[Episode], replayer: Replayer
) -> Finding:
    was, now = _per_deploy(before), _per_deploy(after)
    forecast = replayer.saving(Replay(before, way=change.way))
    text = f"{bounds(now)} instead of {bounds(was)} a deploy, all partitions together"
    if forecast is not None and forecast.downtime_ms is not None:
        text += f" (forecast: {duration(forecast.downtime_ms[1] // len(forecast.episodes))})"
    deploys = (
        f"{count(len(before), 'deploy')} before ({listed(before)}), {len(after)} after ({listed(after)})"
    )
    since = f"{change.what} since {moment(after[-1].opened_at)} UTC"
    is_better = now[1] is not None and now[1] < was[0]
    return Finding(
        "info",
        [fact(f"{since}: {text}; {deploys}", [*before, *after], beforeMs=was[0], afterMs=now[0])],
        "Nothing: it helped" if is_better else "Nothing: the bounds overlap, so no gain is proven yet",
        saving=Saving(
            text=text, measured_ms=now, downtime_ms=None if forecast is None else forecast.downtime_ms
        ),
        confidence="high" if is_better else "low",
    )


def _per_deploy(episodes: Sequence[Episode]) -> Bounds:
    """Return the mean bounds of the downtime of a deploy, all partitions together."""
    downtimes = [(0, 0) if one.downtime is None else one.downtime.total_ms for one in episodes]
    uppers = [upper for _, upper in downtimes if upper is not None]
    lower = sum(lower for lower, _ in downtimes) // len(downtimes)
    return lower, sum(uppers) // len(uppers) if len(uppers) == len(downtimes) else None
