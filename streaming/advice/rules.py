"""Table of all rules, and advice for one group (:func:`advise`) or for many groups (:func:`advise_all`)."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from streaming.advice import member_rules as members
from streaming.advice import protocol_rules as protocols
from streaming.advice import timeout_rules as timeouts
from streaming.advice.clients import ClientConfiguration, option_of
from streaming.advice.history import DEPLOY_KINDS, MEMBERSHIP_CHANGES, WINDOW_MS, GroupHistory, longest_stops_ms
from streaming.advice.model import SEVERITIES, Advice, Finding
from streaming.advice.replay import MAX_REPLAYED_EPISODES, Budget, Replayer, applied_changes, is_worthwhile
from streaming.records.episodes import Episode

#: Rule id → the rule's title, and its function of a group's history. The id is also the rule's section in :data:`DOCS`.
RULES: Final[dict[str, tuple[str, Callable[[GroupHistory], Finding | None]]]] = {
    "duplicate-instance-id": ("two processes share an instance id", members.duplicate_instance_id),
    "poll-interval": ("members exceed max.poll.interval.ms", timeouts.poll_interval),
    "rebalance-timeout": ("rebalances wait for the slowest member", timeouts.rebalance_timeout),
    "missing-leave": ("members stop without LeaveGroup", timeouts.missing_leave),
    "session-timeout-short": ("sessions expire during restarts or pauses", timeouts.session_timeout_short),
    "cooperative-assignor": ("an eager assignor stops all members", protocols.cooperative_assignor),
    "consumer-protocol": ("the classic protocol stops members", protocols.consumer_protocol),
    "half-migration": ("a migration stopped halfway", protocols.half_migration),
    "static-membership": ("short restarts rebalance the group", protocols.static_membership),
    "static-ids-change": ("instance ids change with each restart", protocols.static_ids_change),
    "static-slot-held": ("departed static members hold partitions", protocols.static_slot_held),
    "rolling-batches": ("members restart one at a time", protocols.rolling_batches),
    "mixed-subscriptions": ("members subscribe to different topics", protocols.mixed_subscriptions),
    "metadata-rebalances": ("topics come, go and grow", members.metadata_rebalances),
    "idle-members": ("members without partitions", members.idle_members),
    "uneven-partitions": ("partitions do not divide by members", members.uneven_partitions),
    "range-skew": ("range loads the same members", members.range_skew),
    "known-fault": ("clients with a known fault", members.known_fault),
    "initial-delay": ("first starts take several rebalances", timeouts.initial_delay),
    "probing-rebalances": ("Kafka Streams probes warm-up tasks", members.probing_rebalances),
    "scheduled-delay": ("Connect's tasks wait longer than workers restart", timeouts.scheduled_delay),
}
#: Rule id → title and function, for rules that only need a client's configuration file.
FILE_RULES: Final[dict[str, tuple[str, Callable[[ClientConfiguration], Finding | None]]]] = {
    "heartbeat-interval": ("too few heartbeats in a session", timeouts.heartbeat_interval),
    "shared-instance-id": ("one instance id for all processes", members.shared_instance_id),
    "mixed-strategies": ("eager and cooperative strategies in one list", protocols.mixed_strategies),
}
#: The largest number of rounds that are read; each round has some kilobytes.
MOST_ROUNDS: Final = 5000
#: The page of the documentation with one section per rule.
DOCS: Final = "docs/reference/advice.md"


def advise(history: GroupHistory, budget: Budget | None = None) -> list[Advice]:
    """Return the advice for one group, worst first; ``budget``: the simulation work that may be done."""
    replayer = Replayer(history, budget or Budget())
    advice = [_advice(replayer, rule, finding) for rule, finding in _findings(replayer)]
    return sorted(filter(None, advice), key=_worst_first)


def advise_all(histories: Iterable[GroupHistory], budget: Budget | None = None) -> list[Advice]:
    """Return the advice for all groups, worst first; groups with the longest downtime use the budget first."""
    shared = budget or Budget()
    order = sorted(histories, key=lambda history: -longest_stops_ms(history.recent_episodes))
    return sorted((advice for history in order for advice in advise(history, shared)), key=_worst_first)


def episodes_to_read(episodes: Iterable[Episode], now_ms: int) -> list[Episode]:
    """Return the episodes whose rounds advice needs: each group's deploys, then its newest other episodes.

    Groups with the longest downtime come first. The episodes have at most :data:`MOST_ROUNDS` rounds together.
    """
    by_group: dict[str, list[Episode]] = {}
    for episode in episodes:
        if episode.updated_at > now_ms - WINDOW_MS and episode.kind in MEMBERSHIP_CHANGES and episode.rounds:
            by_group.setdefault(episode.group_id, []).append(episode)
    chosen: list[Episode] = []
    rounds = 0
    for group_episodes in sorted(by_group.values(), key=longest_stops_ms, reverse=True):
        group_episodes.sort(key=lambda episode: (episode.kind not in DEPLOY_KINDS, -episode.episode))
        for episode in group_episodes[: 2 * MAX_REPLAYED_EPISODES]:
            rounds += len(episode.rounds)
            if rounds <= MOST_ROUNDS:
                chosen.append(episode)
    return chosen


def reaches_severity(advice: Iterable[Advice], severity: str) -> bool:
    """Return True if any advice has this severity or a worse one."""
    return any(SEVERITIES.index(item.severity) >= SEVERITIES.index(severity) for item in advice)


def _findings(replayer: Replayer) -> Iterator[tuple[str, Finding]]:
    history = replayer.history
    findings = [(rule, check(history)) for rule, (_, check) in RULES.items()]
    if history.configuration is not None:
        findings += [(rule, check(history.configuration)) for rule, (_, check) in FILE_RULES.items()]
    yield from ((rule, finding) for rule, finding in findings if finding is not None)
    yield from applied_changes(replayer)


def _advice(replayer: Replayer, rule: str, finding: Finding) -> Advice | None:
    """Return a finding as advice; None if the recommended way to rebalance would not have saved any downtime."""
    history, replay, saving, unsure = replayer.history, finding.replay, finding.saving, list(finding.unsure)
    section, severity = rule.partition("/")[0], finding.severity
    if replay is not None:
        saving = replayer.saving(replay)
        if saving is None:
            unsure.append("no saving computed: the rounds of its episodes were not read, or are too many to replay")
        elif not is_worthwhile(saving):
            if replay.way is not None or replay.edit == "batches":
                return None
            severity = "info"
            if saving.rounds is not None and saving.rounds[1] < saving.rounds[0]:
                more = "would have had fewer rebalances, but about as much downtime or more"
            else:
                saving, more = None, "show no saving"
            unsure.append(f"the replayed episodes {more}")
    return Advice(
        rule=rule,
        group_id=history.group_id,
        severity=severity,
        evidence=list(finding.evidence),
        change=finding.change,
        saving=saving,
        confidence=finding.confidence or ("medium" if unsure else "high"),
        title=(RULES.get(section) or FILE_RULES[section])[0],
        client=history.client.name,
        settings=dict(option_of(history.client, *setting) for setting in finding.settings.items()),
        unsure=unsure,
        episodes=sorted({number for item in finding.evidence for number in item.episodes}, reverse=True),
        docs=f"{DOCS}#{section}",
    )


def _worst_first(advice: Advice) -> tuple[int, int, str]:
    downtime = None if advice.saving is None else advice.saving.downtime_ms
    saved_ms = 0 if downtime is None else downtime[0] - downtime[1]
    return -SEVERITIES.index(advice.severity), -saved_ms, advice.group_id
