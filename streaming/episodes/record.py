"""Conversion of an episode's state into its published record."""

from typing import Final

from msgspec import structs

from streaming.episodes import kinds, waiting
from streaming.episodes.downtime import downtime
from streaming.episodes.fold import cost_of_episode
from streaming.episodes.kinds import STORM_ROUNDS, Storm
from streaming.episodes.members import MemberChanges
from streaming.episodes.state import EpisodeState
from streaming.episodes.story import story
from streaming.records.episodes import Episode, EpisodeMembers, EpisodeStatus, Replaced
from streaming.records.events import Evidence

#: The most members that each list of an episode has: the start of a group of thousands would be megabytes.
MAX_LISTED_MEMBERS: Final = 500


def record(group_id: str, state: EpisodeState, *, closed: bool = False, storm_turns: int = STORM_ROUNDS) -> Episode:
    """Return the record of an episode; ``closed``: the episode has ended and ``state`` is final."""
    (kind, why), storm, seen = kinds.classify(state, storm_turns)
    evidence = [*state.evidence, Evidence(source="episode", reason=why)] if why else list(state.evidence)
    cost, catching_up = cost_of_episode(state)
    episode = Episode(
        group_id=group_id,
        episode=state.number,
        kind=kind,
        status=_status(state, storm, closed=closed, catching_up=catching_up),
        opened_at=state.opened_at,
        closed_at=state.last_at if closed else None,
        rounds=state.rounds.splitlines(),
        members=_members(state, seen),
        moved=sum(map(len, state.moved.values())),
        moved_again=sum(map(len, state.twice_moved_partitions.values())),
        downtime=None if state.outages is None else downtime(state.outages),
        waiting_for=waiting.current_waits(state) if state.waiting or state.awaited else [],
        sure=not why,
        evidence=evidence,
        story="",
        round_count=state.round_count,
        rebalances=state.rebalances,
        updated_at=state.last_at,
        protocol=state.protocol,
        assignor=state.assignor,
        repeated=kinds.repetition_of(storm.members[0]) if storm is not None and len(storm.members) == 1 else None,
        rebalancing=None if closed else state.rebalancing,
        cost=cost,
    )
    return structs.replace(episode, story=story(episode))


def shorten_episode(episode: Episode) -> Episode:
    """Return a record below the size limit: without members, partitions and evidence."""
    members = episode.members
    ids = [*members.joined, *members.left, *members.lost, *members.gone]
    shortened_episode = structs.replace(
        episode,
        members=EpisodeMembers(
            before=members.before, after=members.after, omitted=members.omitted + len(ids) + len(members.replaced)
        ),
        waiting_for=[structs.replace(wait, partitions={}) for wait in episode.waiting_for],
        evidence=[],
        repeated=None,
        rebalancing=episode.rebalancing and structs.replace(episode.rebalancing, joined=[], awaited=[], until={}),
    )
    return structs.replace(shortened_episode, story=story(shortened_episode))


def _status(state: EpisodeState, storm: Storm | None, *, closed: bool, catching_up: bool) -> EpisodeStatus:
    if state.rebalancing is not None and not closed:
        return "rebalancing"
    missing = state.waiting or state.awaited
    if state.stuck or (closed and missing):
        return "stuck"
    if storm is not None and not closed:
        return "storming"
    if missing:
        return "settling"
    return "catching-up" if catching_up and not closed else "settled"


def _members(state: EpisodeState, seen: MemberChanges) -> EpisodeMembers:
    members_at_start = [member for member in state.present.values() if member.was_present]
    returned = (*seen.returned, *(member for member in members_at_start if member.by and not member.how))
    replaced, newcomers = returned[:MAX_LISTED_MEMBERS], seen.joined[:MAX_LISTED_MEMBERS]
    omitted = len(returned) - len(replaced) + len(seen.joined) - len(newcomers)
    joined = [member.now for member in newcomers]
    identities = [(member.now, member.identity) for member in members_at_start if not member.by]
    for member in replaced:
        if member.first != member.now:
            identities.append((member.first, member.first_identity))
        identities.append((member.now, member.identity))
    identities += ((member.now, member.identity) for member in newcomers)
    departed_by_manner: dict[str, list[str]] = {"left": [], "lost": [], "gone": []}
    for member in (*seen.departed, *seen.temporary_members):
        departed = departed_by_manner["lost" if member.how == "overran" else member.how or "gone"]
        if len(departed) == MAX_LISTED_MEMBERS:
            omitted += 1
            continue
        departed.append(member.now)
        if not member.was_present:
            joined.append(member.now)
        identities.append((member.now, member.identity))
    return EpisodeMembers(
        joined=joined,
        **departed_by_manner,
        replaced=[Replaced(left=member.first, joined=member.now, by=member.by) for member in replaced],
        before=state.before or 0,
        after=state.after,
        names={
            member_id: who
            for member_id, who in (*identities, *state.awaited_names.items())
            if who.client_id or who.client_host or who.group_instance_id
        },
        omitted=omitted,
    )
