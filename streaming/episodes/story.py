"""An episode in one to three sentences: the one place that makes them, for every face."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final

from streaming.wire.codec import rfc3339
from streaming.wire.episodes import Downtime, Episode, EpisodeMembers, Waiting
from streaming.wire.events import Holding
from streaming.wire.names import called, shortened

#: So many members are named one by one.
_NAMED: Final = 3
#: So many partitions are.
_PARTITIONS: Final = 3
_MINUTE_MS: Final = 60_000
#: Shorter times are said with tenths of a second.
_TENTHS_MS: Final = 10_000
#: What a reason says in place of the partitions that it is about.
_PLACES: Final = re.compile(r"\b(?:partitions|tasks)\b")
_DAY: Final = len("2023-11-14")


class _Names:
    """What members of an episode are called; found out when the first is asked for, as most stories name nobody."""

    def __init__(self, members: EpisodeMembers) -> None:
        self._members = members

    def get(self, member_id: str) -> str | None:
        """The name of a member; None where it is known by its id alone."""
        return self._found.get(member_id)

    @cached_property
    def _found(self) -> Mapping[str, str]:
        # Who was replaced has the name of the one that came back: it is told by that one's id.
        pairs = self._members.replaced
        former = {one.left for one in pairs} - {one.joined for one in pairs}
        return called({one: who for one, who in self._members.names.items() if one not in former})


def story(episode: Episode) -> str:
    """What happened, how much moved, and whether it is over. ``episode.story`` is not read. Times are in UTC."""
    names = _Names(episode.members)
    return " ".join(sentence for sentence in (_what(episode, names), _state(episode, names)) if sentence)


def _what(episode: Episode, names: _Names) -> str:
    head = _HEADS[episode.kind](episode, names)
    return f"{head} ({_when(episode)}): {_work(episode)}."


def _when(episode: Episode) -> str:
    opened, last = rfc3339(episode.opened_at), rfc3339(episode.updated_at)
    if opened[:_DAY] != last[:_DAY]:
        return f"{_moment(opened)} to {_moment(last)} UTC"
    start, end = opened[11:16], last[11:16]
    return f"{opened[:_DAY]} {start} UTC" if start == end else f"{opened[:_DAY]} {start} to {end} UTC"


def _moment(stamp: str) -> str:
    return f"{stamp[:_DAY]} {stamp[11:16]}"


def _work(episode: Episode) -> str:
    if not episode.round_count:
        return "no rebalance, nothing moved"
    parts = [_count(episode.round_count, "round")]
    if episode.moved:
        parts.append(f"{_count(episode.moved, 'partition')} moved")
        if episode.moved_again:
            parts.append(f"{episode.moved_again} of them more than once")
    else:
        parts.append("no partition moved from one member to another")
    said = ", ".join(parts)
    return said + _stood_still(episode.downtime)


def _stood_still(downtime: Downtime | None) -> str:
    worst = None if downtime is None else downtime.worst
    if downtime is None or worst is None:
        return ""
    place = f"({worst.topic} {worst.partition})"
    if worst.upper_ms is not None and not downtime.unbounded:
        bounds = f"between {_seconds(worst.lower_ms)} and {_seconds(worst.upper_ms)}"
        return f"; the longest a partition stood still was {bounds} {place}"
    if worst.lower_ms:
        return f"; the longest a partition stood still was at least {_seconds(worst.lower_ms)} {place}"
    return ""


def _state(episode: Episode, names: _Names) -> str:
    waits = _waits(episode.waiting_for, names)
    match episode.status:
        case "settled":
            return "Settled."
        case "storming":
            return "It is not settling."
        case "stuck":
            return f"Stuck: {waits}." if waits else "Stuck."
        case _:
            return f"Settling: {waits}." if waits else "Settling."


def _waits(waiting: Sequence[Waiting], names: _Names) -> str:
    said = "; ".join(_wait(one, names) for one in waiting[:_NAMED])
    if len(waiting) > _NAMED:
        said += f"; and {len(waiting) - _NAMED} more"
    usual = next((one for one in waiting if one.usual_ms is not None), None)
    if usual is None or usual.usual_ms is None:
        return said
    return f"{said}; it usually takes {_seconds(usual.usual_ms)} ({_count(usual.usual_of, 'rebalance')})"


def _wait(one: Waiting, names: _Names) -> str:
    said = one.reason
    places = f"({_partitions(one.partitions)})" if one.partitions else ""
    if one.member_id is not None:
        said = f"waiting for {_name(one.member_id, names)} {said}"
        if places and _PLACES.search(said):
            said, places = _PLACES.sub(places[1:-1], said, 1), ""
    until = f", until {_clock(one.until)}" if one.until else ""
    return f"{said}{f' {places}' if places else ''} since {_clock(one.since)}{until}"


def _clock(timestamp: int) -> str:
    return rfc3339(timestamp)[11:19]


def _partitions(holding: Holding) -> str:
    places = [f"{topic} {number}" for topic, numbers in holding.items() for number in numbers]
    more = len(places) - _PARTITIONS
    return ", ".join(places[:_PARTITIONS]) + (f" and {more} more" if more > 0 else "")


def _first_start(episode: Episode, _: _Names) -> str:
    return f"{episode.group_id} started with {_count(episode.members.after, 'member')}"


def _scale_out(episode: Episode, names: _Names) -> str:
    return f"{_people(episode.members.joined, names)} joined {episode.group_id}, {_sizes(episode)}"


def _scale_in(episode: Episode, names: _Names) -> str:
    return f"{_people(episode.members.left, names)} left {episode.group_id}, {_sizes(episode)}"


def _rolling(episode: Episode, names: _Names) -> str:
    replaced = len(episode.members.replaced)
    of = "" if replaced == episode.members.before else f"{replaced} of "
    return f"Rolling restart of {episode.group_id}, {of}{_count(episode.members.before, 'member')}" + _also(
        episode, names
    )


def _restart(episode: Episode, names: _Names) -> str:
    back = [one.joined for one in episode.members.replaced]
    if len(back) == episode.members.before and len(back) > 1:
        return f"Restart of {episode.group_id}, all {len(back)} members at once" + _also(episode, names)
    return f"{_people(back, names)} of {episode.group_id} went and came back" + _also(episode, names)


def _crash(episode: Episode, names: _Names) -> str:
    lost, back = episode.members.lost, [one.joined for one in episode.members.replaced]
    who = _people([*lost, *back], names)
    said = f"{who} of {episode.group_id} went without leaving"
    if back:
        said += f" and {'came' if not lost else f'{len(back)} came'} back"
    return said


def _overran(episode: Episode, names: _Names) -> str:
    members = episode.members
    who = [*members.lost, *(one.joined for one in members.replaced)]
    said = f"{_people(who, names)} of {episode.group_id} did not poll in time and had to go"
    return f"{said}, and came back" if members.replaced and not members.lost else said


def _bounced(episode: Episode, names: _Names) -> str:
    back = [one.joined for one in episode.members.replaced]
    place = "its place" if len(back) == 1 else "their places"
    return f"{_people(back, names)} of {episode.group_id} restarted and kept {place}"


def _storm(episode: Episode, names: _Names) -> str:
    long = max(1, round((episode.updated_at - episode.opened_at) / _MINUTE_MS))
    said = f"{episode.group_id} has rebalanced {episode.rebalances} times in {_count(long, 'minute')}"
    if episode.repeated is None:
        return said
    who, times = _name(episode.repeated.member_id, names), episode.repeated.times
    period = episode.repeated.period_ms
    every = f", about every {_seconds(period)}" if period else ""
    return f"{said} because of {who}, which was the reason {times} times{every}"


def _shutdown(episode: Episode, _: _Names) -> str:
    return f"{episode.group_id} shut down: {_all(episode.members.before)} left"


def _unknown(episode: Episode, names: _Names) -> str:
    members = episode.members
    parts = [
        f"{_people(ids, names)} {verb}"
        for ids, verb in (
            (members.joined, "joined"),
            (members.left, "left"),
            (members.lost, "went without leaving"),
            (members.gone, "went"),
        )
        if ids
    ]
    said = f"{episode.group_id} rebalanced"
    return f"{said}, why is not known: {', '.join(parts)}" if parts else f"{said}, why is not known"


def _plainly(said: str) -> Callable[[Episode, _Names], str]:
    return lambda episode, _: said.format(
        group=episode.group_id, protocol=episode.protocol, assignor=episode.assignor
    )


_HEADS: Final[Mapping[str, Callable[[Episode, _Names], str]]] = {
    "first-start": _first_start,
    "scale-out": _scale_out,
    "scale-in": _scale_in,
    "rolling-restart": _rolling,
    "restart": _restart,
    "crash": _crash,
    "poll-timeout": _overran,
    "static-bounce": _bounced,
    "subscription-change": _plainly("Members of {group} subscribe to other topics"),
    "partition-growth": _plainly("Topics of {group} have another number of partitions"),
    "assignor-change": _plainly("{group} assigns by {assignor} now"),
    "protocol-migration": _plainly("{group} speaks the {protocol} protocol now"),
    "coordinator-move": _plainly("{group} has another coordinator"),
    "connector-change": _plainly("{group} runs other connectors or tasks"),
    "storm": _storm,
    "shutdown": _shutdown,
    "unknown": _unknown,
}


def _also(episode: Episode, names: _Names) -> str:
    """Members beside those that were replaced."""
    members = episode.members
    gone = [*members.left, *members.lost, *members.gone]
    parts = []
    if members.joined:
        parts.append(f"{_people(members.joined, names)} came anew")
    if gone:
        parts.append(f"{_people(gone, names)} did not come back")
    return f", {' and '.join(parts)}" if parts else ""


def _sizes(episode: Episode) -> str:
    return f"which had {_count(episode.members.before, 'member')} and has {episode.members.after}"


def _all(count: int) -> str:
    return "its only member" if count == 1 else f"all {count} members"


def _people(ids: Sequence[str], names: _Names) -> str:
    if len(ids) > _NAMED or not ids:
        return _count(len(ids), "member")
    said = [_name(one, names) for one in ids]
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"


def _name(member_id: str, names: _Names) -> str:
    return names.get(member_id) or shortened(member_id)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _seconds(ms: int) -> str:
    if ms >= 2 * _MINUTE_MS:
        return f"{ms / _MINUTE_MS:.0f} min"
    return f"{ms / 1000:.1f} s" if ms < _TENTHS_MS else f"{ms / 1000:.0f} s"
