"""The story of an episode, in one to three sentences: the one place that writes them, for every surface."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final

from streaming.episodes.reasons import ENFORCED, application_reasons, client_reason, join_reasons
from streaming.episodes.wording import between, clock, count, lasting, moment, name, partitions, people
from streaming.records.codec import rfc3339
from streaming.records.episodes import Bounds, Downtime, Episode, EpisodeMembers, Waiting
from streaming.records.names import called

#: So many waits are told one by one.
_WAITS: Final = 3
_MINUTE_MS: Final = 60_000
#: What a reason says in place of the partitions that it is about.
_PLACES: Final = re.compile(r"\b(?:partitions|tasks)\b")
#: Characters of a client's reason that a story repeats.
_REASON: Final = 120
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
    return (
        f"{said}; it usually takes {lasting(usual.usual_ms)} at most ({count(usual.usual_of, 'rebalance')})"
    )


def _wait(one: Waiting, names: _Names) -> str:
    said = one.reason
    places = f"({partitions(one.partitions)})" if one.partitions else ""
    if one.member_id is not None:
        said = f"waiting for {name(one.member_id, names)} {said}"
        if places and _PLACES.search(said):
            said, places = _PLACES.sub(places[1:-1], said, 1), ""
    until = f", until {clock(one.until)}" if one.until else ""
    return f"{said}{f' {places}' if places else ''} since {clock(one.since)}{until}"


def _probably(episode: Episode) -> str:
    """Return the word of an uncertain head, with its blank; empty where the evidence proves the kind."""
    return "" if episode.sure else "probably "


def _first_start(episode: Episode, _: _Names) -> str:
    members = count(episode.members.after, "member")
    return f"{episode.group_id} {_probably(episode)}started with {members}"


def _scale_out(episode: Episode, names: _Names) -> str:
    joined = people(episode.members.joined, names)
    if episode.sure:
        return f"{joined} joined {episode.group_id}, {_sizes(episode)}"
    return f"{joined} joined {episode.group_id}, probably to scale it out, {_sizes(episode)}"


def _scale_in(episode: Episode, names: _Names) -> str:
    left = people(episode.members.left, names)
    return f"{left} {_probably(episode)}left {episode.group_id}, {_sizes(episode)}"


def _rolling(episode: Episode, names: _Names) -> str:
    replaced = len(episode.members.replaced)
    of = "" if replaced == episode.members.before else f"{replaced} of "
    head = "Rolling restart" if episode.sure else "Probably a rolling restart"
    return f"{head} of {episode.group_id}, {of}{count(episode.members.before, 'member')}" + _also(
        episode, names
    )


def _restart(episode: Episode, names: _Names) -> str:
    back = [one.joined for one in episode.members.replaced]
    if len(back) == episode.members.before and len(back) > 1:
        head = "Restart" if episode.sure else "Probably a restart"
        return f"{head} of {episode.group_id}, all {len(back)} members at once" + _also(episode, names)
    who = people(back, names)
    return f"{who} of {episode.group_id} {_probably(episode)}restarted" + _also(episode, names)


def _crash(episode: Episode, names: _Names) -> str:
    members = episode.members
    lost, back = members.lost, [one.joined for one in members.replaced]
    who = people([*lost, *back], names)
    said = f"{who} of {episode.group_id} {_probably(episode)}crashed"
    if back:
        said += " and came back" if not lost else f" and {len(back)} came back"
    parts = [
        f"{people(ids, names)} {verb}"
        for ids, verb in ((members.left, "left"), (members.gone, "departed"))
        if ids
    ]
    return f"{said}, {' and '.join(parts)}" if parts else said


def _overran(episode: Episode, names: _Names) -> str:
    members = episode.members
    who = people([*members.lost, *(one.joined for one in members.replaced)], names)
    if not episode.sure:
        return (
            f"{who} of {episode.group_id} left and came back, probably after exceeding max.poll.interval.ms"
        )
    said = f"{who} of {episode.group_id} exceeded max.poll.interval.ms"
    return f"{said} and came back" if members.replaced and not members.lost else f"{said} and was removed"


def _bounced(episode: Episode, names: _Names) -> str:
    back = [one.joined for one in episode.members.replaced]
    place = "its place" if len(back) == 1 else "their places"
    return f"{people(back, names)} of {episode.group_id} restarted and kept {place}"


def _storm(episode: Episode, names: _Names) -> str:
    times = f"rebalanced {count(episode.rebalances, 'time')} in {_minutes(episode)}"
    members = episode.members
    if not (members.joined or members.left or members.lost or members.gone or members.replaced):
        times = (
            f"had {count(episode.rebalances, 'rebalance')} without a membership change in {_minutes(episode)}"
        )
    said = f"{episode.group_id} {times}"
    if episode.repeated is not None:
        again = episode.repeated
        every = f", about every {lasting(again.period_ms)}" if again.period_ms else ""
        said += f" because of {name(again.member_id, names)}: {count(again.times, 'time')}{every}"
    return said + _client_reason(episode)


def _shared(episode: Episode, names: _Names) -> str:
    again = episode.repeated
    back = [one.joined for one in episode.members.replaced]
    who = people([again.member_id] if again is not None else back, names)
    often = f" {count(again.times, 'time')}" if again is not None else " again and again"
    every = f", about every {lasting(again.period_ms)}" if again is not None and again.period_ms else ""
    rejoined = f"rejoined{often} under new member ids{every}"
    if episode.sure:
        return f"Two processes share the instance id {who} in {episode.group_id}: it {rejoined}"
    return f"{who} of {episode.group_id} {rejoined}: probably two processes share its instance id"


def _minutes(episode: Episode) -> str:
    return count(max(1, round((episode.updated_at - episode.opened_at) / _MINUTE_MS)), "minute")


def _shutdown(episode: Episode, _: _Names) -> str:
    members = episode.members
    number = len(members.left) + len(members.lost) + len(members.gone) + members.omitted
    if not number:
        return f"{episode.group_id} was deleted"
    return f"{episode.group_id} {_probably(episode)}shut down: {_all(number)} left"


def _requested(episode: Episode, names: _Names) -> str:
    own = application_reasons(episode.evidence)
    who = [one for item in episode.evidence for one in item.member_ids if client_reason(item.reason) in own]
    ids = list(dict.fromkeys(who))
    said = f"{people(ids, names) if ids else 'A member'} of {episode.group_id} requested a rebalance"
    return f"{said}: {_quoted(own)}" if own and own != [ENFORCED] else f"{said} (enforceRebalance)"


def _unknown(episode: Episode, names: _Names) -> str:
    members = episode.members
    if not members.after and not members.before and not members.joined:
        return f"{episode.group_id} has no members"
    parts = [
        f"{people(ids, names)} {verb}"
        for ids, verb in (
            ([one.joined for one in members.replaced], "departed and came back"),
            (members.joined, "joined"),
            (members.left, "left"),
            (members.lost, "crashed"),
            (members.gone, "departed"),
        )
        if ids
    ]
    said = f"{episode.group_id} rebalanced, cause unknown"
    return f"{said}: {', '.join(parts)}" if parts else f"{said}{_client_reason(episode)}"


def _client_reason(episode: Episode) -> str:
    own = application_reasons(episode.evidence) or join_reasons(episode.evidence)
    return f"; client reason: {_quoted(own)}" if own else ""


def _quoted(reasons: Sequence[str]) -> str:
    more = f" and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    return f"“{reasons[0][:_REASON]}”{more}"


def _plainly(said: str) -> Callable[[Episode, _Names], str]:
    def head(episode: Episode, _: _Names) -> str:
        return said.format(
            group=episode.group_id,
            protocol=episode.protocol,
            assignor=episode.assignor,
            probably=_probably(episode),
        )

    return head


_HEADS: Final[Mapping[str, Callable[[Episode, _Names], str]]] = {
    "first-start": _first_start,
    "scale-out": _scale_out,
    "scale-in": _scale_in,
    "rolling-restart": _rolling,
    "restart": _restart,
    "crash": _crash,
    "poll-timeout": _overran,
    "static-bounce": _bounced,
    "subscription-change": _plainly("Members of {group} changed their subscription"),
    "partition-growth": _plainly("Topics of {group} got another number of partitions"),
    "assignor-change": _plainly("{group} changed its assignor to {assignor}"),
    "protocol-migration": _plainly("{group} migrated to the {protocol} protocol"),
    "coordinator-move": _plainly("The coordinator of {group} {probably}moved, its members rejoined"),
    "connector-change": _plainly("{group} changed its connectors or tasks"),
    "app-requested": _requested,
    "duplicate-instance-id": _shared,
    "storm": _storm,
    "shutdown": _shutdown,
    "unknown": _unknown,
}


def _also(episode: Episode, names: _Names) -> str:
    """Return the members beside those that were replaced."""
    members = episode.members
    gone = [*members.left, *members.lost, *members.gone]
    parts = []
    if members.joined:
        parts.append(f"{people(members.joined, names)} joined")
    if gone:
        parts.append(f"{people(gone, names)} did not come back")
    return f", {' and '.join(parts)}" if parts else ""


def _sizes(episode: Episode) -> str:
    return f"which had {count(episode.members.before, 'member')} and has {episode.members.after}"


def _all(count: int) -> str:
    return "its only member" if count == 1 else f"all {count} members"
