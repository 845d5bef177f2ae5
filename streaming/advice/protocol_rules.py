"""Rules about the way to rebalance: eager, cooperative, KIP-848, static members, batches, unfinished migrations."""

from collections.abc import Sequence
from typing import Final

from streaming.advice.clients import COOPERATIVE, LIBRDKAFKA, STRATEGY, ClientConfiguration
from streaming.advice.history import (
    DAY_MS,
    DEFAULT_SESSION_MS,
    DEPLOY_KINDS,
    MEMBERSHIP_CHANGES,
    MIN_COUNT,
    MIN_SAVED_MS,
    GroupHistory,
    incident_fact,
    longest_stops_ms,
)
from streaming.advice.model import AdviceEvidence, Finding, Replay, list_text, make_evidence
from streaming.episodes.identity import BY_INSTANCE_ID, CLIENT_KEY, HOST_KEY, PATTERN_KEY, POD_KEY, keys_of_owner
from streaming.episodes.story import count, duration, member_list, moment
from streaming.records.episodes import Episode, EpisodeMembers

_EAGER_ASSIGNORS: Final = ("range", "roundrobin", "sticky")
_PERMANENT_ID_HINT: Final = "<an id that the member keeps across restarts>"
#: The smallest group for which batches are recommended; in smaller groups, a batch would be most of the group.
_MIN_BATCHED_MEMBERS: Final = 6


def cooperative_assignor(history: GroupHistory) -> Finding | None:
    """Rule: an eager assignor revokes all partitions in each rebalance."""
    episodes = _interrupting_episodes(history)
    client, assignor = history.client, history.assignor
    if not history.is_classic or assignor not in _EAGER_ASSIGNORS or not client.cooperative or not episodes:
        return None
    if any(COOPERATIVE in names for names in _assignors_of_members(history).values()):
        return None
    change = (
        f"Put {COOPERATIVE} before {assignor} in {STRATEGY} and restart all members one by one; then remove "
        f"{assignor} and restart them again"
        if client.can_mix_strategies
        else f"Stop all members, set {STRATEGY}={COOPERATIVE} and start them: {client.name} refuses eager and "
        "cooperative strategies in one list, so there is no rolling path"
    )
    is_pattern = len(episodes) >= MIN_COUNT and longest_stops_ms(episodes) >= MIN_SAVED_MS
    return Finding(
        "warning" if is_pattern else "info",
        [_stop_evidence(episodes, f"{assignor} revokes every partition in each rebalance")],
        change,
        {STRATEGY: COOPERATIVE},
        Replay(episodes, way="cooperative"),
    )


def consumer_protocol(history: GroupHistory) -> Finding | None:
    """Rule: the classic protocol interrupts members that keep their partitions; KIP-848 does not interrupt them."""
    episodes = _interrupting_episodes(history)
    is_able = history.client.consumer and history.assignor in (*_EAGER_ASSIGNORS, COOPERATIVE)
    if not history.is_classic or not is_able or not episodes:
        return None
    return Finding(
        "info",
        [_stop_evidence(episodes, "In the classic protocol all members wait for each other in each rebalance")],
        f"Set group.protocol=consumer and remove {STRATEGY}, session.timeout.ms and heartbeat.interval.ms, one "
        f"member after the other: `rebalance-monitor migrate {history.group_id} --to consumer` has the steps",
        {"group.protocol": "consumer"},
        Replay(episodes, way="consumer"),
        unsure=("the versions of brokers (4.0 or newer) and clients are in no record of a group",),
    )


def _interrupting_episodes(history: GroupHistory) -> list[Episode]:
    episodes = history.episodes_of(MEMBERSHIP_CHANGES)
    return [episode for episode in episodes if episode.rebalances and episode.members.before >= MIN_COUNT]


def _stop_evidence(episodes: Sequence[Episode], why: str) -> AdviceEvidence:
    rebalances, stops = sum(episode.rebalances for episode in episodes), longest_stops_ms(episodes)
    since = moment(min(episode.opened_at for episode in episodes))
    text = f"{why}: {count(rebalances, 'rebalance')} in {list_text(episodes)} since {since} UTC"
    if stops:
        text += f"; the longest stop of a partition in each adds up to at least {duration(stops)}"
    moved = sum(episode.moved for episode in episodes)
    return make_evidence(text, episodes, rebalances=rebalances, longestStopsMs=stops, moved=moved)


def static_membership(history: GroupHistory) -> Finding | None:
    """Rule: members restart faster than their sessions expire, but each restart rebalances the group."""
    restarts = [restart for restart in history.restarts if not restart.is_lost and restart.away_ms > 0]
    numbers = {restart.episode for restart in restarts}
    episodes = [episode for episode in history.episodes_of(DEPLOY_KINDS) if episode.episode in numbers]
    if history.kind != "consumer" or not history.names or history.static_members:
        return None
    if len(restarts) < MIN_COUNT or not episodes:
        return None
    session = history.session_timeout_ms or DEFAULT_SESSION_MS
    slowest = max(restart.away_ms for restart in restarts)
    text = f"{count(len(restarts), 'restart')} in {list_text(episodes)} took up to {duration(slowest)}"
    text += f"; the session timeout is {duration(session)}"
    evidence = make_evidence(text, episodes, restarts=len(restarts), slowestRestartMs=slowest, sessionTimeoutMs=session)
    pairs = [pair for episode in episodes for pair in episode.members.replaced]
    change = "Give each member a group.instance.id of its own, which survives its restarts: its client id does"
    if not all(pair.by in (HOST_KEY, CLIENT_KEY, BY_INSTANCE_ID) for pair in pairs):
        change = (
            "Give each member a group.instance.id that survives its restarts: a StatefulSet's pod name or a host "
            "name. The pod name of a Deployment does not help, as no successor has it"
        )
    settings = {"group.instance.id": _PERMANENT_ID_HINT}
    if slowest >= session:
        session = slowest * 3 // 2
        settings |= session_setting(history, session)
        change += "; and raise the session timeout, which restarts outlast"
    replay = Replay(episodes, "static", "session", session) if history.is_classic else None
    return Finding("info", [evidence], change, settings, replay, unsure=session_unsure(history))


def session_setting(history: GroupHistory, wanted_timeout_ms: int) -> dict[str, str]:
    """Return the option that sets the session timeout, rounded up to 5 s: on the broker (KIP-848) or the client."""
    name = "group.consumer.session.timeout.ms" if history.protocol == "consumer" else "session.timeout.ms"
    return {name: str(-(-wanted_timeout_ms // 5000) * 5000)}


def session_unsure(history: GroupHistory) -> tuple[str, ...]:
    """Return a warning that the session timeout is unknown; empty if it is known."""
    text = f"no record that was read has the session timeout: the default is taken, {DEFAULT_SESSION_MS} ms"
    return () if history.session_timeout_ms else (text,)


def static_ids_change(history: GroupHistory) -> Finding | None:
    """Rule: instance ids change with each restart, so that members never take the places of their predecessors."""
    changed = [(episode, ids) for episode in history.recent_episodes if (ids := _changed_ids(episode.members))]
    if not changed:
        return None
    episodes = [episode for episode, _ in changed]
    gone, new = changed[0][1]
    text = f"Static members came back under other instance ids in {list_text(episodes)}: {gone[0]} as {new[0]}"
    return Finding(
        "warning",
        [make_evidence(text, episodes, departed=gone[:10], joined=new[:10])],
        "Use an id that a successor has too, such as a StatefulSet's pod name, or remove group.instance.id: as it "
        "is, the departed member's partitions wait for the session timeout, and the group rebalances all the same",
        {"group.instance.id": _PERMANENT_ID_HINT},
    )


def _changed_ids(members: EpisodeMembers) -> tuple[list[str], list[str]] | None:
    """Return the departed instance ids and the instance ids that replaced them; None if the ids did not change."""
    departed_ids, joined = [pair.left for pair in members.replaced], [pair.joined for pair in members.replaced]
    gone = _instances(members, [*members.left, *members.lost, *members.gone, *departed_ids])
    new = _instances(members, [*members.joined, *joined])
    return (gone, new) if not _owners(gone).isdisjoint(_owners(new)) and set(gone).isdisjoint(new) else None


def _owners(ids: Sequence[str]) -> set[str]:
    """Return the constant parts of ids that change with each process: names of Deployments, or names before a UUID."""
    keys = [key for instance_id in ids for key in keys_of_owner(instance_id)]
    return {owner for by, owner in keys if by in (POD_KEY, PATTERN_KEY)}


def _instances(members: EpisodeMembers, ids: Sequence[str]) -> list[str]:
    instance_ids = [members.names[member_id].group_instance_id for member_id in ids if member_id in members.names]
    return sorted({instance_id for instance_id in instance_ids if instance_id})


def static_slot_held(history: GroupHistory) -> Finding | None:
    """Rule: static members that were removed for good kept their partitions until the session timeout."""
    present = {member.group_instance_id for member in history.names.values()}
    lists = [
        (episode, lost)
        for episode in history.episodes_of(("crash",))
        if (lost := _instances(episode.members, episode.members.lost))
        and present.isdisjoint(lost)
        and not _changed_ids(episode.members)
    ]
    if not lists:
        return None
    episodes, names = [episode for episode, _ in lists], lists[0][1]
    text = f"Static members stopped for good without LeaveGroup in {list_text(episodes)} ({', '.join(names[:3])})"
    if history.session_timeout_ms:
        text += f": partitions waited for the session timeout of {duration(history.session_timeout_ms)}"
    return Finding(
        "warning" if len(lists) >= MIN_COUNT else "info",
        [make_evidence(text, episodes, instanceIds=names[:10], longestStopsMs=longest_stops_ms(episodes))],
        "When you scale in, remove static members with Admin.removeMembersFromConsumerGroup, or close them with "
        "CloseOptions.GroupMembershipOperation.LEAVE_GROUP (Java 4.1, KIP-1092)",
    )


def rolling_batches(history: GroupHistory) -> Finding | None:
    """Rule: rolling restarts, one member after the other, rebalance the whole group twice per member."""
    restarts = history.episodes_of(("rolling-restart",))
    episodes = [e for e in restarts if e.rebalances >= len(e.members.replaced) >= _MIN_BATCHED_MEMBERS]
    if not history.is_classic or not episodes:
        return None
    size, rebalances = len(episodes[0].members.replaced), episodes[0].rebalances
    text = f"One member restarted after the other in {list_text(episodes)}: {rebalances} rebalances for {size}"
    parallel = max(size // 4, 2)
    return Finding(
        "info",
        [make_evidence(text, episodes, rebalances=rebalances, members=size)],
        f"Restart {parallel} members at once (maxUnavailable: {parallel}), if the others can carry the load",
        replay=Replay(episodes, edit="batches", value=parallel),
        unsure=("whether fewer members can carry the load is in no record",),
    )


def half_migration(history: GroupHistory) -> Finding | None:
    """Rule: an unfinished migration: classic members in a KIP-848 group, or eager beside cooperative assignors."""
    incidents = [incident for incident in history.incidents_of("half-migration") if incident.closed_at is None]
    if incidents and history.now_ms - incidents[0].opened_at >= DAY_MS:
        change = "Restart the classic members with group.protocol=consumer"
        return Finding("warning", [incident_fact(incidents[0])], change, {"group.protocol": "consumer"})
    lists = _assignors_of_members(history)
    mixing_ids = [member for member, names in lists.items() if COOPERATIVE in names and len(names) > 1]
    if not history.is_classic or history.assignor not in _EAGER_ASSIGNORS or not mixing_ids or history.live is None:
        return None
    who = member_list(mixing_ids, history.live.names)
    text = f"{len(mixing_ids)} of {count(len(lists), 'member')} list {COOPERATIVE} and others ({who}); the group uses "
    assignors = sorted({", ".join(names) for names in lists.values()})
    return Finding(
        "info",
        [make_evidence(f"{text}{history.assignor}, which is eager", assignors=assignors)],
        f"Restart all members with {COOPERATIVE} alone in {STRATEGY}, once every member lists both",
        {STRATEGY: COOPERATIVE},
        Replay(_interrupting_episodes(history), way="cooperative"),
    )


def _assignors_of_members(history: GroupHistory) -> dict[str, tuple[str, ...]]:
    members = () if history.live is None else history.live.members
    return {member.member_id: member.assignors for member in members if member.assignors}


def mixed_strategies(config: ClientConfiguration) -> Finding | None:
    """Rule: a list of strategies contains both cooperative and eager ones."""
    names = config.strategies()
    if COOPERATIVE not in names or names == [COOPERATIVE]:
        return None
    is_refused = config.client is LIBRDKAFKA
    why = "librdkafka refuses both kinds" if is_refused else "a group with such members rebalances eagerly"
    return Finding(
        "critical" if is_refused else "info",
        [make_evidence(f"{config.quote(STRATEGY)}: {why}", strategies=names)],
        f"Leave {COOPERATIVE} alone in the list" + ("" if is_refused else ", once every member lists it"),
        {STRATEGY: COOPERATIVE},
    )


def mixed_subscriptions(history: GroupHistory) -> Finding | None:
    """Rule: members of one group subscribe to different topics."""
    if history.live is None or history.kind != "consumer":
        return None
    members: dict[tuple[str, ...], list[str]] = {}
    for member in history.live.members:
        if member.topics:
            members.setdefault(tuple(sorted(member.topics)), []).append(member.member_id)
    if len(members) < MIN_COUNT:
        return None
    names = history.live.names
    parts = [f"{member_list(ids, names)} to {', '.join(topics[:3])}" for topics, ids in sorted(members.items())[:3]]
    text = f"Members subscribe to different topics: {'; '.join(parts)}"
    change = "Give each set of topics a group of its own: restarts of one application then do not stop the others"
    return Finding("info", [make_evidence(text, subscriptions=len(members))], change)
