"""Incidents of the stream's groups: what the pure room beside the episodes is asked, and when.

With each note of an episode; when a topic has other partitions; when the log says that a group is quiet; and once
more when the group is deleted. Each is an event of the log.
"""

from __future__ import annotations

from assignors.shares import held, unassigned
from streaming.episodes import waiting
from streaming.episodes.identity import MemberIdentity
from streaming.episodes.notes import BounceNote, RoundNote
from streaming.episodes.state import EpisodeState
from streaming.incidents import detection, lifecycle
from streaming.incidents.state import AtRest, IncidentState, MemberAtRest, Thresholds
from streaming.monitor.rendering import IncidentOutput
from streaming.monitor.state import GroupState, MemberState, subscribed
from streaming.monitor.tracked import Tracked
from streaming.wire.events import Event, GroupDeleted, Holding, PartitionsChanged

_NONE = IncidentState()


class Alarms:
    """The incidents of one group while events are told: what they become, and what is to be written.

    Args:
        tracked: the group.
        limits: when something is an incident.
        storm_turns: how often one member is the reason of a rebalance in a storm.
    """

    def __init__(self, tracked: Tracked, limits: Thresholds, storm_turns: int) -> None:
        self._tracked = tracked
        self._limits = limits
        self._storm_turns = storm_turns
        self.outputs: list[IncidentOutput] = []

    def note(self, event: Event, note: RoundNote | BounceNote, episode: EpisodeState, *, anew: bool) -> None:
        """Take a note of the group's episode, which is ``episode`` after it."""
        known = self._tracked.incidents or _NONE
        group_id, turns = event.data.group_id, self._storm_turns
        after = detection.hear(known, group_id, note, episode, self._limits, storm_turns=turns, anew=anew)
        self._take(event, known, after)

    def topics_or_end(self, event: Event, before: GroupState | None) -> None:
        """Take the end of the group, or other partition counts of its topics."""
        state = self._tracked.state
        if isinstance(event.data, GroupDeleted):
            self.deleted(event)
        elif state is not None:
            self.topics(event, before, state)

    def topics(self, event: Event, before: GroupState | None, state: GroupState) -> None:
        """Take other partition counts."""
        known = self._tracked.incidents or _NONE
        after = detection.topics_gone(
            *(known, event.data.group_id, event.data.timestamp),
            subscribed=subscribed(state.members),
            before={name: topic.partitions for name, topic in before.topics.items()} if before else {},
            now={name: topic.partitions for name, topic in state.topics.items()},
            reopen_ms=self._limits.reopen_ms,
        )
        self._take(event, known, after)

    def quiet(self, event: Event, state: GroupState, episode: EpisodeState) -> None:
        """Take the word that the group is quiet; ``episode``: as that has left it."""
        known, at = self._tracked.incidents or _NONE, event.data.timestamp
        found = list(
            detection.at_rest(
                _at_rest(event.data.group_id, state), waiting.waits_of(episode), self._limits.skew
            )
        )
        over = {*detection.OF_REST, *detection.OF_EPISODE} - {one.kind for one in found}
        after = lifecycle.gone(known, sorted(over), at)
        for one in found:
            number = episode.number if episode.open else 0
            after = lifecycle.found(after, one, at, episode=number, reopen_ms=self._limits.reopen_ms)
        self._take(event, known, after)

    def deleted(self, event: Event) -> None:
        """Take the end of the group: nothing of it is wrong any more, and once it is forgotten nothing is kept."""
        known = self._tracked.incidents
        if known is not None:
            self._take(event, known, lifecycle.gone(known, list(known.known), event.data.timestamp))
            if self._tracked.state is None:
                self._tracked.report(None)

    def _take(self, event: Event, before: IncidentState, after: IncidentState) -> None:
        if after is not before:
            self.outputs += [IncidentOutput(event, *one) for one in lifecycle.changed(before, after)]
            self._tracked.report(after)


def concerned(tracked: Tracked, event: Event) -> bool:
    """Whether an event is about the end of a group, or about topics that are gone, or were."""
    if isinstance(event.data, GroupDeleted):
        return True
    if not isinstance(event.data, PartitionsChanged):
        return False
    known = tracked.incidents
    return (known is not None and known.lasts("topic-gone")) or any(
        not topic.partitions for topic in event.data.topics.values()
    )


def _at_rest(group_id: str, state: GroupState) -> AtRest:
    counts = {name: topic.partitions for name, topic in state.topics.items()}
    free: Holding
    if state.holds_tasks:
        free = {name: sorted(owners) for name, owners in state.last_owners.items()}
    else:
        free = unassigned(subscribed(state.members), counts, held(one.owned for one in state.members))
    return AtRest(
        group_id=group_id,
        kind=state.kind,
        protocol=state.protocol,
        members=[_member(member, state) for member in state.members],
        counts=counts,
        unassigned=free,
    )


def _member(member: MemberState, state: GroupState) -> MemberAtRest:
    # In a view of a KIP-848 group only classic members have a session timeout: the others' is the broker's.
    classic = member.session_timeout_ms is not None if state.observed else member.group_protocol == "classic"
    return MemberAtRest(
        member.member_id,
        MemberIdentity(member.client_id, member.client_host, member.instance_id),
        member.topics,
        sum(map(len, member.owned.values())),
        classic,
    )
