"""An episode in one to three sentences: the one place that makes them, for every face."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final

from streaming.episodes.wording import between, clock, count, lasting, moment, name, partitions, people
from streaming.wire.codec import rfc3339
from streaming.wire.episodes import Bounds, Downtime, Episode, EpisodeMembers, Waiting
from streaming.wire.names import called

#: So many waits are told one by one.
_WAITS: Final = 3
_MINUTE_MS: Final = 60_000
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
        return called_in(self._members)


def called_in(members: EpisodeMembers) -> dict[str, str]:
    """What the story of an episode calls its members, by member id.

    Who was replaced has the name of the one that came back: it is told by that one's id.
    """
    former = {one.left for one in members.replaced} - {one.joined for one in members.replaced}
    return called({one: who for one, who in members.names.items() if one not in former})


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
        return f"{moment(episode.opened_at)} to {moment(episode.updated_at)} UTC"
    start, end = opened[11:16], last[11:16]
    return f"{opened[:_DAY]} {start} UTC" if start == end else f"{opened[:_DAY]} {start} to {end} UTC"


def _work(episode: Episode) -> str:
    if not episode.round_count:
        return "no rebalance, nothing moved" + _down(episode.downtime)
    parts = [count(episode.round_count, "round")]
    if episode.moved:
        parts.append(f"{count(episode.moved, 'partition')} moved")
        if episode.moved_again:
            parts.append(f"{episode.moved_again} of them more than once")
    else:
        parts.append("no partition moved from one member to another")
    return ", ".join(parts) + _down(episode.downtime)


def _down(downtime: Downtime | None) -> str:
    """The longest stop, and the sum and number of stops of the partition that was down the longest."""
    worst = None if downtime is None else downtime.worst
    if downtime is None or worst is None:
        return ""
    least, most = downtime.longest_ms
    if most is None and not least:
        return ""
    place = f"{worst.topic} {worst.partition}"
    said = f"; the longest time that a partition had no consumer was {between(downtime.longest_ms)}"
    if worst.stops == (1, 1):
        return f"{said} ({place})"
    return f"{said}; {place} had none {_times(worst.stops)}, for {between(worst.total_ms)} in all"


def _times(stops: Bounds) -> str:
    least, most = stops
    if most is None:
        return f"at least {count(least, 'time')}"
    return count(most, "time") if least == most else f"{least} to {count(most, 'time')}"


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
    said = "; ".join(_wait(one, names) for one in waiting[:_WAITS])
    if len(waiting) > _WAITS:
        said += f"; and {len(waiting) - _WAITS} more"
    usual = next((one for one in waiting if one.usual_ms is not None), None)
    if usual is None or usual.usual_ms is None:
        return said
    return f"{said}; it usually takes {lasting(usual.usual_ms)} ({count(usual.usual_of, 'rebalance')})"


def _wait(one: Waiting, names: _Names) -> str:
    said = one.reason
    places = f"({partitions(one.partitions)})" if one.partitions else ""
    if one.member_id is not None:
        said = f"waiting for {name(one.member_id, names)} {said}"
        if places and _PLACES.search(said):
            said, places = _PLACES.sub(places[1:-1], said, 1), ""
    until = f", until {clock(one.until)}" if one.until else ""
    return f"{said}{f' {places}' if places else ''} since {clock(one.since)}{until}"


def _first_start(episode: Episode, _: _Names) -> str:
    return f"{episode.group_id} started with {count(episode.members.after, 'member')}"


def _scale_out(episode: Episode, names: _Names) -> str:
    return f"{people(episode.members.joined, names)} joined {episode.group_id}, {_sizes(episode)}"


def _scale_in(episode: Episode, names: _Names) -> str:
    return f"{people(episode.members.left, names)} left {episode.group_id}, {_sizes(episode)}"


def _rolling(episode: Episode, names: _Names) -> str:
    replaced = len(episode.members.replaced)
    of = "" if replaced == episode.members.before else f"{replaced} of "
    return f"Rolling restart of {episode.group_id}, {of}{count(episode.members.before, 'member')}" + _also(
        episode, names
    )


def _restart(episode: Episode, names: _Names) -> str:
    back = [one.joined for one in episode.members.replaced]
    if len(back) == episode.members.before and len(back) > 1:
        return f"Restart of {episode.group_id}, all {len(back)} members at once" + _also(episode, names)
    return f"{people(back, names)} of {episode.group_id} went and came back" + _also(episode, names)


def _crash(episode: Episode, names: _Names) -> str:
    lost, back = episode.members.lost, [one.joined for one in episode.members.replaced]
    who = people([*lost, *back], names)
    said = f"{who} of {episode.group_id} went without leaving"
    if back:
        said += f" and {'came' if not lost else f'{len(back)} came'} back"
    return said


def _overran(episode: Episode, names: _Names) -> str:
    members = episode.members
    who = [*members.lost, *(one.joined for one in members.replaced)]
    if not episode.sure:
        return f"{people(who, names)} of {episode.group_id} left and came back, most likely for not polling in time"
    said = f"{people(who, names)} of {episode.group_id} did not poll in time and had to go"
    return f"{said}, and came back" if members.replaced and not members.lost else said


def _bounced(episode: Episode, names: _Names) -> str:
    back = [one.joined for one in episode.members.replaced]
    place = "its place" if len(back) == 1 else "their places"
    return f"{people(back, names)} of {episode.group_id} restarted and kept {place}"


def _storm(episode: Episode, names: _Names) -> str:
    long = max(1, round((episode.updated_at - episode.opened_at) / _MINUTE_MS))
    said = f"{episode.group_id} has rebalanced {episode.rebalances} times in {count(long, 'minute')}"
    if episode.repeated is None:
        return said
    who, times = name(episode.repeated.member_id, names), episode.repeated.times
    period = episode.repeated.period_ms
    every = f", about every {lasting(period)}" if period else ""
    return f"{said} because of {who}, which was the reason {times} times{every}"


def _shutdown(episode: Episode, _: _Names) -> str:
    return f"{episode.group_id} shut down: {_all(episode.members.before)} left"


def _unknown(episode: Episode, names: _Names) -> str:
    members = episode.members
    parts = [
        f"{people(ids, names)} {verb}"
        for ids, verb in (
            ([one.joined for one in members.replaced], "went and came back"),
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
        parts.append(f"{people(members.joined, names)} came anew")
    if gone:
        parts.append(f"{people(gone, names)} did not come back")
    return f", {' and '.join(parts)}" if parts else ""


def _sizes(episode: Episode) -> str:
    return f"which had {count(episode.members.before, 'member')} and has {episode.members.after}"


def _all(count: int) -> str:
    return "its only member" if count == 1 else f"all {count} members"
