"""Classification of episodes by the evidence in their rounds (:func:`judge`).

Without evidence the kind is ``unknown``.
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

#: By default this many rebalances without progress in one episode are a storm.
STORM_TURNS: Final = 3
#: A storm without a triggering member takes this many rebalances more: a change of a cooperative group takes two.
_UNNAMED: Final = 2
#: Departures of members that joined within the episode are a storm from this multiple of the threshold on.
_VISITS: Final = 2
#: Source of evidence that makes a crash likely.
_COMMITS: Final = "offset-commits"
#: Source of evidence from the records of the offsets topic.
_RECORDS: Final = "group-records"
_RESUBSCRIBED: Final = "member.subscription_changed"
_NEW_LEADER: Final = "the group's records have a new leader; no log shows that members rejoined for it"
_REPLACED_EARLY: Final = (
    "the sessions ended after the members were back: it is unknown if they crashed together or in turn"
)
_GLIMPSED: Final = "polling does not show how many members were away at once"
_UNEXPLAINED_LEAVE: Final = (
    "left without a client reason and came back from the same host: "
    "restarted, exceeded max.poll.interval.ms, or unsubscribed for a while"
)
_TOGETHER: Final = (
    "the sessions of all members ended together and all came back from the same hosts: "
    "the coordinator was unavailable, or all crashed"
)
#: Source of evidence that the group is only known from its members' own reports.
_LISTENER: Final = "listener"


class Storm(NamedTuple):
    """Rebalances without progress, and the members that triggered most of them, the worst first.

    ``instance``: the cause is an instance id that several processes share; ``sure``: the evidence proves that.
    """

    members: tuple[MemberHistory, ...] = ()
    instance: bool = False
    sure: bool = True


class Judged(NamedTuple):
    """The kind of an episode, and whether the evidence proves it; ``why``: what is missing if it does not."""

    kind: EpisodeKind
    sure: bool
    why: str = ""


class Verdict(NamedTuple):
    """The kind of an episode (see :class:`Judged`), its storm if there is one, and its members by their changes."""

    kind: EpisodeKind
    sure: bool
    why: str
    storm: Storm | None
    members: MemberChanges


def _is_migration(state: EpisodeState) -> bool:
    return state.started_with is not None and state.started_with != state.protocol and state.round_count > 0


def is_reset(state: EpisodeState) -> bool:
    """Return whether committed offsets were reset to lower ones while the group had no members."""
    return any(item.kind == OFFSETS_RESET for item in state.evidence)


def storm(state: EpisodeState, threshold: int = STORM_TURNS) -> Storm | None:
    """Return the storm of an episode, or None. ``threshold``: how many rebalances without progress are a storm."""
    if state.rebalances + state.bounces < threshold:
        return None
    shared = _members_sharing_instance(state, threshold)
    if shared is not None:
        return shared
    worst = _triggering_members(state, threshold)
    if worst or _is_migration(state):
        return Storm(worst) if worst else None
    visits = len({member.rebalance for member in state.absent if not member.founder})
    endless = state.unprovoked >= threshold + _UNNAMED and 2 * state.unprovoked > state.rebalances
    crowded = visits >= _VISITS * threshold and 3 * visits > state.rebalances
    return Storm() if endless or crowded else None


def _members_sharing_instance(state: EpisodeState, threshold: int) -> Storm | None:
    """Return the static members that rejoined again and again under new member ids.

    KIP-848 refuses an instance id that is in use, so only classic members can share one.
    """
    rejoined = [member for member in state.present.values() if member.rejoins >= threshold]
    if state.protocol != "classic" or not rejoined:
        return None
    shared = [member for member in rejoined if member.alternates]
    if shared:
        return Storm(_worst_first(shared), instance=True)
    few = len(rejoined) == 1 or len(rejoined) < state.after  # if all members rejoined, these are restarts
    return Storm(_worst_first(rejoined), instance=True, sure=False) if few else None


def _triggering_members(state: EpisodeState, threshold: int) -> tuple[MemberHistory, ...]:
    """Return the few members that triggered most of the episode's rebalances, the worst first."""
    # Departures and requested rebalances count separately: one of them must repeat.
    often = [
        member for member in state.histories if max(member.departures, member.turns - member.departures) >= threshold
    ]
    if _is_migration(state) or 2 * len(often) > max(state.before or 0, state.after, 2):
        # If all members are involved, or in a migration, restarts are expected: only other triggers count.
        often = [member for member in often if member.turns - member.closes >= threshold]
    if _is_migration(state):
        often = [member for member in often if member.how in ("lost", "overran")]
    triggered = sum(max(member.rebalances, member.rejoins) for member in often)
    return _worst_first(often) if 2 * triggered > state.rebalances + state.bounces else ()


def _worst_first(members: Sequence[MemberHistory]) -> tuple[MemberHistory, ...]:
    return tuple(sorted(members, key=lambda member: -member.turns))


def repeated(worst: MemberHistory) -> Repeated:
    """Return how often a member triggered a rebalance, and the usual time between two of them."""
    gaps = sorted(after - before for before, after in pairwise(worst.times))
    period = max(0, gaps[len(gaps) // 2]) if gaps else None
    return Repeated(member_id=worst.now, times=worst.turns, period_ms=period)


def judge(state: EpisodeState, storm_turns: int = STORM_TURNS) -> Verdict:
    """Return the kind of an episode so far; ``storm_turns``: rebalances without progress that make a storm."""
    repetition, seen = storm(state, storm_turns), changes(state.present, state.absent)
    judged = _judge_kind(state, repetition, seen)
    has_crashed = judged.kind in ("crash", "zone-lost")
    if has_crashed and (state.kind, state.protocol) == ("streams", "classic"):
        judged = Judged("unknown", sure=False, why=STREAMS_STAYS)
    elif has_crashed and judged.sure:
        if any(item.source == _COMMITS and item.kind == "member.fenced" for item in state.evidence):
            judged = Judged(judged.kind, sure=False, why="the end of a session is only inferred from offset commits")
        elif _moved(state):
            judged = Judged(judged.kind, sure=False, why="the group's coordinator moved meanwhile")
    return Verdict(*judged, repetition, seen)


def _judge_kind(state: EpisodeState, repetition: Storm | None, seen: MemberChanges) -> Judged:
    if _is_migration(state):
        return Judged("protocol-migration", sure=True)
    if repetition is not None:
        why = "" if repetition.sure else "two processes share the instance id, or one restarts again and again"
        return Judged("duplicate-instance-id" if repetition.instance else "storm", sure=repetition.sure, why=why)
    return _judge_operation(state, seen)


def _judge_operation(state: EpisodeState, seen: MemberChanges) -> Judged:
    if not state.round_count and not state.bounces:
        if is_reset(state):
            return Judged("offsets-reset", sure=True)
        return Judged("unknown", sure=False, why="the rebalance has brought no new generation")
    if not state.before and not state.bounces:
        return _judge_start(state, seen)
    if state.first_seen and not (seen.back or seen.went or seen.passed) and not state.bounces:
        return _judge_first_seen(state, seen)
    if None not in (state.started_by, state.assignor) and state.started_by != state.assignor:
        return Judged("assignor-change", sure=True)
    return _judge_member_changes(state, seen) if any(seen) else _judge_unchanged_members(state)


def _judge_start(state: EpisodeState, seen: MemberChanges) -> Judged:
    if state.after:
        at = f"first seen at generation {state.first_seen}: earlier generations have no record"
        return Judged("first-start", sure=not state.may_be_new, why=at if state.may_be_new else "")
    if state.deleted:
        return Judged("shutdown", sure=True)
    if not seen.passed:
        return Judged("unknown", sure=False, why="the group has no members, and had none when the episode began")
    if all(member.how == "left" for member in seen.passed):
        return Judged("shutdown", sure=True)
    return _judge_crash(seen.passed)


def _judge_first_seen(state: EpisodeState, seen: MemberChanges) -> Judged:
    if not state.after:
        return Judged("unknown", sure=False, why="the group had no members when it was first seen")
    at = f"first seen at generation {state.first_seen}"
    if seen.came:
        return Judged("scale-out", sure=False, why=f"{at}: it is unknown when the other members joined")
    if state.rebalances > 1:
        return _judge_unchanged_members(state)
    return Judged("unknown", sure=False, why=f"{at}: earlier events are unknown")


def _judge_unchanged_members(state: EpisodeState) -> Judged:
    if state.causes.get(_RESUBSCRIBED) or any(item.kind == _RESUBSCRIBED for item in state.evidence):
        # The leader may request the rebalance first, when its metadata shows new topics.
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
    return Judged("unknown", sure=False, why="no evidence shows why the group rebalanced")


def _moved(state: EpisodeState, *, logged: bool = False) -> bool:
    return any(item.kind == COORDINATOR_MOVED and not (logged and item.source == _RECORDS) for item in state.evidence)


def _judge_member_changes(state: EpisodeState, seen: MemberChanges) -> Judged:
    if any(member.how == "overran" for member in state.histories):
        return Judged("poll-timeout", sure=True)
    if not state.after and seen.went:
        return _judge_emptied_group(state, seen)
    if seen.back and len(seen.back) >= len(seen.went):
        return _judge_full_restart(state, seen)
    if seen.went:
        return _judge_exchange(state, seen) if seen.came else _judge_departures(state, seen.went)
    return Judged("scale-out", sure=True) if seen.came else _judge_passing_members(seen.passed)


def _judge_emptied_group(state: EpisodeState, seen: MemberChanges) -> Judged:
    departed = (*seen.went, *seen.passed)
    if state.deleted or all(member.how == "left" for member in departed):
        return Judged("shutdown", sure=True)
    return _judge_crash(departed)


def _judge_full_restart(state: EpisodeState, seen: MemberChanges) -> Judged:
    back = seen.back
    moved = _judge_coordinator_move(state, seen)
    if moved is not None:
        return moved
    lost = [member for member in back if member.how == "lost"]
    if lost:
        return _judge_crashes_with_return(state, back, lost)
    if state.protocol != "classic" and all(member.by == BY_MEMBER for member in back):
        return _judge_returned_members(back)
    why = _unproven(state, seen)
    deployed = _deployment_strategy(state, seen)
    if deployed is not None:
        return Judged(deployed, sure=not why, why=why)
    if len(back) == 1:
        return Judged("restart", sure=not why, why=why)
    return _judge_several_restarts(state, why)


def _deployment_strategy(state: EpisodeState, seen: MemberChanges) -> EpisodeKind | None:
    """Return the deployment strategy by which all members were replaced, if the order of joins and leaves shows it."""
    back = seen.back
    others = seen.went or seen.came or any(member.how != "left" or member.has_same_address for member in back)
    if len(back) != state.before or others or any(item.source == POLLING for item in state.evidence):
        return None
    if state.away == state.before and state.before > 1:
        return "recreate"
    if state.away or not all(0 < member.joined_at < member.times[-1] for member in back):
        return None
    if state.before > 1 and _joined_before_departures(back, back):
        return "fleet-replaced"
    return "surge" if all(member.by == BY_POD for member in back) and share_an_owner(back) else None


def _joined_before_departures(came: Sequence[MemberHistory], went: Sequence[MemberHistory]) -> bool:
    return max(member.joined_at for member in came) < min(member.times[-1] for member in went)


def _judge_several_restarts(state: EpisodeState, why: str) -> Judged:
    glimpsed = any(item.source == POLLING for item in state.evidence)
    if 2 * state.away <= (state.before or 0):
        why = why or (_GLIMPSED if glimpsed else "")
        return Judged("rolling-restart", sure=not why, why=why)
    if glimpsed:
        return Judged("unknown", sure=False, why=_GLIMPSED)
    if any(item.source == _LISTENER and item.kind is None for item in state.evidence):
        why = why or "members' own reports may be late: it is uncertain how many were away at once"
    return Judged("restart", sure=not why, why=why)


def _judge_crashes_with_return(
    state: EpisodeState, back: Sequence[MemberHistory], lost: Sequence[MemberHistory]
) -> Judged:
    whole = len(back) > 1 and len(back) == state.before
    first_loss = min((member.times[-1] for member in lost if member.times), default=0)
    early = [member for member in back if 0 < member.joined_at <= first_loss]
    if whole and 2 * len(early) > len(back):
        return Judged("crash", sure=False, why=_REPLACED_EARLY)
    if whole and 2 * state.away <= len(back) and state.rebalances > 1:
        return Judged(
            "rolling-restart",
            sure=False,
            why="members crashed one after the other and came back, as in a rolling restart",
        )
    if whole and len(lost) == len(back) and all(member.has_same_address for member in back):
        return Judged("unknown", sure=False, why=_TOGETHER)
    return _judge_crash(back)


def _unproven(state: EpisodeState, seen: MemberChanges) -> str:
    """Return what the evidence does not prove about replaced members; ``""`` if it proves everything."""
    if any(member.by in UNSURE for member in seen.back):
        return "members were matched by names that other members may share"
    # Under KIP-848 each process generates its member id; under the classic protocol each join gives a new one.
    new_id_proves = state.protocol != "classic"
    for member in seen.back:
        is_new = member.is_new_process or (new_id_proves and member.by != BY_MEMBER)
        if member.how == "left" and not is_new:
            return _UNEXPLAINED_LEAVE
    if any(member.how == "gone" for member in seen.back):
        return "no evidence shows whether members that came back were restarted or crashed"
    return ""


def _judge_coordinator_move(state: EpisodeState, seen: MemberChanges) -> Judged | None:
    """Return the verdict if the coordinator moved and all members rejoined from the same addresses, else None."""
    if not _moved(state) or seen.went or seen.came:
        return None
    if any(member.closed or member.how == "overran" or not member.has_same_address for member in seen.back):
        return None
    left = any(member.how == "left" for member in seen.back)
    why = _UNEXPLAINED_LEAVE if left else "" if _moved(state, logged=True) else _NEW_LEADER
    return Judged("coordinator-move", sure=not why, why=why)


def _judge_returned_members(back: Sequence[MemberHistory]) -> Judged:
    """Return the kind if members rejoined under the same ids, which each process generates once (KIP-848)."""
    if all(member.how == "left" for member in back):
        why = "the same client left and came back: it exceeded max.poll.interval.ms, or unsubscribed for a while"
        return Judged("poll-timeout", sure=False, why=why)
    return Judged("unknown", sure=False, why="the same client was gone and came back; no evidence shows why")


def _judge_exchange(state: EpisodeState, seen: MemberChanges) -> Judged:
    if any(member.how == "lost" for member in seen.went):
        return _judge_departures(state, seen.went)
    replaced = len(seen.went) == state.before and all(member.how == "left" for member in seen.went)
    if replaced and not state.away and share_an_owner(seen.came) and _joined_before_departures(seen.came, seen.went):
        return Judged("fleet-replaced", sure=True)
    why = f"{len(seen.came)} joined and {len(seen.went)} departed; no evidence shows which member replaced which"
    return Judged("unknown", sure=False, why=why)


def _judge_departures(state: EpisodeState, went: Sequence[MemberHistory]) -> Judged:
    if all(member.how == "left" for member in went):
        return Judged("scale-in", sure=True)
    if state.zone and 1 < len(went) == state.departures and all(member.how == "lost" for member in went):
        return Judged("zone-lost", sure=True)
    return _judge_crash(went)


def _judge_crash(departed: Sequence[MemberHistory]) -> Judged:
    hows = {member.how for member in departed}
    if "lost" not in hows:
        return Judged("unknown", sure=False, why="no evidence shows whether the members left or crashed")
    if "gone" in hows:
        return Judged("crash", sure=False, why="no evidence shows how some of the members departed")
    return Judged("crash", sure=True)


def _judge_passing_members(passed: Sequence[MemberHistory]) -> Judged:
    if any(member.how == "lost" for member in passed):
        return _judge_crash(passed)
    return Judged("unknown", sure=False, why="members joined and departed again")
