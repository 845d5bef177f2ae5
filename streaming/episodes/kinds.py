"""What an episode was, by the evidence that is there: :func:`judge`. What has none is ``unknown``.

docs/explanation/episodes.md has the definitions for people.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from streaming.episodes.members import BY_MEMBER, UNSURE, MemberHistory
from streaming.episodes.state import EpisodeState, tracks
from streaming.wire.episodes import EpisodeKind
from streaming.wire.events import COORDINATOR_MOVED, POLLING

#: So many turns of one member in one episode are a storm where nobody says otherwise.
STORM_TURNS: Final = 3
#: Where evidence comes from that says of a crash that it is likely.
_COMMITS: Final = "offset-commits"
_RESUBSCRIBED: Final = "member.subscription_changed"
_ALIKE: Final = "members were matched by names that others may have as well"
_TURNS: Final = "members went without leaving, one after the other"
_GLIMPSED: Final = "how many were away at once between two answers was not seen"
_REPORTED: Final = "what members report may come late: how many were away at once is not certain"
#: Evidence of this source that is no reason says that members' own reports are all there is.
_LISTENER: Final = "listener"


class Judged(NamedTuple):
    """The kind, whether the evidence proves it, and what to say where it does not."""

    kind: EpisodeKind
    sure: bool
    why: str = ""


class Faces(NamedTuple):
    """Who came and went, sorted out; static members that never lost their place are in none."""

    back: tuple[MemberHistory, ...]
    came: tuple[MemberHistory, ...]
    went: tuple[MemberHistory, ...]
    passed: tuple[MemberHistory, ...]


def faces(state: EpisodeState) -> Faces:
    """Members that were replaced, that are new, that are gone, and that came and went."""
    back: list[MemberHistory] = []
    came: list[MemberHistory] = []
    went: list[MemberHistory] = []
    passed: list[MemberHistory] = []
    for track in state.missing:
        (went if track.founder else passed).append(track)
    for track in state.there.values():
        if not track.founder:
            came.append(track)
        elif track.by and track.how:
            back.append(track)
    return Faces(tuple(back), tuple(came), tuple(went), tuple(passed))


def stormy(state: EpisodeState, turns: int = STORM_TURNS) -> MemberHistory | None:
    """The member behind a storm, which has had so many ``turns``; None: it is none."""
    found = [track for track in tracks(state).all if track.turns >= turns]
    return max(found, key=lambda track: track.turns) if found else None


def judge(state: EpisodeState, storm: MemberHistory | None) -> Judged:
    """The kind of an episode as it stands; ``storm``: the member behind it, if it is one."""
    judged = _judged(state, storm)
    if judged.kind == "crash" and any(
        item.source == _COMMITS and item.kind == "member.fenced" for item in state.evidence
    ):
        return Judged("crash", sure=False, why="that a session ran out is inferred from offset commits")
    return judged


def _judged(state: EpisodeState, storm: MemberHistory | None) -> Judged:
    if storm is not None:
        return Judged("storm", sure=True)
    seen = faces(state)
    if not state.before and not state.bounces:
        return _from_nothing(state, seen)
    if state.started_with is None and not any(seen) and state.round_count == 1:
        return Judged("unknown", sure=False, why="the group was there before it was seen for the first time")
    if state.started_with is not None and state.started_with != state.protocol and state.round_count:
        return Judged("protocol-migration", sure=True)
    if None not in (state.started_by, state.assignor) and state.started_by != state.assignor:
        return Judged("assignor-change", sure=True)
    return _of_members(state, seen) if any(seen) else _without_members(state)


def _from_nothing(state: EpisodeState, seen: Faces) -> Judged:
    if state.after:
        return Judged("first-start", sure=True)
    if all(track.how == "left" for track in seen.passed) or state.deleted:
        return Judged("shutdown", sure=True)
    return _crashed({track.how for track in seen.passed})


def _without_members(state: EpisodeState) -> Judged:
    """Nobody came or went."""
    if state.causes.get(_RESUBSCRIBED) or any(item.kind == _RESUBSCRIBED for item in state.evidence):
        # The leader may be the first to ask for it, as it learns of topics that it did not know.
        return Judged("subscription-change", sure=True)
    if state.causes.get("topic.partitions_changed"):
        return Judged("partition-growth", sure=True)
    if state.remade:
        return Judged("connector-change", sure=True)
    if any(item.kind == COORDINATOR_MOVED for item in state.evidence):
        return Judged("coordinator-move", sure=True)
    if state.bounces:
        return Judged("static-bounce", sure=True)
    return Judged("unknown", sure=False, why="nothing says why the group rebalanced")


def _of_members(state: EpisodeState, seen: Faces) -> Judged:
    """Somebody came or went."""
    if any(track.how == "overran" for track in tracks(state).all):
        return Judged("poll-timeout", sure=True)
    if not state.after and seen.went:
        return _emptied(state, seen)
    if seen.back and len(seen.back) >= len(seen.went):
        return _restarted(state, seen)
    if seen.went:
        return _exchanged(seen) if seen.came else _fewer(seen.went)
    return Judged("scale-out", sure=True) if seen.came else _passing(seen.passed)


def _emptied(state: EpisodeState, seen: Faces) -> Judged:
    hows = {track.how for track in (*seen.went, *seen.passed)}
    if state.deleted or hows == {"left"}:
        return Judged("shutdown", sure=True)
    return _crashed(hows)


def _restarted(state: EpisodeState, seen: Faces) -> Judged:
    """Members went and came back: each in its turn, or all at once."""
    lost = [track for track in seen.back if track.how == "lost"]
    if state.protocol != "classic" and not lost and all(track.by == BY_MEMBER for track in seen.back):
        return _returned(seen.back)
    whole = len(seen.back) > 1 and len(seen.back) == state.before and state.rebalances > 1
    if lost and not whole:
        return _crashed({track.how for track in seen.back})
    if len(seen.back) == 1 and seen.back[0].how == "gone":
        return Judged("restart", sure=False, why="nothing says whether it was restarted or crashed")
    why = "" if all(track.by not in UNSURE for track in seen.back) else _ALIKE
    glimpsed = any(item.source == POLLING for item in state.evidence)
    if len(seen.back) > 1 and 2 * state.away <= (state.before or 0):
        why = _TURNS if lost else why or (_GLIMPSED if glimpsed else "")
        return Judged("rolling-restart", sure=not why, why=why)
    if glimpsed and len(seen.back) > 1:
        return Judged("unknown", sure=False, why=_GLIMPSED)
    if len(seen.back) > 1 and any(item.source == _LISTENER and item.kind is None for item in state.evidence):
        why = why or _REPORTED
    return Judged("crash" if lost else "restart", sure=not why, why=why)


def _returned(back: tuple[MemberHistory, ...]) -> Judged:
    """Members came back under the same ids, which the clients themselves make: none was started anew (KIP-848)."""
    if all(track.how == "left" for track in back):
        why = "the same client left and came back: it did not poll in time, or it unsubscribed for a while"
        return Judged("poll-timeout", sure=False, why=why)
    return Judged("unknown", sure=False, why="the same client was gone and came back, and nothing says why")


def _exchanged(seen: Faces) -> Judged:
    if any(track.how == "lost" for track in seen.went):
        return _fewer(seen.went)
    why = f"{len(seen.came)} came and {len(seen.went)} went, and nothing says who took whose place"
    return Judged("unknown", sure=False, why=why)


def _fewer(went: tuple[MemberHistory, ...]) -> Judged:
    if all(track.how == "left" for track in went):
        return Judged("scale-in", sure=True)
    return _crashed({track.how for track in went})


def _crashed(hows: AbstractSet[str]) -> Judged:
    """Of members that went in these ways, not all of them by themselves."""
    if "lost" not in hows:
        return Judged("unknown", sure=False, why="nothing says whether the members left or crashed")
    if "gone" in hows:
        return Judged("crash", sure=False, why="of some members nothing says how they went")
    return Judged("crash", sure=True)


def _passing(passed: tuple[MemberHistory, ...]) -> Judged:
    """Members that came and went again within the episode."""
    if any(track.how == "lost" for track in passed):
        return Judged("crash", sure=True)
    return Judged("unknown", sure=False, why="members came and went again")
