"""Rules about members and partitions: shared instance ids, idle members, uneven load, churn, known faults."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from assignors.assignment import size
from streaming.advice.clients import AIOKAFKA, COOPERATIVE, STRATEGY, ClientConfiguration
from streaming.advice.history import MIN_COUNT, MIN_SAVED_MS, GroupHistory, incident_fact, longest_stops_ms, severity_of
from streaming.advice.model import Finding, Severity, list_text, make_evidence
from streaming.episodes.story import count, member_list
from streaming.records.diffs import Diff
from streaming.records.events import PROBING
from streaming.records.names import display_names

#: Placeholders in a value, which are replaced when the process starts.
_PLACEHOLDER: Final = re.compile(r"[$%{<]|@\w+@")


def duplicate_instance_id(history: GroupHistory) -> Finding | None:
    """Rule: two processes have the same group.instance.id and fence each other."""
    incidents = history.incidents_of("duplicate-instance-id")
    episodes = history.episodes_of(("duplicate-instance-id",))
    evidence = [*map(incident_fact, incidents[:2]), *(make_evidence(each.story, [each]) for each in episodes[:2])]
    is_sure = all(incident.sure for incident in incidents) and all(episode.sure for episode in episodes)
    finding = Finding(
        severity_of(incidents),
        evidence,
        "Give each process a group.instance.id of its own, such as the name of its pod in a StatefulSet",
        {"group.instance.id": "<an id of this process alone>"},
        unsure=() if is_sure else ("one process that restarts again and again looks the same",),
    )
    return finding if evidence else None


def shared_instance_id(config: ClientConfiguration) -> Finding | None:
    """Rule: a configuration file has a fixed group.instance.id, which all processes with this file share."""
    value = config.values.get("group.instance.id", "")
    if not value or _PLACEHOLDER.search(value):
        return None
    return Finding(
        "warning",
        [make_evidence(f"{config.quote('group.instance.id')} is the same for every process that reads the file")],
        "Fill it in for each process, with its host's or its StatefulSet pod's name",
        {"group.instance.id": "${HOSTNAME}"},
        unsure=("a file that one process alone reads is right",),
    )


def idle_members(history: GroupHistory) -> Finding | None:
    """Rule: the group has more members than partitions, so that some members never get partitions."""
    latest = history.assignment_at_rest
    if latest is None:
        return None
    sizes = {member: size(share) for member, share in latest.members.items()}
    idle, total = [member for member, number in sizes.items() if not number], sum(sizes.values())
    if not idle or len(sizes) <= total:
        return None
    who = member_list(idle, display_names(history.names))
    text = f"{len(idle)} of {count(len(sizes), 'member')} without a partition, as there are {total}: {who}"
    change = f"Run {total} members, or add partitions: each idle member still takes part in every rebalance"
    return Finding("info", [make_evidence(text, members=len(sizes), partitions=total, idle=len(idle))], change)


def uneven_partitions(history: GroupHistory) -> Finding | None:
    """Rule: partitions do not divide evenly, so that some members have at least half more partitions than others."""
    latest = history.assignment_at_rest
    if latest is None:
        return None
    sizes = [size(share) for share in latest.members.values()]
    most, least, total = max(sizes), min(sizes), sum(sizes)
    if not least or most != least + 1 or 2 * most < 3 * least:
        return None
    text = f"{total} partitions for {len(sizes)} members: {sizes.count(most)} have {most}, the others {least}"
    members = next(number for number in range(len(sizes), total + 1) if total % number == 0)
    partitions = -(-total // len(sizes)) * len(sizes)
    change = f"Run {members} members, or grow to {partitions} partitions in all: the busiest members fall behind first"
    return Finding("info", [make_evidence(text, partitions=total, members=len(sizes), most=most, least=least)], change)


def range_skew(history: GroupHistory) -> Finding | None:
    """Rule: ``range`` assigns the extra partitions of several topics to the same members."""
    latest = history.assignment_at_rest
    if latest is None or latest.assignor != "range":
        return None
    sizes = {member: size(share) for member, share in latest.members.items()}
    counts = Counter(topic for share in latest.members.values() for topic, numbers in share.items() for _ in numbers)
    most, least = max(sizes.values()), min(sizes.values())
    if len(counts) < MIN_COUNT or most - least < MIN_COUNT or 2 * most < 3 * least:
        return None
    may_join = len(set(counts.values())) == 1
    who = member_list([member for member, number in sizes.items() if number == most], display_names(history.names))
    text = f"Range over {len(counts)} topics gives {who} {most} partitions, and others {least}"
    strategy = COOPERATIVE if history.client.cooperative else "roundrobin"
    settings = {STRATEGY: strategy} if history.is_classic else {"group.remote.assignor": "uniform"}
    return Finding(
        "info" if may_join else "warning",
        [make_evidence(text, topics=len(counts), most=most, least=least)],
        f"Use {next(iter(settings.values()))}: range gives each topic's remainder to the same members",
        settings,
        unsure=("all topics have as many partitions: keep range if the application joins them",) if may_join else (),
    )


def metadata_rebalances(history: GroupHistory) -> Finding | None:
    """Rule: new, deleted and growing topics rebalance the group."""
    episodes = history.episodes_of(("subscription-change", "partition-growth", "topic-added", "topic-deleted"))
    if len(episodes) <= MIN_COUNT:
        return None
    text = f"Changed topics or subscriptions in {len(episodes)} of {count(len(history.recent_episodes), 'episode')}: "
    stops = longest_stops_ms(episodes)
    return Finding(
        "warning" if stops >= MIN_SAVED_MS else "info",
        [make_evidence(text + list_text(episodes), episodes, longestStopsMs=stops)],
        "Create topics and partitions together, ahead of their use, and narrow the pattern that is subscribed to",
    )


def probing_rebalances(history: GroupHistory) -> Finding | None:
    """Rule: Kafka Streams rebalances repeatedly to check whether warm-up tasks have caught up."""
    probes = {}
    for episode in history.recent_episodes:
        causes = [diff.cause.kind for diff in history.rounds.get(episode.episode, ())]
        probes[episode.episode] = causes.count(PROBING) or any(item.kind == PROBING for item in episode.evidence)
    episodes = [episode for episode in history.recent_episodes if probes[episode.episode]]
    total = sum(probes.values())
    if history.kind != "streams" or total <= MIN_COUNT:
        return None
    return Finding(
        "info",
        [make_evidence(f"At least {total} probing rebalances in {list_text(episodes)}", episodes, probing=total)],
        "Keep standby tasks, so that a new owner has caught up when it takes over; or raise "
        "acceptable.recovery.lag to the lag that a takeover may have",
        {"num.standby.replicas": "1", "acceptable.recovery.lag": "<offsets that a takeover may lag>"},
        unsure=("the lag of tasks' state is in no record of the group",),
    )


def known_fault(history: GroupHistory) -> Finding | None:
    """Rule: aiokafka's consumers that fetch only from their own partitions leave the group while they have none."""
    episodes = [each for each in history.episodes_of(("scale-in",)) if _left_idle(history.rounds.get(each.episode, ()))]
    if history.client is not AIOKAFKA or not episodes:
        return None
    link = "https://github.com/aio-libs/aiokafka/issues/720"
    text = f"Members without partitions left in {list_text(episodes)}, as aiokafka takes them for stuck ({link})"
    change = "Run no more members than partitions, or call getmany() without partitions; restart members that left"
    unsure = ("that nobody stopped these members: aiokafka gives no reason for a LeaveGroup",)
    severity: Severity = "warning" if len(episodes) >= MIN_COUNT else "info"
    return Finding(severity, [make_evidence(text, episodes, link=link)], change, unsure=unsure)


def _left_idle(rounds: Sequence[Diff]) -> bool:
    departed = [member for diff in rounds for member in diff.members.values() if member.present is False]
    return bool(departed) and not any(size(member.owned) for member in departed)
