"""Scenarios built from past episodes and their diffs."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET

from assignors.assignment import collect_lists
from assignors.model import Topic
from streaming.records.codec import rfc3339
from streaming.records.diffs import Diff, MemberDiff
from streaming.records.episodes import Episode
from streaming.records.names import display_names
from streaming.simulation import changes
from streaming.simulation.forecast import ChangeCost, find_way, simulate_cost
from streaming.simulation.live_group import LiveGroup, LiveMember, names_of
from streaming.simulation.parse import parse_scenario


def find_episode(group_id: str, episodes: Sequence[Episode], choice: str) -> Episode:
    """Return a group's episode with this number, or for ``last`` the newest episode with a membership change."""
    if choice == "last":
        changed = ((episode, episode.members) for episode in episodes)
        candidates = [episode for episode, m in changed if m.joined or m.left or m.lost or m.gone or m.replaced]
        if not candidates:
            raise changes.NoForecast(
                f"--from {choice}: group {group_id} has no episode in which members joined or left"
            )
        return max(candidates, key=lambda candidate: (candidate.opened_at, candidate.episode))
    for episode in episodes:
        if str(episode.episode) == choice:
            return episode
    numbers = sorted(episode.episode for episode in episodes)
    range_text = f"there are {numbers[0]} to {numbers[-1]}" if numbers else "none of it is known"
    raise changes.NoForecast(f"--from {choice}: group {group_id} has no such episode; {range_text}")


def past_change(
    episode: Episode, diffs: Sequence[Diff], now: LiveGroup | None, times: Mapping[str, int]
) -> changes.RequestedChange:
    """Return a past episode as a change to simulate; ``now``: the current group, for its settings and topic ids."""
    group = f"group {episode.group_id}, episode {episode.episode}"
    if not diffs:
        raise changes.NoForecast(f"{group}: the diff topic no longer has any of its rounds")
    start = changes.baseline_of(_group_before(episode, diffs, now))
    names = dict(zip(_members_before(episode, diffs[0]), start.members, strict=True))
    events = _events(episode, diffs, names, start.document["session_timeout_ms"])
    if not events:
        raise changes.NoForecast(f"{group}: {episode.kind}: no member joined or left, so there is nothing to replay")
    unsure = [*start.unsure, "members joined and departed a little before their rounds, whose times are assumed"]
    if now is None:
        unsure.append("the group is gone: settings and topic ids of its members are not known")
    if len(diffs) < episode.round_count:
        unsure.append(f"{len(diffs)} of the episode's {episode.round_count} rounds are known, the last ones")
    if episode.members.omitted:
        unsure.append(f"the episode does not name {episode.members.omitted} of its members")
    return changes.RequestedChange(
        start._replace(unsure=tuple(unsure)),
        f"The {episode.kind} of {rfc3339(episode.opened_at)} (episode {episode.episode})",
        {**start.document, **times, "events": events},
        None if (measured := episode.downtime) is None else (measured.lower_ms, measured.upper_ms),
    )


def forecast_past_episode(
    episode: Episode, diffs: Sequence[Diff], now: LiveGroup | None, times: Mapping[str, int]
) -> ChangeCost | None:
    """Return the forecast cost of a past episode; None if the episode can't be forecast.

    Arguments are those of :func:`past_change`. Changes of assignors are not simulated, as the members' lists of
    assignors are unknown.
    """
    if episode.kind == "assignor-change" or len(diffs) < episode.round_count:
        return None
    try:
        change = past_change(episode, diffs, now, times)
    except changes.NoForecast:
        return None
    start, document = change.start, change.document
    own = find_way(start.protocol, start.protocol, start.assignor)
    if (diffs[0].protocol, diffs[-1].protocol) != ("classic", "consumer"):
        return simulate_cost(parse_scenario(document), own, rounds=False)
    protocol_settings = {"group_protocol": "classic", "assignors": [own.assignor]}
    members = {name: {**config, **protocol_settings} for name, config in document["members"].items()}
    consumer_protocol = {"group_protocol": "consumer"}
    events = [event | consumer_protocol if event.keys() & {"bounce", "join"} else event for event in document["events"]]
    scenario = parse_scenario({**document, "members": members, "events": events})
    return simulate_cost(scenario, find_way("consumer"), keeps_configured=True, rounds=False)


def _members_before(episode: Episode, first: Diff) -> dict[str, MemberDiff]:
    replaced = {member.joined for member in episode.members.replaced if member.joined != member.left}
    joined = set(episode.members.joined)
    return {m: change for m, change in first.members.items() if m not in replaced and (change.owned or m not in joined)}


def _group_before(episode: Episode, diffs: Sequence[Diff], now: LiveGroup | None) -> LiveGroup:
    first = diffs[0]
    before = _members_before(episode, first)
    current = {} if now is None else {member.member_id: member for member in now.members}
    usual = next(iter(current.values()), LiveMember(member_id=""))
    holdings = [after for diff in diffs for _, after in diff.holdings()]
    seen = collect_lists(holdings + [change.owned for diff in diffs for change in diff.members.values()])
    counts = {topic: max(seen[topic]) + 1 for topic in sorted(seen)}
    live = {} if now is None else now.topics
    members = tuple(
        LiveMember(
            member_id=member_id,
            names=names_of(change),
            topics=tuple(counts),
            assignors=current[member_id].assignors if member_id in current else (),
            owned=change.owned,
            session_timeout_ms=current.get(member_id, usual).session_timeout_ms,
            rebalance_timeout_ms=current.get(member_id, usual).rebalance_timeout_ms,
            classic=first.protocol == "classic",
        )
        for member_id, change in before.items()
    )
    return LiveGroup(
        group_id=episode.group_id,
        kind="consumer" if first.kind is UNSET else first.kind,
        protocol=first.protocol,
        assignor=first.assignor,
        number=max((first.group_epoch if first.generation is None else first.generation) or 1, 2) - 1,
        timestamp=first.timestamp,
        members=members,
        topics={
            name: Topic(name, count, None, live[name].topic_id if name in live else None)
            for name, count in counts.items()
        },
    )


def _events(episode: Episode, diffs: Sequence[Diff], names: Mapping[str, str], session_ms: int) -> list[dict[str, Any]]:
    """Return the episode's joins, leaves, crashes and restarts as events, at the times of their rounds.

    A member whose session expired is assumed to have crashed one session timeout before its round.
    """
    present = set(names)
    joins: list[tuple[str, int]] = []
    departures: list[tuple[str, int]] = []
    diff_by_id: dict[str, MemberDiff] = {}
    for diff in diffs:
        current = {member_id for member_id, change in diff.members.items() if change.present is not False}
        diff_by_id.update(diff.members)
        departures += ((member_id, diff.timestamp) for member_id in sorted(present - current))
        joins += ((member_id, diff.timestamp) for member_id in sorted(current - present))
        present = current
    names_by_id = dict(names)
    new = {member_id: diff_by_id[member_id] for member_id, _ in joins if member_id not in names_by_id}
    names_by_id |= changes.scenario_names(display_names(new), new, taken=names.values())
    successors = {member.left: member.joined for member in episode.members.replaced}
    fenced = {name for diff in diffs if diff.cause.kind == "member.fenced" for name in diff.cause.member_ids}
    lost = fenced.union(episode.members.lost)
    # If a dynamic member's successor joined early, the rebalance waited for the end of the old member's session.
    evidence = [item for diff in diffs for item in diff.cause.evidence if item.kind == "member.fenced"]
    reported = diff_by_id.keys() & {member_id for item in evidence for member_id in item.member_ids}
    expired_ids = {member_id for member_id in reported if diff_by_id[member_id].group_instance_id is None}
    events: list[dict[str, Any]] = []
    for member_id, at in departures:
        back = next((join for join in joins if join[0] == successors.get(member_id) and join[1] >= at), None)
        if back is not None:
            joins.remove(back)
            names_by_id[back[0]] = names_by_id[member_id]
        if member_id in expired_ids or (member_id in lost and (back is None or back[1] > at)):
            events.append({"at": at - session_ms, "crash": names_by_id[member_id]})
            if back is not None:
                instance_id = diff_by_id[back[0]].group_instance_id
                events.append({"at": back[1], "join": names_by_id[member_id], "instance_id": instance_id})
        elif back is not None:
            # A member that left and returned in the same round was away for less than the duration of that round.
            events.append({"at": at, "bounce": names_by_id[member_id], "down_ms": max(back[1] - at, 1)})
        else:
            events.append({"at": at, "leave": names_by_id[member_id]})
    ids = {member_id: diff_by_id[member_id].group_instance_id for member_id, _ in joins}
    events += [{"at": at, "join": names_by_id[member_id], "instance_id": ids[member_id]} for member_id, at in joins]
    events.sort(key=lambda event: event["at"])
    first = events[0]["at"] if events else 0
    return [{**event, "at": event["at"] - first + changes.BEGIN_MS} for event in events]
