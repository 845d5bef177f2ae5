"""An episode as it stands in its topic, from what is kept of it."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from streaming.episodes import kinds, waiting
from streaming.episodes.downtime import downtime
from streaming.episodes.kinds import STORM_TURNS, Judged
from streaming.episodes.members import MemberHistory, MemberIdentity
from streaming.episodes.state import EpisodeState
from streaming.episodes.story import story
from streaming.episodes.underway import underway
from streaming.wire.codec import encode
from streaming.wire.diffs import MemberNames
from streaming.wire.episodes import Episode, EpisodeMembers, EpisodeStatus, Repeated, Replaced
from streaming.wire.events import Evidence

#: Members that an episode names of each sort: a group of thousands that starts is a record of megabytes else.
MOST_LISTED: Final = 500
#: Where evidence comes from that is the episode's own.
SOURCE: Final = "episode"


def record(
    group_id: str, state: EpisodeState, *, closed: bool = False, storm_turns: int = STORM_TURNS
) -> Episode:
    """The record of a group's episode.

    Args:
        group_id: the group.
        state: of an episode that was opened.
        closed: whether it is over: ``state`` is what it was last.
        storm_turns: how often one member is the reason of a rebalance in a storm.
    """
    storm = kinds.stormy(state, storm_turns)
    judged = kinds.judge(state, storm)
    evidence = list(state.evidence)
    if judged.why:
        evidence.append(Evidence(source=SOURCE, reason=judged.why))
    told = Episode(
        group_id=group_id,
        episode=state.number,
        kind=judged.kind,
        status=_status(state, judged, closed=closed),
        opened_at=state.opened_at,
        closed_at=state.last_at if closed else None,
        rounds=state.rounds.splitlines(),
        members=_members(state),
        moved=sum(map(len, state.moved.values())),
        moved_again=sum(map(len, state.again.values())),
        downtime=downtime(state.outages),
        waiting_for=waiting.told(state),
        sure=judged.sure,
        evidence=evidence,
        story="",
        round_count=state.round_count,
        rebalances=state.rebalances,
        updated_at=state.last_at,
        protocol=state.protocol,
        assignor=state.assignor,
        repeated=None if storm is None else repeated(storm),
    )
    return structs.replace(told, story=story(told))


def fitting(
    group_id: str, state: EpisodeState, limit: int, *, closed: bool, storm_turns: int, brief: bool = False
) -> bytes:
    """The JSON of :func:`record`, without who and why where it would have more than ``limit`` bytes.

    ``brief``: it lists but a few of those who came and went.
    """
    whole = record(group_id, state, closed=closed, storm_turns=storm_turns)
    if brief:
        whole = underway(whole)
    value = encode(whole)
    if len(value) <= limit:
        return value
    members = whole.members
    ids = [*members.joined, *members.left, *members.lost, *members.gone]
    bare = structs.replace(
        whole,
        members=EpisodeMembers(
            before=members.before,
            after=members.after,
            omitted=members.omitted + len(ids) + len(members.replaced),
        ),
        waiting_for=[structs.replace(one, partitions={}) for one in whole.waiting_for],
        evidence=[],
        repeated=None,
    )
    return encode(structs.replace(bare, story=story(bare)))


def _status(state: EpisodeState, judged: Judged, *, closed: bool) -> EpisodeStatus:
    if state.stuck or (closed and (state.waiting or state.awaited)):
        return "stuck"
    if closed:
        return "settled"
    return "storming" if judged.kind == "storm" else "settling"


def _members(state: EpisodeState) -> EpisodeMembers:
    joined: list[str] = []
    sorts: dict[str, list[str]] = {"left": [], "lost": [], "gone": []}
    replaced: list[Replaced] = []
    names: dict[str, MemberNames] = {}
    omitted = 0
    for track in state.there.values():
        if track.founder and not track.by:
            _name(names, track.now, track.person)
        elif track.founder and len(replaced) < MOST_LISTED:
            replaced.append(Replaced(left=track.first, joined=track.now, by=track.by))
            if track.first != track.now:
                _name(names, track.first, track.was)
            _name(names, track.now, track.person)
        elif not track.founder and len(joined) < MOST_LISTED:
            joined.append(track.now)
            _name(names, track.now, track.person)
        else:
            omitted += 1
    for track in state.missing:
        ended = sorts["lost" if track.how == "overran" else track.how or "gone"]
        if len(ended) == MOST_LISTED:
            omitted += 1
            continue
        ended.append(track.now)
        if not track.founder:
            joined.append(track.now)
        _name(names, track.now, track.person)
    for member_id, who in state.called.items():
        _name(names, member_id, who)
    return EpisodeMembers(
        joined=joined,
        left=sorts["left"],
        lost=sorts["lost"],
        gone=sorts["gone"],
        replaced=replaced,
        before=state.before or 0,
        after=state.after,
        names=names,
        omitted=omitted,
    )


def _name(names: dict[str, MemberNames], member_id: str, who: MemberIdentity) -> None:
    if who.client_id or who.client_host or who.group_instance_id:
        names[member_id] = MemberNames(
            client_id=who.client_id, client_host=who.client_host, group_instance_id=who.group_instance_id
        )


def repeated(worst: MemberHistory) -> Repeated:
    """How often a member was the reason of a rebalance, and the usual time between two."""
    gaps = sorted(after - before for before, after in zip(worst.times, worst.times[1:], strict=False))
    period = max(0, gaps[len(gaps) // 2]) if gaps else None
    return Repeated(member_id=worst.now, times=worst.turns, period_ms=period)
