"""Results of followed advice: deploys before and after the last change of the way to rebalance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

from streaming.advice.clients import COOPERATIVE
from streaming.advice.history import DEPLOYS, GroupHistory, fact, listed
from streaming.advice.model import Finding, Replay, Saving
from streaming.advice.replay import Replayer
from streaming.episodes.story import bounds, count, duration, moment
from streaming.records.episodes import Bounds, Episode

#: Kinds of deploys, including those without a rebalance thanks to static members.
_COMPARED: Final = DEPLOYS | {"static-bounce"}
#: A way to rebalance → the rule that recommends it.
_RULES: Final = {"cooperative": "cooperative-assignor", "consumer": "consumer-protocol", "static": "static-membership"}


def applied(history: GroupHistory, replayer: Replayer) -> Iterator[tuple[str, Finding]]:
    """Yield ``RULE/applied`` with its result, if the latest deploys had another way to rebalance than earlier ones."""
    deploys = [
        episode for episode in history.of_kinds(_COMPARED) if episode.downtime is not None or not episode.rebalances
    ]
    ways = [_way(episode) for episode in deploys]
    number = sum(1 for _ in takewhile(lambda way: way == ways[0], ways))
    if 0 < number < len(deploys) and ways[0] in _RULES:
        finding = _compared(ways[0], deploys[number:], deploys[:number], replayer)
        yield f"{_RULES[ways[0]]}/applied", finding


def _way(episode: Episode) -> str:
    names = episode.members.names.values()
    if names and all(member.group_instance_id for member in names):
        return "static"
    if episode.protocol == "consumer":
        return "consumer"
    return "cooperative" if episode.assignor == COOPERATIVE else "eager"


def _compared(way: str, before: Sequence[Episode], after: Sequence[Episode], replayer: Replayer) -> Finding:
    was, now = _per_deploy(before), _per_deploy(after)
    forecast = replayer.saving(Replay(before, way=way))
    text = f"{bounds(now)} instead of {bounds(was)} a deploy, all partitions together"
    if forecast is not None and forecast.downtime_ms is not None:
        text += f" (forecast: {duration(forecast.downtime_ms[1] // len(forecast.episodes))})"
    deploys = f"{count(len(before), 'deploy')} before ({listed(before)}), {len(after)} after ({listed(after)})"
    since = f"{way} since {moment(after[-1].opened_at)} UTC"
    is_better = now[1] is not None and now[1] < was[0]
    return Finding(
        "info",
        [fact(f"{since}: {text}; {deploys}", [*before, *after], beforeMs=was[0], afterMs=now[0])],
        "Nothing: it helped" if is_better else "Nothing: the bounds overlap, so no gain is proven yet",
        saving=Saving(text=text, downtime_ms=None if forecast is None else forecast.downtime_ms, measured_ms=now),
        confidence="high" if is_better else "low",
    )


def _per_deploy(episodes: Sequence[Episode]) -> Bounds:
    downtimes = [(0, 0) if episode.downtime is None else episode.downtime.total_ms for episode in episodes]
    uppers = [upper for _, upper in downtimes if upper is not None]
    lower = sum(lower for lower, _ in downtimes) // len(downtimes)
    return lower, sum(uppers) // len(uppers) if len(uppers) == len(downtimes) else None
