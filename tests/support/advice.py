"""Histories of groups as input for advice, built from a :class:`~tests.support.built_diffs.DiffBuilder`."""

from typing import Any

from msgspec import structs

from streaming.advice.history import GroupHistory
from streaming.advice.model import Advice, AdviceEvidence
from streaming.advice.rules import advise
from streaming.records.diffs import UnknownGroup
from streaming.records.episodes import Downtime, Episode
from streaming.simulation.live_group import LiveGroup, MembershipLog
from tests.support.built_diffs import DiffBuilder
from tests.support.compacted import episode_records, latest


def history(builder: DiffBuilder, *, downtime_ms: int | None = None, **fields: Any) -> GroupHistory:
    """Return the history of a group from its diffs, as it is one minute after the last diff.

    ``session_ms`` and ``poll_ms``: session.timeout.ms and max.poll.interval.ms of the members. ``downtime_ms``: the
    longest downtime of each episode after the first, instead of the rounds' bounds. Other fields are those of
    :class:`GroupHistory`.
    """
    settings = {
        "session_timeout_ms": fields.pop("session_ms", None),
        "rebalance_timeout_ms": fields.pop("poll_ms", None),
    }
    episodes = [record.episode for record in episode_records(builder)]
    if downtime_ms is not None:
        episodes = [episodes[0], *(stopped(episode, downtime_ms) for episode in episodes[1:])]
    diff_by_id = dict(builder.diffs)
    arguments = {
        "group_id": builder.group_id,
        "now_ms": builder.now + 60_000,
        "episodes": episodes,
        "latest": latest(builder),
        "live": members(builder, **settings),
        "rounds": {episode.episode: [diff_by_id[item] for item in episode.rounds] for episode in episodes},
    }
    return GroupHistory(**{**arguments, **fields})


def members(builder: DiffBuilder, **settings: Any) -> LiveGroup | None:
    """Return one member record, with these client settings, for each current member of the group."""
    try:
        group = MembershipLog(builder.group_id).group(latest(builder))
    except UnknownGroup:
        return None
    return group._replace(members=tuple(structs.replace(member, **settings) for member in group.members))


def stopped(episode: Episode, ms: int) -> Episode:
    """Return a copy of the episode in which one partition has a downtime of this length."""
    downtime = Downtime(lower_ms=ms, upper_ms=2 * ms, longest_ms=(ms, 2 * ms), total_ms=(ms, 2 * ms), partitions=1)
    return structs.replace(episode, downtime=downtime)


def rules(group: GroupHistory) -> dict[str, Advice]:
    """Return the advice for a group as a dict from rule name to advice."""
    return {advice.rule: advice for advice in advise(group)}


def evidence(text: str, *episodes: int, **figures: int | str | list[str]) -> list[AdviceEvidence]:
    """Return the evidence of a piece of advice that is based on exactly one fact."""
    return [AdviceEvidence(text=text, episodes=list(episodes), figures=figures)]


def deploy(
    builder: DiffBuilder, *, downtime_s: float = 10.0, interval_s: float = 30.0, suffix: str = ""
) -> DiffBuilder:
    """Apply a rolling restart an hour later: each member leaves and rejoins with a new member id."""
    wait = 3600.0
    for member_id in list(builder.members):
        name, _, number = member_id.partition("#")
        count, _, instance = number.partition("=")
        again = f"{name}{suffix}#{int(count or 0) + 1}" + (f"={instance}" if instance else "")
        builder.leave(member_id, after=wait).join(again, after=downtime_s)
        wait = interval_s
    return builder
