"""Classification: the kind of an episode, by the evidence in its rounds (:func:`judge`).

Without evidence it is ``unknown``.
docs/explanation/episodes.md defines each kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from streaming.episodes.identity import BY_MEMBER, BY_POD, UNSURE
from streaming.episodes.members import MemberChanges, MemberHistory, changes, share_an_owner
from streaming.episodes.reasons import STREAMS_STAYS, application_reasons
from streaming.episodes.state import EpisodeState
from streaming.records.episodes import EpisodeKind, Repeated
from streaming.records.events import COORDINATOR_MOVED, OFFSETS_RESET, POLLING

#: Rebalances without progress in one episode that are a storm, unless configured.
STORM_TURNS: Final = 3
#: Rebalances beyond the storm turns where no member is named: one change of a cooperative group takes two.
_UNNAMED: Final = 2
#: Rebalances by which visitors (joined within the episode) depart that are a storm, in storm turns.
_VISITS: Final = 2
#: Source of evidence that makes a crash likely.
_COMMITS: Final = "offset-commits"
#: Source of evidence from the records of the offsets topic.
_RECORDS: Final = "group-records"
_RESUBSCRIBED: Final = "member.subscription_changed"
_NEW_LEADER: Final = "the group's records have a new leader; no log shows that members rejoined for it"
_REPLACED_EARLY: Final = (
    "the sessions ended after the members were back: whether they crashed together or in turn is not known"
)
_GLIMPSED: Final = "how many were away at once between two answers was not seen"
_UNEXPLAINED_LEAVE: Final = (
    "left without a client reason and came back from the same host: "
    "restarted, exceeded max.poll.interval.ms, or unsubscribed for a while"
)
_TOGETHER: Final = (
    "the sessions of all members ended together and all came back from the same hosts: "
    "the coordinator was unavailable, or all crashed"
)
#: Evidence of this source that is no reason says that members' own reports are all there is.
_LISTENER: Final = "listener"


class Storm(NamedTuple):
    """Rebalances that bring nothing forward, and the members that triggered most of them, the worst first.

    ``instance``: the members are instance ids that several processes may share. ``sure``: that is proven.
    """

    members: tuple[MemberHistory, ...] = ()
    instance: bool = False
    sure: bool = True


class Judged(NamedTuple):
    """The kind of an episode, and if the evidence proves it; ``why``: what is missing if it does not."""

    kind: EpisodeKind
    sure: bool
    why: str = ""


class Verdict(NamedTuple):
    """The kind of an episode (see :class:`Judged`), its storm if it is one, and its members by their changes."""

    kind: EpisodeKind
    sure: bool
    why: str
    storm: Storm | None
    members: MemberChanges


def _is_migration(state: EpisodeState) -> bool:
    return state.started_with is not None and state.started_with != state.protocol and state.round_count > 0


def is_reset(state: EpisodeState) -> bool:
    """Return whether committed offsets went back while the group had no members."""
    return any(item.kind == OFFSETS_RESET for item in state.evidence)


def storm(state: EpisodeState, turns: int = STORM_TURNS) -> Storm | None:
    """Return the storm that the episode is; None where it is none. ``turns``: rebalances without progress."""
    if state.rebalances + state.bounces < turns:
        return None
    shared = _sharing(state, turns)
    if shared is not None:
        return shared
    worst = _triggering(state, turns)
    if worst or _is_migration(state):
        return Storm(worst) if worst else None
    visits = len({one.rebalance for one in state.absent if not one.founder})
    endless = state.unprovoked >= turns + _UNNAMED and 2 * state.unprovoked > state.rebalances
    crowded = visits >= _VISITS * turns and 3 * visits > state.rebalances
    return Storm() if endless or crowded else None


def _sharing(state: EpisodeState, turns: int) -> Storm | None:
    """Return the static members that rejoined again and again under new member ids.

    KIP-848 refuses an instance id that is in use, so only classic members can share one.
    """
    rejoined = [one for one in state.present.values() if one.rejoins >= turns]
    if state.protocol != "classic" or not rejoined:
        return None
    shared = [one for one in rejoined if one.alternates]
    if shared:
        return Storm(_worst_first(shared), instance=True)
    few = len(rejoined) == 1 or len(rejoined) < state.after  # all in turn are restarts
    return Storm(_worst_first(rejoined), instance=True, sure=False) if few else None


def _triggering(state: EpisodeState, turns: int) -> tuple[MemberHistory, ...]:
    """Return the few members that triggered most of the episode's rebalances, the worst first."""
    # A departure and requests of its own are different things: one of them must repeat.
    often = [one for one in state.histories if max(one.departures, one.turns - one.departures) >= turns]
    if _is_migration(state) or 2 * len(often) > max(state.before or 0, state.after, 2):
        # All members in turn are restarts, and a migration is one: only what was no restart counts.
        often = [one for one in often if one.turns - one.closes >= turns]
    if _is_migration(state):
        often = [one for one in often if one.how in ("lost", "overran")]
    triggered = sum(max(one.rebalances, one.rejoins) for one in often)
    return _worst_first(often) if 2 * triggered > state.rebalances + state.bounces else ()


def _worst_first(members: Sequence[MemberHistory]) -> tuple[MemberHistory, ...]:
    return tuple(sorted(members, key=lambda one: -one.turns))


def repeated(worst: MemberHistory) -> Repeated:
    """Return how often a member triggered a rebalance, and the usual time between two."""
    gaps = sorted(after - before for before, after in pairwise(worst.times))
    period = max(0, gaps[len(gaps) // 2]) if gaps else None
    return Repeated(member_id=worst.now, times=worst.turns, period_ms=period)


def judge(state: EpisodeState, storm_turns: int = STORM_TURNS) -> Verdict:
    """Return the kind of an episode so far; ``storm_turns``: rebalances without progress that make a storm."""
    found, seen = storm(state, storm_turns), changes(state.present, state.absent)
    judged = _judged(state, found, seen)
    has_crashed = judged.kind in ("crash", "zone-lost")
    if has_crashed and (state.kind, state.protocol) == ("streams", "classic"):
        judged = Judged("unknown", sure=False, why=STREAMS_STAYS)
    elif has_crashed and judged.sure:
        if any(item.source == _COMMITS and item.kind == "member.fenced" for item in state.evidence):
            judged = Judged(judged.kind, sure=False, why="that a session ran out is inferred from offset commits")
        elif _moved(state):
            judged = Judged(judged.kind, sure=False, why="the group's coordinator moved meanwhile")
    return Verdict(*judged, found, seen)


def _judged(state: EpisodeState, found: Storm | None, seen: MemberChanges) -> Judged:
    if _is_migration(state):
        return Judged("protocol-migration", sure=True)
    if found is not None:
        why = "" if found.sure else "two processes share the instance id, or one restarts again and again"
        return Judged("duplicate-instance-id" if found.instance else "storm", sure=found.sure, why=why)
    return _operation(state, seen)


def _operation(state: EpisodeState, seen: MemberChanges) -> Judged:
    if not state.round_count and not state.bounces:
        if is_reset(state):
            return Judged("offsets-reset", sure=True)
        return Judged("unknown", sure=False, why="the rebalance has brought no new generation")
    if not state.before and not state.bounces:
        return _from_nothing(state, seen)
    if state.first_seen and not (seen.back or seen.went or seen.passed) and not state.bounces:
        return _first_seen(state, seen)
    if None not in (state.started_by, state.assignor) and state.started_by != state.assignor:
        return Judged("assignor-change", sure=True)
    return _of_members(state, seen) if any(seen) else _without_members(state)


def _from_nothing(state: EpisodeState, seen: MemberChanges) -> Judged:
    if state.after:
        at = f"first seen at generation {state.first_seen}: the generations before have no record"
        return Judged("first-start", sure=not state.may_be_new, why=at if state.may_be_new else "")
    if state.deleted:
        return Judged("shutdown", sure=True)
    if not seen.passed:
        return Judged("unknown", sure=False, why="the group has no members, and had none when the episode began")
    if all(one.how == "left" for one in seen.passed):
        return Judged("shutdown", sure=True)
    return _crashed(seen.passed)


def _first_seen(state: EpisodeState, seen: MemberChanges) -> Judged:
    if not state.after:
        return Judged("unknown", sure=False, why="the group had no members when it was first seen")
    at = f"first seen at generation {state.first_seen}"
    if seen.came:
        return Judged("scale-out", sure=False, why=f"{at}: when the other members joined is not known")
    if state.rebalances > 1:
        return _without_members(state)
    return Judged("unknown", sure=False, why=f"{at}: what happened before is not known")


def _without_members(state: EpisodeState) -> Judged:
    if state.causes.get(_RESUBSCRIBED) or any(item.kind == _RESUBSCRIBED for item in state.evidence):
        # The leader may be the first to request it, as it learns of topics that it did not know.
        return Judged("subscription-change", sure=True)
    if state.causes.get("topic.partitions_changed"):
        kinds: dict[str, EpisodeKind] = {"added": "topic-added", "deleted": "topic-deleted"}
        return Judged(kinds.get(state.topics, "partition-growth"), sure=True)
    facts: tuple[tuple[EpisodeKind, bool], ...] = (
        ("connector-change", state.remade),
        ("app-requested", bool(application_reasons(state.evidence))),
        ("coordinator-move", _moved(state)),
        ("static-bounce", state.bounces > 0),
    )
    kind = next((kind for kind, proven in facts if proven), None)
    if kind == "coordinator-move" and not _moved(state, logged=True):
        return Judged(kind, sure=False, why=_NEW_LEADER)
    if kind is not None:
        return Judged(kind, sure=True)
    return Judged("unknown", sure=False, why="nothing says why the group rebalanced")


def _moved(state: EpisodeState, *, logged: bool = False) -> bool:
    return any(item.kind == COORDINATOR_MOVED and not (logged and item.source == _RECORDS) for item in state.evidence)


def _of_members(state: EpisodeState, seen: MemberChanges) -> Judged:
    if any(one.how == "overran" for one in state.histories):
        return Judged("poll-timeout", sure=True)
    if not state.after and seen.went:
        return _emptied(state, seen)
    if seen.back and len(seen.back) >= len(seen.went):
        return _restarted(state, seen)
    if seen.went:
        return _exchanged(state, seen) if seen.came else _fewer(state, seen.went)
    return Judged("scale-out", sure=True) if seen.came else _passing(seen.passed)


def _emptied(state: EpisodeState, seen: MemberChanges) -> Judged:
    departed = (*seen.went, *seen.passed)
    if state.deleted or all(one.how == "left" for one in departed):
        return Judged("shutdown", sure=True)
    return _crashed(departed)


def _restarted(state: EpisodeState, seen: MemberChanges) -> Judged:
    back = seen.back
    moved = _by_coordinator(state, seen)
    if moved is not None:
        return moved
    lost = [one for one in back if one.how == "lost"]
    if lost:
        return _lost_and_back(state, back, lost)
    if state.protocol != "classic" and all(one.by == BY_MEMBER for one in back):
        return _returned(back)
    why = _unproven(state, seen)
    deployed = _deployed(state, seen)
    if deployed is not None:
        return Judged(deployed, sure=not why, why=why)
    if len(back) == 1:
        return Judged("restart", sure=not why, why=why)
    return _several_restarted(state, why)


def _deployed(state: EpisodeState, seen: MemberChanges) -> EpisodeKind | None:
    """Return how all members were replaced by others elsewhere, if the order of joins and leaves shows it."""
    back = seen.back
    others = seen.went or seen.came or any(one.how != "left" or one.has_same_address for one in back)
    if len(back) != state.before or others or any(item.source == POLLING for item in state.evidence):
        return None
    if state.away == state.before and state.before > 1:
        return "recreate"
    if state.away or not all(0 < one.joined_at < one.times[-1] for one in back):
        return None
    if state.before > 1 and _came_first(back, back):
        return "fleet-replaced"
    return "surge" if all(one.by == BY_POD for one in back) and share_an_owner(back) else None


def _came_first(came: Sequence[MemberHistory], went: Sequence[MemberHistory]) -> bool:
    return max(one.joined_at for one in came) < min(one.times[-1] for one in went)


def _several_restarted(state: EpisodeState, why: str) -> Judged:
    glimpsed = any(item.source == POLLING for item in state.evidence)
    if 2 * state.away <= (state.before or 0):
        why = why or (_GLIMPSED if glimpsed else "")
        return Judged("rolling-restart", sure=not why, why=why)
    if glimpsed:
        return Judged("unknown", sure=False, why=_GLIMPSED)
    if any(item.source == _LISTENER and item.kind is None for item in state.evidence):
        why = why or "members' own reports may be late: how many were away at once is not certain"
    return Judged("restart", sure=not why, why=why)


def _lost_and_back(state: EpisodeState, back: Sequence[MemberHistory], lost: Sequence[MemberHistory]) -> Judged:
    whole = len(back) > 1 and len(back) == state.before
    first_loss = min((one.times[-1] for one in lost if one.times), default=0)
    early = [one for one in back if 0 < one.joined_at <= first_loss]
    if whole and 2 * len(early) > len(back):
        return Judged("crash", sure=False, why=_REPLACED_EARLY)
    if whole and 2 * state.away <= len(back) and state.rebalances > 1:
        return Judged(
            "rolling-restart",
            sure=False,
            why="members crashed one after the other and came back, as in a rolling restart",
        )
    if whole and len(lost) == len(back) and all(one.has_same_address for one in back):
        return Judged("unknown", sure=False, why=_TOGETHER)
    return _crashed(back)


def _unproven(state: EpisodeState, seen: MemberChanges) -> str:
    """Return what is not proven of members that were replaced; ``""``: nothing."""
    if any(one.by in UNSURE for one in seen.back):
        return "members were matched by names that others may have as well"
    # Under KIP-848 each process makes up its own member id; under the classic protocol each join gives a new one.
    new_id_proves = state.protocol != "classic"
    for one in seen.back:
        is_new = one.is_new_process or (new_id_proves and one.by != BY_MEMBER)
        if one.how == "left" and not is_new:
            return _UNEXPLAINED_LEAVE
    if any(one.how == "gone" for one in seen.back):
        return "nothing says whether members that came back were restarted or crashed"
    return ""


def _by_coordinator(state: EpisodeState, seen: MemberChanges) -> Judged | None:
    """Return the verdict where the coordinator moved and everybody is back as before; None: that is not so."""
    if not _moved(state) or seen.went or seen.came:
        return None
    if any(one.closed or one.how == "overran" or not one.has_same_address for one in seen.back):
        return None
    left = any(one.how == "left" for one in seen.back)
    why = _UNEXPLAINED_LEAVE if left else "" if _moved(state, logged=True) else _NEW_LEADER
    return Judged("coordinator-move", sure=not why, why=why)


def _returned(back: Sequence[MemberHistory]) -> Judged:
    """Members came back under the same ids, which clients make up once a process (KIP-848)."""
    if all(one.how == "left" for one in back):
        why = "the same client left and came back: it exceeded max.poll.interval.ms, or unsubscribed for a while"
        return Judged("poll-timeout", sure=False, why=why)
    return Judged("unknown", sure=False, why="the same client was gone and came back, and nothing says why")


def _exchanged(state: EpisodeState, seen: MemberChanges) -> Judged:
    if any(one.how == "lost" for one in seen.went):
        return _fewer(state, seen.went)
    replaced = len(seen.went) == state.before and all(one.how == "left" for one in seen.went)
    if replaced and not state.away and share_an_owner(seen.came) and _came_first(seen.came, seen.went):
        return Judged("fleet-replaced", sure=True)
    why = f"{len(seen.came)} joined and {len(seen.went)} departed, and nothing says who replaced whom"
    return Judged("unknown", sure=False, why=why)


def _fewer(state: EpisodeState, went: Sequence[MemberHistory]) -> Judged:
    if all(one.how == "left" for one in went):
        return Judged("scale-in", sure=True)
    if state.zone and 1 < len(went) == state.departures and all(one.how == "lost" for one in went):
        return Judged("zone-lost", sure=True)
    return _crashed(went)


def _crashed(departed: Sequence[MemberHistory]) -> Judged:
    hows = {one.how for one in departed}
    if "lost" not in hows:
        return Judged("unknown", sure=False, why="nothing says whether the members left or crashed")
    if "gone" in hows:
        return Judged("crash", sure=False, why="of some members nothing says how they departed")
    return Judged("crash", sure=True)


def _passing(passed: Sequence[MemberHistory]) -> Judged:
    if any(one.how == "lost" for one in passed):
        return _crashed(passed)
    return Judged("unknown", sure=False, why="members joined and departed again")
