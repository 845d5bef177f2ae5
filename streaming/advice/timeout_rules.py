"""Rules about timeouts: session, poll interval, rebalance timeout, missing LeaveGroup, initial and scheduled delay."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from msgspec import UNSET

from streaming.advice.clients import LIBRDKAFKA, ClientConfiguration
from streaming.advice.history import (
    DEFAULT_SESSION_MS,
    MIN_COUNT,
    GroupHistory,
    incident_fact,
    longest_stops_ms,
    severity_of,
)
from streaming.advice.model import CostSaving, Finding, Replay, list_text, make_evidence
from streaming.advice.protocol_rules import session_setting, session_unsure
from streaming.episodes.identity import BY_INSTANCE_ID, HOST_KEY, MEMBER_KEY
from streaming.episodes.story import count, display_names_of, duration
from streaming.records.diffs import Diff
from streaming.records.episodes import Episode
from streaming.records.names import shorten_random_id

#: Default of the brokers' setting ``group.max.session.timeout.ms``.
_MAX_SESSION_MS: Final = 1_800_000
#: The smallest number of heartbeats per session timeout, by the documentation of heartbeat.interval.ms.
_MIN_HEARTBEATS: Final = 3
#: Longest duration of a first start whose joins a longer initial delay would combine into one rebalance.
_MAX_INITIAL_MS: Final = 60_000
#: Kafka's default of ``scheduled.rebalance.max.delay.ms``.
_DEFAULT_DELAY_MS: Final = 300_000


def session_timeout_short(history: GroupHistory) -> Finding | None:
    """Rule: members that later returned lost their sessions, as restarts or pauses take longer than the timeout."""
    session = history.session_timeout_ms
    episodes = _lost_and_back(history, (BY_INSTANCE_ID,))
    numbers = {episode.episode for episode in episodes}
    lost = [restart.away_ms for restart in history.restarts if restart.is_lost and restart.episode in numbers]
    away = max(lost, default=0)
    if away:
        wanted, edit = min(away * 3 // 2, _MAX_SESSION_MS), "session"
        text = f"Static members were away for up to {duration(away)} and lost their places in {list_text(episodes)}"
    else:
        episodes = _lost_and_back(history, (HOST_KEY, MEMBER_KEY))
        if len(episodes) < MIN_COUNT or session is None or session >= DEFAULT_SESSION_MS:
            return None
        wanted, edit = DEFAULT_SESSION_MS, "pauses"
        text = f"Sessions expired in {list_text(episodes)}, and the same clients came back from the same hosts"
    text += f"; the session timeout is {duration(session)}" if session else ""
    settings = session_setting(history, wanted)
    ((name, value),) = settings.items()
    return Finding(
        "warning",
        [make_evidence(text, episodes, sessionTimeoutMs=session or DEFAULT_SESSION_MS, awayMs=away)],
        f"Raise {name} to {duration(int(value))}: shorter restarts and pauses then cause no rebalance",
        settings,
        Replay(episodes, edit=edit, value=int(value)) if history.is_classic else None,
        unsure=session_unsure(history),
    )


def _lost_and_back(history: GroupHistory, by: Sequence[str]) -> list[Episode]:
    crashes = [episode for episode in history.episodes_of(("crash",)) if episode.members.replaced]
    return [episode for episode in crashes if all(pair.by in by for pair in episode.members.replaced)]


def missing_leave(history: GroupHistory) -> Finding | None:
    """Rule: restarted members did not leave the group, as they were killed or did not close their consumer."""
    restart_kinds = ("crash", "rolling-restart", "restart")
    episodes = [episode for episode in history.episodes_of(restart_kinds) if _has_killed_members(history, episode)]
    restarts = sum(len(episode.members.replaced) for episode in episodes)
    if restarts < MIN_COUNT or history.static_members:
        return None
    names, session = display_names_of(episodes[0].members), history.session_timeout_ms
    back = [names.get(pair.joined) or shorten_random_id(pair.joined) for pair in episodes[0].members.replaced]
    text = f"{count(restarts, 'restart')} without LeaveGroup in {list_text(episodes)} ({', '.join(back[:3])})"
    text += f": partitions waited for the session timeout{f' of {duration(session)}' if session else ''}"
    return Finding(
        "warning",
        [make_evidence(text, episodes, restarts=restarts, longestStopsMs=longest_stops_ms(episodes))],
        f"Leave the group at shutdown: {history.client.close}. Give it time: terminationGracePeriodSeconds above "
        "the time from SIGTERM to exit",
        replay=Replay(episodes, edit="closing") if history.is_classic else None,
        unsure=("that the processes were killed is inferred: their sessions expired, and new ones took their places",),
    )


def _has_killed_members(history: GroupHistory, episode: Episode) -> bool:
    causes = {diff.cause.kind for diff in history.rounds.get(episode.episode, ())}
    causes |= {item.kind or "" for item in episode.evidence}
    if episode.kind != "crash" and "member.fenced" not in causes:
        return False
    pairs = episode.members.replaced
    is_new = any(pair.by not in (HOST_KEY, MEMBER_KEY, BY_INSTANCE_ID) for pair in pairs)
    return bool(pairs) and (is_new or 2 * len(pairs) > episode.members.before)


def poll_interval(history: GroupHistory) -> Finding | None:
    """Rule: members exceeded max.poll.interval.ms and were removed."""
    episodes = [episode for episode in history.episodes_of(("poll-timeout",)) if episode.sure]
    incidents = history.incidents_of("poll-timeout")
    evidence = [incident_fact(incident) for incident in incidents[:2]]
    limit, numbers = history.poll_interval_ms, {episode.episode for episode in episodes}
    away = [restart.away_ms for restart in history.restarts if restart.episode in numbers and not restart.is_lost]
    change = "Poll more often: fewer records a poll (max.poll.records), or processing in another thread"
    settings = {"max.poll.records": "<records that take half of max.poll.interval.ms at most>"}
    if history.client is LIBRDKAFKA:
        change, settings = "Poll more often, or process in another thread", {}
    if episodes:
        limit_text = f" ({duration(limit)})" if limit else ""
        text = f"Members exceeded max.poll.interval.ms{limit_text} in {list_text(episodes)}"
        figures = {"maxPollIntervalMs": limit} if limit else {}
        if limit and away:
            gap = limit + max(away)
            text += f": the longest time without a poll was at least {duration(gap)}"
            figures["longestGapMs"] = gap
            settings["max.poll.interval.ms"] = str(-(-gap * 3 // 2 // 1000) * 1000)
            change += "; or raise max.poll.interval.ms above the longest gap"
        evidence.append(make_evidence(text, episodes, **figures))
    return Finding(severity_of(incidents), evidence, change, settings) if evidence else None


def rebalance_timeout(history: GroupHistory) -> Finding | None:
    """Rule: a rebalance waited for a slow member until the rebalance timeout."""
    incidents, limit = history.incidents_of("rebalance-stuck"), history.poll_interval_ms
    more = f" The rebalance timeout, max.poll.interval.ms, is {duration(limit)}." if limit else ""
    finding = Finding(
        severity_of(incidents),
        [incident_fact(incident, more) for incident in incidents[:3]],
        "Lower max.poll.interval.ms to what the processing of one poll needs, and do no long work in the "
        "revocation callback: each rebalance waits that long for the slowest member",
        {"max.poll.interval.ms": "<twice the longest processing of one poll>"},
        unsure=("how long the processing of one poll takes is in no record",),
    )
    return finding if incidents else None


def initial_delay(history: GroupHistory) -> Finding | None:
    """Rule: first starts of the group take several rebalances, as members join one after the other."""
    starts = [start for start in history.episodes_of(("first-start",)) if start.sure and start.rebalances > MIN_COUNT]
    starts = [start for start in starts if start.updated_at - start.opened_at <= _MAX_INITIAL_MS]
    if len(starts) < MIN_COUNT or not history.is_classic:
        return None
    spread, rebalances = (max(episode.updated_at - episode.opened_at for episode in starts), starts[0].rebalances)
    text = f"First starts took several rebalances in {list_text(starts)}, {rebalances} in the newest: members joined "
    text += f"over {duration(spread)}"
    delay = -(-spread // 1000) * 1000 + 3000
    return Finding(
        "info",
        [make_evidence(text, starts, rebalances=sum(episode.rebalances for episode in starts), spreadMs=spread)],
        f"Raise the brokers' group.initial.rebalance.delay.ms to {delay}, or start members closer together",
        {"group.initial.rebalance.delay.ms": str(delay)},
        unsure=("the brokers' setting is in no record",),
    )


def scheduled_delay(history: GroupHistory) -> Finding | None:
    """Rule: the tasks of a departed Connect worker wait for longer than workers take to restart."""
    by_episode = {number: list(_departures(rounds)) for number, rounds in history.rounds.items()}
    episodes = [episode for episode in history.recent_episodes if by_episode.get(episode.episode)]
    departures = [departure for episode in episodes for departure in by_episode[episode.episode]]
    if history.kind != "connect" or not departures:
        return None
    slowest, longest = max(away_ms for _, away_ms, _ in departures), max(delay_ms for delay_ms, _, _ in departures)
    wanted = -(-slowest * 3 // 2 // 5000) * 5000
    if longest < MIN_COUNT * wanted:
        return None
    text = f"Workers were back within {duration(slowest)} in {list_text(episodes)}; tasks wait {duration(longest)}"
    text += " (scheduled.rebalance.max.delay.ms"
    text += ", the default)" if longest == _DEFAULT_DELAY_MS else ")"
    waits = (
        sum(delay_ms * tasks for delay_ms, _, tasks in departures),
        sum(min(wanted, delay_ms) * tasks for delay_ms, _, tasks in departures),
    )
    numbers = [episode.episode for episode in episodes]
    saving = f"{duration(waits[1])} instead of {duration(waits[0])} of waiting in {count(len(departures), 'restart')}"
    return Finding(
        "warning",
        [make_evidence(text, episodes, restarts=len(departures), slowestRestartMs=slowest, delayMs=longest)],
        f"Lower scheduled.rebalance.max.delay.ms to {wanted} on all workers",
        {"scheduled.rebalance.max.delay.ms": str(wanted)},
        saving=CostSaving(text=f"{saving}, all tasks together", episodes=numbers, downtime_ms=waits),
    )


def _departures(rounds: Sequence[Diff]) -> Iterator[tuple[int, int, int]]:
    """Yield (scheduled delay, time until a worker was back, both in ms, number of tasks) of each departed worker."""
    for before, after in pairwise(rounds):
        new = (member for name, member in after.members.items() if name not in before.members)
        has_joined = any(member.present is not False for member in new)
        tasks = sum(map(len, before.unassigned.values()))
        if before.delay_ms is not UNSET and before.delay_ms and has_joined and tasks:
            yield before.delay_ms, after.timestamp - before.timestamp, tasks


def heartbeat_interval(config: ClientConfiguration) -> Finding | None:
    """Rule: too few heartbeats fit into a session timeout."""
    heartbeat, session = config.milliseconds("heartbeat.interval.ms"), config.milliseconds("session.timeout.ms")
    if not heartbeat or not session or heartbeat * _MIN_HEARTBEATS <= session:
        return None
    is_refused = heartbeat >= session
    why = "clients refuse that" if is_refused else f"a session has {count(session // heartbeat, 'heartbeat')} only"
    text = f"{config.quote('heartbeat.interval.ms', 'session.timeout.ms')}: {why}"
    return Finding(
        "critical" if is_refused else "warning",
        [make_evidence(text, heartbeatIntervalMs=heartbeat, sessionTimeoutMs=session)],
        "Set heartbeat.interval.ms to a third of session.timeout.ms at most",
        {"heartbeat.interval.ms": str(session // _MIN_HEARTBEATS)},
    )
