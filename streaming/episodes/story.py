"""Story of an episode: its kind, its cost, and what the group still waits for, in one or two sentences.

The story does not name the group, as every reader shows the group's name beside the story. Times are in UTC.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from streaming.episodes.reasons import ENFORCED, STREAMS_STAYS_REASON, application_reasons, client_reason, join_reasons
from streaming.records.episodes import Bounds, Cost, Downtime, Episode, EpisodeMembers, Rebalancing, Repeated, Waiting
from streaming.records.events import OFFSETS_RESET, Holding
from streaming.records.names import display_names, shorten_random_id

#: The most members, partitions and waits that a text lists one by one.
_MAX_LISTED_NAMES: Final = 3
_MINUTE_MS: Final = 60_000
_SECOND_MS: Final = 1000
#: Shorter durations are shown with tenths of a second.
_MAX_MS_WITH_TENTHS: Final = 10_000
#: Words of a reason that the list of partitions replaces.
_PARTITIONS_OR_TASKS: Final = re.compile(r"\b(?:partitions|tasks)\b")
#: The most characters of a client's reason that a text quotes.
_MAX_REASON_CHARACTERS: Final = 120


def count(number: int, what: str) -> str:
    """Return a number with its noun, such as ``1 member`` or ``2 members``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def duration(ms: int) -> str:
    """Return a duration as text, such as ``46 ms``, ``1.5 s``, ``40 s`` or ``12 min``."""
    if ms >= 2 * _MINUTE_MS:
        return f"{ms / _MINUTE_MS:.0f} min"
    if ms < _SECOND_MS:
        return f"{ms} ms"
    return f"{ms / 1000:.1f} s" if ms < _MAX_MS_WITH_TENTHS else f"{ms / 1000:.0f} s"


def bounds(limits: Bounds) -> str:
    """Return bounds of a duration as text: ``≥ 46 ms``, ``at most 3.1 s``, ``3.1 s`` or ``1.5 s to 3.1 s``."""
    least, most = limits
    if most is None:
        return f"≥ {duration(least)}"
    if not least:
        return f"at most {duration(most)}"
    lower_text, upper_text = duration(least), duration(most)
    return upper_text if lower_text == upper_text else f"{lower_text} to {upper_text}"


def moment(timestamp: int) -> str:
    """Return a time (ms) as text in UTC, such as ``2023-11-14 22:13``."""
    return f"{_utc_time(timestamp):%Y-%m-%d %H:%M}"


def _clock(timestamp: int) -> str:
    return f"{_utc_time(timestamp):%H:%M:%S}"


def _utc_time(timestamp: int) -> datetime:
    return datetime.fromtimestamp(timestamp / 1000, tz=UTC)


def listed(texts: Iterable[str], most: int) -> str:
    """Return the first ``most`` texts, and how many more there are, as ``c1, c2 and 3 more``."""
    texts = list(texts)
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def partition_list(holding: Holding) -> str:
    """Return partitions as text, such as ``orders 1, orders 2, orders 3 and 5 more``."""
    return listed((f"{topic} {number}" for topic, numbers in holding.items() for number in numbers), _MAX_LISTED_NAMES)


def _name(member_id: str, names: Mapping[str, str]) -> str:
    return names.get(member_id) or shorten_random_id(member_id)


def member_list(member_ids: Sequence[str], names: Mapping[str, str]) -> str:
    """Return members' names as text, such as ``pay, ship and mail``, or ``12 members`` for more than three."""
    if len(member_ids) > _MAX_LISTED_NAMES or not member_ids:
        return count(len(member_ids), "member")
    listed = [_name(member_id, names) for member_id in member_ids]
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"


def repetition_text(repetition: Repeated) -> str:
    """Return the number of rebalances that a member triggered as text, such as ``8 times, about every 5.0 s``."""
    interval_text = f", about every {duration(repetition.period_ms)}" if repetition.period_ms else ""
    return f"{count(repetition.times, 'time')}{interval_text}"


def quote_reasons(reasons: Sequence[str]) -> str:
    """Return the first client reason in quotes, and the number of further reasons."""
    more = f" and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    return f"“{reasons[0][:_MAX_REASON_CHARACTERS]}”{more}"


class _DisplayNames(dict[str, str]):
    """Names of an episode's members by member id; ``is_counted``: the member counts before and after are exact."""

    is_counted = True


def display_names_of(members: EpisodeMembers) -> dict[str, str]:
    """Return the names that an episode's story uses, by member id.

    A replaced member shares the name of its replacement, so the story uses the replacement's id.
    """
    replaced_ids = {pair.left for pair in members.replaced} - {pair.joined for pair in members.replaced}
    return display_names({member_id: who for member_id, who in members.names.items() if member_id not in replaced_ids})


def story(episode: Episode, *, is_counted: bool = True, has_moves: bool = True, reason_text: str = "") -> str:
    """Return the story of an episode, computed from its other fields.

    ``is_counted``: the numbers of members are exact. ``has_moves``: the moved partitions are known. ``reason_text``:
    text about the cluster incident that explains the episode, in place of its kind.
    """
    names = _DisplayNames(display_names_of(episode.members))
    names.is_counted = is_counted
    if episode.rebalancing is not None and not episode.round_count:
        return f"{_rebalancing_text(episode.rebalancing, names)}."
    head = reason_text or _head_text(episode, names)
    if reason_text and (changes := _changes(episode.members, names, "departed", "departed and came back")):
        head += f"; {changes}"
    head += f", {_time_text(episode)}" if episode.opened_at else ""
    cost = _cost_text(episode, has_moves=has_moves)
    head += f": {cost}." if cost else "."
    status = _status(episode, names)
    return f"{head} {status}" if status else head


def _time_text(episode: Episode) -> str:
    opened, last = moment(episode.opened_at), moment(episode.updated_at)
    if opened == last:
        return f"{opened} UTC"
    day = last.partition(" ")[0]
    return f"{opened}–{last.removeprefix(f'{day} ') if opened.startswith(day) else last} UTC"


def _cost_text(episode: Episode, *, has_moves: bool) -> str:
    parts: list[str] = []
    if has_moves and episode.moved:
        parts = [f"{count(episode.moved, 'partition')} moved"]
        if episode.moved_again:
            parts.append(f"{episode.moved_again} more than once")
    elif has_moves or not episode.round_count:
        parts = ["no partition moved" if episode.round_count else "no rebalance"]
    return ", ".join([*_delay_texts(episode.cost), *parts, *_downtime_text(episode.downtime)])


def _delay_texts(cost: Cost | None) -> list[str]:
    """Return texts such as ``48,120 messages delayed up to 31 s`` and ``caught up at 09:22:10``, as far as known."""
    if cost is None or cost.delayed_messages in ((0, 0), (0, None)):
        return []
    least, most = cost.delayed_messages
    number = f"≥ {least:,}" if most is None else f"{most:,}" if least == most else f"{least:,} to {most:,}"
    upper_text = cost.worst_delay_ms[1]
    text = f"{number if least else f'at most {most:,}'} messages delayed"
    parts = [text if upper_text is None else f"{text} up to {duration(upper_text)}"]
    return parts if cost.caught_up_at is None else [*parts, f"caught up at {_clock(cost.caught_up_at)}"]


def _downtime_text(downtime: Downtime | None) -> list[str]:
    if downtime is None or downtime.worst is None or downtime.longest_ms == (0, 0):
        return []
    worst, has_several_stops = downtime.worst, downtime.stops != (1, 1)
    place = f"{worst.topic} {worst.partition}"
    unbounded_text = f"no upper limit known for {count(downtime.unbounded, 'partition')}"
    if downtime.longest_ms[1] is None:
        if not downtime.longest_ms[0]:
            return [unbounded_text]
        return [f"down {bounds(downtime.longest_ms)} ({place})", unbounded_text]
    each = "each down" if downtime.partitions > 1 else "down"
    parts = [f"{each} {bounds(downtime.longest_ms)}"]
    return [*parts, f"{bounds(downtime.total_ms)} in all"] if has_several_stops else [f"{parts[0]} ({place})"]


def _status(episode: Episode, names: _DisplayNames) -> str:
    if episode.rebalancing is not None:
        return f"{_rebalancing_text(episode.rebalancing, names)}."
    if episode.status == "settled":
        return ""
    if episode.status == "storming":
        return "Not settling."
    if episode.status == "catching-up":
        return "Catching up."
    head, waits = episode.status.capitalize(), _waits_text(episode.waiting_for, names)
    return f"{head}: {waits}." if waits else f"{head}."


def _rebalancing_text(now: Rebalancing, names: _DisplayNames) -> str:
    """Return a text such as ``Rebalancing since 23:25:02 (reason): waiting for pay and ship, until 23:28:02``."""
    text = f"Rebalancing since {_clock(now.since)}"
    if now.reason:
        text += f" ({now.reason[:_MAX_REASON_CHARACTERS]})"
    if now.awaited:
        text += f": waiting for {member_list(now.awaited, names)}"
        if now.until:
            text += f", at most until {_clock(max(now.until.values()))}"
    return f"{text}; no commits since" if now.commits_stopped else text


def _waits_text(waiting: Sequence[Waiting], names: _DisplayNames) -> str:
    text = "; ".join(_wait_text(wait, names) for wait in waiting[:_MAX_LISTED_NAMES])
    if len(waiting) > _MAX_LISTED_NAMES:
        text += f"; and {len(waiting) - _MAX_LISTED_NAMES} more"
    for wait in waiting:
        if wait.usual_ms is not None:
            return f"{text}; usually at most {duration(wait.usual_ms)} ({count(wait.usual_of, 'rebalance')})"
    return text


def _wait_text(wait: Waiting, names: _DisplayNames) -> str:
    text = wait.reason
    partitions = f"({partition_list(wait.partitions)})" if wait.partitions else ""
    if wait.member_id is not None:
        text = f"waiting for {_name(wait.member_id, names)} {text}"
        if partitions and _PARTITIONS_OR_TASKS.search(text):
            text, partitions = _PARTITIONS_OR_TASKS.sub(partitions[1:-1], text, 1), ""
    until = f", until {_clock(wait.until)}" if wait.until else ""
    return f"{text}{f' {partitions}' if partitions else ''} since {_clock(wait.since)}{until}"


def _add_probably(episode: Episode, text: str) -> str:
    return text if episode.sure else f"Probably {text[0].lower()}{text[1:]}"


def _scaling_text(episode: Episode, names: _DisplayNames) -> str:
    members, out = episode.members, episode.kind == "scale-out"
    changed = f"{member_list(members.joined, names)} joined" if out else f"{member_list(members.left, names)} left"
    sizes = f" from {members.before} to {count(members.after, 'member')}" if names.is_counted else ""
    return _add_probably(episode, f"Scaled {'out' if out else 'in'}{sizes} ({changed})")


def _restart_text(episode: Episode, names: _DisplayNames) -> str:
    members = episode.members
    returned, total_text = [pair.joined for pair in members.replaced], count(members.before, "member")
    if episode.kind == "rolling-restart":
        subject = total_text if len(returned) == members.before else f"{len(returned)} of {total_text}"
        head = f"{'Rolling' if episode.sure else 'Probably a rolling'} restart"
    else:
        subject = f"all {total_text} at once" if len(returned) == members.before > 1 else member_list(returned, names)
        head = "Restart" if episode.sure else "Probably a restart"
    if names.is_counted or len(returned) == 1:
        head += f" of {subject}"
    departed = [*members.left, *members.lost, *members.gone]
    others = _member_verbs(((members.joined, "joined"), (departed, "did not come back")), names)
    return f"{head} ({others})" if others else head


def _crash_text(episode: Episode, names: _DisplayNames) -> str:
    members = episode.members
    lost, returned = members.lost, [pair.joined for pair in members.replaced]
    head = f"{'Crash' if episode.sure else 'Probably a crash'} of {member_list([*lost, *returned], names)}"
    others = [f"{len(returned)} came back" if lost else "came back"] if returned else []
    others += filter(None, [_member_verbs(((members.left, "left"), (members.gone, "departed")), names)])
    return f"{head} ({', '.join(others)})" if others else head


def _poll_timeout_text(episode: Episode, names: _DisplayNames) -> str:
    members = episode.members
    who = member_list([*members.lost, *(pair.joined for pair in members.replaced)], names)
    if not episode.sure:
        return f"Probably removed {who} after max.poll.interval.ms (left and came back)"
    returned = " (came back)" if members.replaced and not members.lost else ""
    return f"Removed {who} after max.poll.interval.ms{returned}"


def _storm_text(episode: Episode, names: _DisplayNames) -> str:
    members, minutes = episode.members, max(1, round((episode.updated_at - episode.opened_at) / _MINUTE_MS))
    head = f"Rebalanced {count(episode.rebalances, 'time')} in {count(minutes, 'minute')}"
    if not (members.joined or members.left or members.lost or members.gone or members.replaced):
        head += " without a membership change"
    if (repetition := episode.repeated) is not None:
        head += f" because of {_name(repetition.member_id, names)} ({repetition_text(repetition)})"
    return head + _client_reason_text(episode)


def _shared_instance_text(episode: Episode, names: _DisplayNames) -> str:
    repetition = episode.repeated
    returned = [pair.joined for pair in episode.members.replaced] if repetition is None else [repetition.member_id]
    repetition_phrase = "again and again" if repetition is None else repetition_text(repetition)
    who = f"two processes with the instance id {member_list(returned, names)}"
    return f"{'Conflict' if episode.sure else 'Probably a conflict'} of {who} (rejoined {repetition_phrase})"


def _shutdown_text(episode: Episode, _: _DisplayNames) -> str:
    members = episode.members
    number = len(members.left) + len(members.lost) + len(members.gone) + members.omitted
    if not number:
        return "Deleted"
    who = "the only member" if number == 1 else f"all {number} members"
    return _add_probably(episode, f"Shut down ({who} left)")


def _requested_text(episode: Episode, names: _DisplayNames) -> str:
    own = application_reasons(episode.evidence)
    who = [member_id for item in episode.evidence for member_id in item.member_ids if client_reason(item.reason) in own]
    ids = list(dict.fromkeys(who))
    reason = quote_reasons(own) if own and own != [ENFORCED] else "enforceRebalance"
    return f"Rebalance requested by {member_list(ids, names) if ids else 'a member'} ({reason})"


def _unknown_text(episode: Episode, names: _DisplayNames) -> str:
    members = episode.members
    if not members.after and not members.before and not members.joined:
        return "No members"
    stays_in_group = any(item.reason == STREAMS_STAYS_REASON for item in episode.evidence)
    crash = STREAMS_STAYS_REASON if stays_in_group else "crashed"
    changes = _changes(members, names, crash, f"{crash}; came back" if stays_in_group else "departed and came back")
    return f"Cause unknown ({changes})" if changes else f"Cause unknown{_client_reason_text(episode)}"


def _changes(members: EpisodeMembers, names: _DisplayNames, lost: str, returned: str) -> str:
    changes = (
        ([pair.joined for pair in members.replaced], returned),
        (members.joined, "joined"),
        (members.left, "left"),
        (members.lost, lost),
        (members.gone, "departed"),
    )
    return _member_verbs(changes, names)


def _member_verbs(changes: Iterable[tuple[Sequence[str], str]], names: _DisplayNames) -> str:
    return ", ".join(f"{member_list(ids, names)} {verb_phrase}" for ids, verb_phrase in changes if ids)


def _client_reason_text(episode: Episode) -> str:
    own = application_reasons(episode.evidence) or join_reasons(episode.evidence)
    return f", client reason {quote_reasons(own)}" if own else ""


def _head_text(episode: Episode, names: _DisplayNames) -> str:
    """Return the beginning of the story: the kind of the episode and its members."""
    if episode.kind in _HEADLINE_BY_KIND:
        return _HEADLINE_BY_KIND[episode.kind](episode, names)
    members = episode.members
    resets = [item.reason for item in episode.evidence if item.kind == OFFSETS_RESET]
    text = _TEXT_BY_KIND[episode.kind].format(
        protocol=episode.protocol,
        assignor=episode.assignor,
        before=count(members.before, "member"),
        after=members.after,
        size=f" with {count(members.after, 'member')}" if names.is_counted else "",
        lost=member_list(members.lost, names),
        returned=member_list([pair.joined for pair in members.replaced], names),
        resets="; ".join(resets[:_MAX_LISTED_NAMES]),
    )
    return _add_probably(episode, text)


_TEXT_BY_KIND: Final[Mapping[str, str]] = {
    "first-start": "Started{size}",
    "static-bounce": "Static restart of {returned}",
    "subscription-change": "Changed subscriptions",
    "partition-growth": "Changed partition counts",
    "assignor-change": "Changed the assignor to {assignor}",
    "protocol-migration": "Migrated to the {protocol} protocol",
    "coordinator-move": "Moved to another coordinator",
    "connector-change": "Changed connectors or tasks",
    "offsets-reset": "Reset committed offsets ({resets})",
    "topic-added": "Got partitions of a new topic",
    "topic-deleted": "Lost the partitions of a deleted topic",
    "fleet-replaced": "Replaced all {before} ({after} others joined first)",
    "surge": "Rolling update of {before}, each after its replacement had joined",
    "recreate": "Recreated all {before} (all left, then all joined)",
    "zone-lost": "Lost all members of one zone ({lost} crashed)",
}
_HEADLINE_BY_KIND: Final[Mapping[str, Callable[[Episode, _DisplayNames], str]]] = {
    "scale-out": _scaling_text,
    "scale-in": _scaling_text,
    "rolling-restart": _restart_text,
    "restart": _restart_text,
    "crash": _crash_text,
    "poll-timeout": _poll_timeout_text,
    "app-requested": _requested_text,
    "duplicate-instance-id": _shared_instance_text,
    "storm": _storm_text,
    "shutdown": _shutdown_text,
    "unknown": _unknown_text,
}
