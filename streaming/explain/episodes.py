"""Episodes from the rounds of logs, classified as the stream's are. What logs can't prove is left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import structs

from streaming.episodes.fold import QUIET_MS, advance
from streaming.episodes.identity import MemberIdentity
from streaming.episodes.members import requesters
from streaming.episodes.notes import BounceNote, RoundNote
from streaming.episodes.record import record
from streaming.episodes.state import EpisodeState
from streaming.episodes.story import story
from streaming.explain.rounds import Bounce, LogRound
from streaming.records.episodes import Episode, EpisodeKind, Rebalancing
from streaming.records.events import Evidence

#: Kinds that follow from the number of members, which not all logs have.
_COUNTED: Final[frozenset[EpisodeKind]] = frozenset(
    {
        *(
            "first-start",
            "scale-out",
            "scale-in",
            "shutdown",
            "fleet-replaced",
            "surge",
            "recreate",
            "zone-lost",
        ),
    }
)
_UNCOUNTED: Final = "the logs do not show how many members the group has"


class LogEpisode(NamedTuple):
    """An episode, its rounds, and what the logs show of it.

    Attributes:
        episode: the record.
        rounds: its rounds.
        is_counted: the numbers of members are exact.
        has_moves: the logs show who owned what in every round.
    """

    episode: Episode
    rounds: list[LogRound]
    is_counted: bool
    has_moves: bool


class EpisodeBuilder:
    """Groups the rounds of one group into episodes."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._state: EpisodeState | None = None
        self._rounds: list[LogRound] = []
        self._seen: list[LogRound] = []
        self._last: LogRound | None = None

    def add(self, item: LogRound | Bounce) -> Iterator[LogEpisode]:
        """Take a round, and yield the episode that ended before it."""
        note = self._bounce(item) if isinstance(item, Bounce) else self._note(item)
        step = advance(self._state, note)
        if step.closed is not None:
            yield self._finished(step.closed, closed=True)
        self._state = step.state
        if isinstance(item, LogRound):
            self._rounds.append(item)
            self._last = item

    def finish(self, newest: int) -> Iterator[LogEpisode]:
        """Yield the last episode; closed if the logs go on for the quiet time. ``newest``: their last time, ms."""
        if self._state is not None and self._state.open:
            is_open = bool(self._rounds) and self._rounds[-1].ended is None
            yield self._finished(self._state, closed=not is_open and newest > self._state.last_at + QUIET_MS)

    def _note(self, one: LogRound) -> RoundNote:
        last, number = self._last, 1
        if last is not None and one.is_follow_up and not one.joined and not one.gone:
            number = 2 if one.began - (last.ended or last.began) < QUIET_MS else 1
        return RoundNote(
            id=f"{one.group_id}/{one.number}",
            timestamp=max(0, one.ended if one.ended is not None else one.began),
            number=number,
            protocol=one.protocol,
            assignor=one.assignor,
            kind=one.kind,
            cause=one.cause,
            delay_ms=None,
            joined=one.joined,
            gone=one.gone,
            requesters=[
                member
                for member in (requesters(one.cause) if number == 1 else ())
                if member not in one.joined and member not in one.gone
            ],
            before=one.before,
            after=one.after,
            names=one.names,
            moved=one.moved or {},
            unassigned={},
            midway=one.is_midway,
            generation=-1 if one.number is None else one.number,
        )

    def _bounce(self, one: Bounce) -> BounceNote:
        names = {member: MemberIdentity(None, None, one.instance_id) for member in (one.old, one.new)}
        at = max(0, one.at)
        return BounceNote(
            f"{one.group_id}/{at}", at, {one.old: one.new}, names, one.size, one.protocol, None, "consumer"
        )

    def _finished(self, state: EpisodeState, *, closed: bool) -> LogEpisode:
        found = record(self._group_id, state, closed=closed)
        rounds, self._rounds = self._rounds, []
        is_counted = all(one.is_counted for one in rounds)
        has_moves = bool(rounds) and all(one.moved is not None for one in rounds)
        if not is_counted and _needs_count(found, rounds):
            why = Evidence(source="episode", reason=_UNCOUNTED)
            found = structs.replace(found, kind="unknown", sure=False, evidence=[*found.evidence, why])
        if not closed and rounds and rounds[-1].ended is None:
            now = Rebalancing(since=max(0, rounds[-1].began))
            found = structs.replace(found, status="rebalancing", rebalancing=now)
        text = story(found, is_counted=is_counted, has_moves=has_moves)
        return LogEpisode(structs.replace(found, story=text), rounds, is_counted, has_moves)


def _needs_count(found: Episode, rounds: list[LogRound]) -> bool:
    """Return whether the kind may be wrong because the number of members is not known."""
    if found.kind in ("rolling-restart", "restart"):
        if not found.sure and any(one.is_by_clients for one in rounds):
            return True  # the same process may have joined again
        return len(found.members.replaced) > 1 and (found.kind == "restart" or not found.sure)
    if found.kind == "first-start":
        return not any(one.number == 1 for one in rounds)
    by_coordinator = not any(one.is_by_clients for one in rounds)
    if found.kind in ("scale-in", "scale-out") and by_coordinator:
        # The coordinator's log shows that others were in the group all the time.
        return not all(one.before and one.after for one in rounds)
    return found.kind in _COUNTED and not (found.kind == "shutdown" and by_coordinator)


def round_document(one: LogRound) -> dict[str, Any]:
    """Return a round as `explain --json` prints it."""
    cause = one.cause
    reason = next((item.reason for item in cause.evidence if item.kind == cause.kind and item.reason), None)
    if reason is None:
        reason = next(
            (item.reason for item in cause.evidence if item.source not in ("comparison", "episode")), None
        )
    return {
        "type": "round",
        "groupId": one.group_id,
        "generation" if one.protocol == "classic" else "groupEpoch": one.number,
        "began": one.began if one.began >= 0 else None,
        "ended": one.ended if one.ended is not None and one.ended >= 0 else None,
        "kind": cause.kind,
        "memberIds": cause.member_ids,
        "reason": reason,
    }


def episode_document(one: LogEpisode) -> dict[str, Any]:
    """Return an episode as `explain --json` prints it: without the fields that the logs can't tell."""
    document: dict[str, Any] = {"type": "episode", **msgspec.to_builtins(one.episode)}
    for name in ("rounds", "downtime", "waitingFor", *(() if one.has_moves else ("moved", "movedAgain"))):
        del document[name]
    if not one.is_counted:
        del document["members"]["before"], document["members"]["after"]
    for pair in document["members"]["replaced"]:
        if pair["left"] == pair["joined"] and pair["by"] == "instance id":
            del pair["joined"]
    return document
