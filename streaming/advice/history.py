"""Histories of groups, the input of advice: episodes, incidents, latest assignment, settings, client configuration."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from msgspec import UNSET

from streaming.advice.clients import CONNECT, SINK, STREAMS, UNKNOWN, ClientConfiguration, ClientLibrary, library_of
from streaming.advice.model import AdviceEvidence, Severity
from streaming.records.diffs import Diff, LatestAssignment, MemberNames
from streaming.records.episodes import Episode, Incident
from streaming.simulation.live_group import LiveGroup, LiveMember

DAY_MS: Final = 86_400_000
#: Length of the history that advice uses.
WINDOW_MS: Final = 30 * DAY_MS
#: Kinds of episodes in which the members of a group were restarted on purpose.
DEPLOY_KINDS: Final = frozenset({"rolling-restart", "restart", "fleet-replaced", "surge", "recreate"})
#: Kinds of episodes in which members joined or departed.
MEMBERSHIP_CHANGES: Final = DEPLOY_KINDS | {"scale-out", "scale-in", "crash", "poll-timeout", "zone-lost"}
#: Default session timeout of clients since 3.0 (KIP-735), and of brokers for KIP-848.
DEFAULT_SESSION_MS: Final = 45_000
#: The smallest number of episodes with the same problem that counts as a pattern.
MIN_COUNT: Final = 2
#: Proven downtime that is worth a warning: each episode's longest stop of a partition, summed over 30 days.
MIN_SAVED_MS: Final = 30_000


class MeasuredRestart(NamedTuple):
    """One restart of a member, measured from the rounds of an episode.

    ``away_ms``: time from the member's leave or last heartbeat to its return. ``is_lost``: True if the member's session
    expired before it returned.
    """

    episode: int
    away_ms: int
    is_lost: bool


@dataclass(frozen=True)
class GroupHistory:
    """History of a group, from which the rules of advice derive findings.

    Args:
        now_ms: the end of the history's window.
        episodes: in any order.
        live: the group's members with subscriptions and timeouts, if the membership log was read.
        rounds: diffs of each episode, by the episode's number; replays and measured restarts need them.
        configuration: the configuration of the group's clients.
    """

    group_id: str
    now_ms: int
    episodes: Sequence[Episode] = ()
    latest: LatestAssignment | None = None
    incidents: Sequence[Incident] = ()
    live: LiveGroup | None = None
    rounds: Mapping[int, Sequence[Diff]] = field(default_factory=dict)
    configuration: ClientConfiguration | None = None

    @cached_property
    def recent_episodes(self) -> list[Episode]:
        """The group's episodes of the last 30 days, newest first."""
        episodes = [episode for episode in self.episodes if episode.updated_at > self.now_ms - WINDOW_MS]
        return sorted(episodes, key=lambda episode: episode.episode, reverse=True)

    def episodes_of(self, kinds: Iterable[str]) -> list[Episode]:
        """Return the group's recent episodes of these kinds that have ended, newest first."""
        return [episode for episode in self.recent_episodes if episode.kind in kinds and episode.closed_at is not None]

    def incidents_of(self, kind: str) -> list[Incident]:
        """Return the group's incidents of this kind in the last 30 days, newest first."""
        since = self.now_ms - WINDOW_MS
        incidents = [incident for incident in self.incidents if incident.kind == kind and incident.updated_at > since]
        return sorted(incidents, key=lambda incident: incident.incident, reverse=True)

    @cached_property
    def kind(self) -> str:
        """The kind of the group: ``consumer``, ``connect``, ``streams`` or ``share``."""
        return "consumer" if self.latest is None or self.latest.kind is UNSET else self.latest.kind

    @cached_property
    def _newest_record(self) -> LatestAssignment | Episode | None:
        return self.latest or next(iter(self.recent_episodes), None)

    @property
    def protocol(self) -> str | None:
        """The group's protocol; None if unknown."""
        return None if self._newest_record is None else self._newest_record.protocol

    @property
    def assignor(self) -> str | None:
        """The group's assignor; None if unknown."""
        return None if self._newest_record is None else self._newest_record.assignor

    @property
    def is_classic(self) -> bool:
        """True if the group is a consumer group under the classic protocol."""
        return self.kind == "consumer" and self.protocol == "classic"

    @cached_property
    def assignment_at_rest(self) -> LatestAssignment | None:
        """The assignment of a consumer group that has members and no open episode; None for other groups."""
        is_open = bool(self.recent_episodes) and self.recent_episodes[0].closed_at is None
        latest = self.latest
        return None if is_open or latest is None or self.kind != "consumer" or not latest.members else latest

    @cached_property
    def names(self) -> Mapping[str, MemberNames]:
        """Names of the current members, by member id."""
        if self.latest is None:
            return {}
        return {member: self.latest.names.get(member, MemberNames()) for member in self.latest.members}

    @cached_property
    def static_members(self) -> int:
        """The number of current members with an instance id."""
        return sum(bool(member.group_instance_id) for member in self.names.values())

    @cached_property
    def client(self) -> ClientLibrary:
        """The client library that the members use."""
        if self.configuration is not None:
            return self.configuration.client
        if self.kind in ("connect", "streams"):
            return CONNECT if self.kind == "connect" else STREAMS
        client = library_of(member.client_id for member in self.names.values() if member.client_id)
        return SINK if client is UNKNOWN and self.group_id.startswith("connect-") else client

    @cached_property
    def session_timeout_ms(self) -> int | None:
        """The longest session timeout of the members; None if no record or file has it."""
        return self._longest_member_setting("session.timeout.ms", lambda member: member.session_timeout_ms)

    @cached_property
    def poll_interval_ms(self) -> int | None:
        """``max.poll.interval.ms``, which is the members' rebalance timeout; None if unknown."""
        return self._longest_member_setting("max.poll.interval.ms", lambda member: member.rebalance_timeout_ms)

    def _longest_member_setting(self, option: str, setting_of_member: Callable[[LiveMember], int | None]) -> int | None:
        configured_ms = self.configuration and self.configuration.milliseconds(option)
        members = () if self.live is None else self.live.members
        return configured_ms or max((setting_of_member(member) or 0 for member in members), default=0) or None

    @cached_property
    def restarts(self) -> list[MeasuredRestart]:
        """The measured restarts of members (departure to return) in the recent episodes, newest episode first."""
        return [restart for episode in self.recent_episodes for restart in self._restarts_of_episode(episode)]

    def _restarts_of_episode(self, episode: Episode) -> Iterator[MeasuredRestart]:
        diffs = self.rounds.get(episode.episode, ())
        for pair in episode.members.replaced if diffs else ():
            departure = next((diff for diff in diffs if _is_member(diff, pair.left) is False), None)
            if departure is None:
                continue
            later = [diff for diff in diffs if pair.left != pair.joined or diff.timestamp > departure.timestamp]
            back = next((diff for diff in later if _is_member(diff, pair.joined)), None)
            if back is None:
                continue
            is_lost = departure.cause.kind == "member.fenced" or episode.kind == "crash"
            session_ms = (self.session_timeout_ms or DEFAULT_SESSION_MS) if is_lost else 0
            yield MeasuredRestart(episode.episode, back.timestamp - departure.timestamp + session_ms, is_lost)


def _is_member(diff: Diff, member_id: str) -> bool | None:
    member = diff.members.get(member_id)
    return None if member is None else member.present is not False


def incident_fact(incident: Incident, more: str = "") -> AdviceEvidence:
    """Return an incident as evidence for a piece of advice."""
    episodes = [] if incident.episode is None else [incident.episode]
    text = f"Incident {incident.incident}: {incident.story}{more}"
    return AdviceEvidence(text=text, episodes=episodes, figures={"incident": incident.incident})


def severity_of(incidents: Iterable[Incident]) -> Severity:
    """Return the severity of advice about these incidents: ``critical`` if one of them is open, else ``warning``."""
    return "critical" if any(incident.closed_at is None for incident in incidents) else "warning"


def longest_stops_ms(episodes: Iterable[Episode]) -> int:
    """Return the sum (ms) over the episodes of the longest outage of a partition, by its lower bound."""
    return sum(episode.downtime.longest_ms[0] for episode in episodes if episode.downtime is not None)
