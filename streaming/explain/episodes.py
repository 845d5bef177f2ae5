"""Episodes from logs, classified like those of the stream, without facts that logs do not prove."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import structs

from streaming.episodes.fold import QUIET_TIME_MS, apply_note
from streaming.episodes.notes import BounceNote, RoundNote
from streaming.episodes.record import record
from streaming.episodes.state import EpisodeState
from streaming.episodes.story import story
from streaming.explain.rounds import LogRound
from streaming.records.diffs import Diff
from streaming.records.episodes import Episode, EpisodeKind, Rebalancing
from streaming.records.events import Evidence

#: Kinds of episodes that depend on the number of members, which not all logs contain.
_KINDS_WITH_COUNT: Final[frozenset[EpisodeKind]] = frozenset(
    {"first-start", "scale-out", "scale-in", "shutdown", "fleet-replaced", "surge", "recreate", "zone-lost"}
)


class LogEpisode(NamedTuple):
    """An episode found in logs, and its rounds.

    Attributes:
        is_counted: True if the numbers of members are exact.
        has_moves: True if the logs show the owners of partitions in every round.
    """

    episode: Episode
    rounds: list[LogRound]
    is_counted: bool
    has_moves: bool


class EpisodeBuilder:
    """Combines the rounds of one consumer group into episodes."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._state: EpisodeState | None = None
        self._rounds_of_episode: list[LogRound] = []
        self._last: LogRound | None = None

    def add(self, item: LogRound | BounceNote) -> Iterator[LogEpisode]:
        """Add a round, or static members' rejoins without a round; yield the episode that ended before it, if any."""
        note = self._make_note(item) if isinstance(item, LogRound) else item
        self._state, closed = apply_note(self._state, note, QUIET_TIME_MS)
        if closed is not None:
            yield self._make_episode(closed, closed=True)
        if isinstance(item, LogRound):
            self._rounds_of_episode.append(item)
            self._last = item

    def finish(self, newest: int) -> Iterator[LogEpisode]:
        """Yield the last episode, closed if the quiet time passed before ``newest``, the last time in the logs (ms)."""
        if self._state is not None and self._state.open:
            is_open = bool(self._rounds_of_episode) and self._rounds_of_episode[-1].is_unfinished
            yield self._make_episode(self._state, closed=not is_open and newest > self._state.last_at + QUIET_TIME_MS)

    def _make_note(self, item: LogRound) -> RoundNote:
        last, number = self._last, 1
        if last is not None and item.is_follow_up and not item.joined and not item.gone:
            number = 2 if item.began - (last.ended or last.began) < QUIET_TIME_MS else 1
        diff = Diff(
            group_id=item.group_id,
            protocol=item.protocol,
            assignor=item.assignor,
            cause=item.cause,
            kind=item.kind,
            generation=-1 if item.number is None else item.number,
            group_epoch=None,
            round=number,
            timestamp=max(0, item.ended if item.ended is not None else item.began),
            members={},
            unassigned={},
            moved=0,
            violations=[],
        )
        return RoundNote(
            id=f"{item.group_id}/{item.number or item.began}",
            timestamp=diff.timestamp,
            diff=diff,
            joined=item.joined,
            gone=item.gone,
            before=item.before,
            after=item.after,
            names=item.names,
            moved=item.moved or {},
            existed_before=item.is_midway,
        )

    def _make_episode(self, state: EpisodeState, *, closed: bool) -> LogEpisode:
        episode = record(self._group_id, state, closed=closed)
        rounds, self._rounds_of_episode = self._rounds_of_episode, []
        is_counted = all(item.is_counted for item in rounds)
        has_moves = bool(rounds) and all(item.moved is not None for item in rounds)
        if not is_counted and _lacks_member_count(episode, rounds):
            why = Evidence(source="episode", reason="the logs do not show how many members the group has")
            episode = structs.replace(episode, kind="unknown", sure=False, evidence=[*episode.evidence, why])
        if not closed and rounds and rounds[-1].is_unfinished and episode.kind != "shutdown":
            now = None if rounds[-1].began < 0 else Rebalancing(since=rounds[-1].began)
            episode = structs.replace(episode, status="rebalancing", rebalancing=now)
        text = story(episode, is_counted=is_counted, has_moves=has_moves)
        return LogEpisode(structs.replace(episode, story=text), rounds, is_counted, has_moves)


def _lacks_member_count(episode: Episode, rounds: list[LogRound]) -> bool:
    if episode.kind in ("rolling-restart", "restart"):
        if not episode.sure and any(item.is_from_clients for item in rounds):
            return True  # The same process may have rejoined.
        return len(episode.members.replaced) > 1 and (episode.kind == "restart" or not episode.sure)
    if episode.kind == "first-start":
        return not any(item.number == 1 for item in rounds)
    is_from_coordinator = not any(item.is_from_clients for item in rounds)
    if episode.kind in ("scale-in", "scale-out") and is_from_coordinator:
        # The coordinator's log shows that other members were in the group during the whole episode.
        return not all(item.before and item.after for item in rounds)
    # The coordinator logs when a classic group becomes empty.
    has_reason = episode.kind == "shutdown" and is_from_coordinator and rounds[-1].protocol == "classic"
    return episode.kind in _KINDS_WITH_COUNT and not has_reason


def round_document(entry: LogRound) -> dict[str, Any]:
    """Return a round as a JSON object, as ``explain --json`` prints it."""
    cause = entry.cause
    reasons = [item.reason for item in cause.evidence if item.kind == cause.kind and item.reason]
    reasons += [item.reason for item in cause.evidence if item.source not in ("comparison", "episode")]
    return {
        "type": "round",
        "groupId": entry.group_id,
        "generation" if entry.protocol == "classic" else "groupEpoch": entry.number,
        "began": entry.began if entry.began >= 0 else None,
        "ended": entry.ended if entry.ended is not None and entry.ended >= 0 else None,
        "kind": cause.kind,
        "memberIds": cause.member_ids,
        "reason": reasons[0] if reasons else None,
    }


def episode_document(entry: LogEpisode) -> dict[str, Any]:
    """Return an episode as a JSON object, as ``explain --json`` prints it, without fields that the logs do not show."""
    document: dict[str, Any] = {"type": "episode", **msgspec.to_builtins(entry.episode)}
    for name in ("rounds", "downtime", "waitingFor", *(() if entry.has_moves else ("moved", "movedAgain"))):
        del document[name]
    if not entry.is_counted:
        del document["members"]["before"], document["members"]["after"]
    for pair in document["members"]["replaced"]:
        if pair["left"] == pair["joined"] and pair["by"] == "instance id":
            del pair["joined"]
    return document
