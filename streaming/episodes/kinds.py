"""Classification of episodes (:func:`classify`), such as ``crash`` or ``scale-out``, by the evidence in their rounds.

Without evidence the kind is ``unknown``. docs/explanation/episodes.md defines each kind.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from streaming.episodes.downtime import LISTENER, RECORDS
from streaming.episodes.identity import MEMBER_KEY, POD_KEY, UNSURE
from streaming.episodes.members import MemberChanges, MemberHistory, are_alternating, changes, have_one_owner
from streaming.episodes.reasons import OFFSET_COMMITS, STREAMS_STAYS_REASON, application_reasons
from streaming.episodes.state import EpisodeState
from streaming.records.episodes import EpisodeKind, Repeated
from streaming.records.events import COORDINATOR_MOVED, OFFSETS_RESET, POLLING

#: By default this many rebalances without progress in one episode are a storm.
STORM_ROUNDS: Final = 3
#: A storm without a triggering member needs this many more rebalances, as one change of a cooperative group takes two.
_EXTRA_UNEXPLAINED: Final = 2
#: If members that joined within the episode depart, at least this multiple of the threshold is a storm.
_MIN_VISIT_RATIO: Final = 2
_SUBSCRIPTION_CHANGED: Final = "member.subscription_changed"
_NEW_LEADER_DOUBT: Final = "the group's records have a new leader; no log shows that members rejoined for it"
_EARLY_REPLACEMENT_DOUBT: Final = (
    "the sessions ended after the members were back: it is unknown if they crashed together or in turn"
)
_POLLING_DOUBT: Final = "polling does not show how many members were away at once"
_UNEXPLAINED_LEAVE: Final = (
    "left without a client reason and came back from the same host: "
    "restarted, exceeded max.poll.interval.ms, or unsubscribed for a while"
)
_COMMON_EXPIRY_DOUBT: Final = (
    "the sessions of all members ended together and all came back from the same hosts: "
    "the coordinator was unavailable, or all crashed"
)


class Storm(NamedTuple):
    """Rebalances without progress, and the members that triggered most of them, the worst first.

    ``instance``: the cause is an instance id that several processes share. ``sure``: the evidence proves the cause.
    """

    members: tuple[MemberHistory, ...] = ()
    instance: bool = False
    sure: bool = True


class Diagnosis(NamedTuple):
    """The kind of an episode, and the reason why the kind is not certain (``""``: it is certain)."""

    kind: EpisodeKind
    why: str = ""


def _is_migration(state: EpisodeState) -> bool:
    return state.protocol_before is not None and state.protocol_before != state.protocol and state.round_count > 0


def is_reset(state: EpisodeState) -> bool:
    """Return whether committed offsets were reset to lower offsets while the group had no members."""
    return any(item.kind == OFFSETS_RESET for item in state.evidence)


def find_storm(state: EpisodeState, threshold: int = STORM_ROUNDS) -> Storm | None:
    """Return the storm in an episode (rebalances without progress); None if there are fewer than ``threshold``."""
    if state.rebalances + state.bounces < threshold:
        return None
    shared = _members_sharing_instance(state, threshold)
    if shared is not None:
        return shared
    worst = _triggering_members(state, threshold)
    if worst or _is_migration(state):
        return Storm(worst) if worst else None
    visit_count = len({member.rebalance for member in state.absent if not member.was_present})
    is_unexplained = state.unexplained >= threshold + _EXTRA_UNEXPLAINED and 2 * state.unexplained > state.rebalances
    has_many_visits = visit_count >= _MIN_VISIT_RATIO * threshold and 3 * visit_count > state.rebalances
    return Storm() if is_unexplained or has_many_visits else None


def _members_sharing_instance(state: EpisodeState, threshold: int) -> Storm | None:
    """Return the static members that rejoined again and again under new member ids.

    KIP-848 refuses an instance id that is in use, so only classic members can share one.
    """
    rejoiners = [member for member in state.present.values() if member.rejoins >= threshold]
    if state.protocol != "classic" or not rejoiners:
        return None
    shared = [member for member in rejoiners if are_alternating(member.identities)]
    if shared:
        return Storm(_most_visits_first(shared), instance=True)
    is_shared = len(rejoiners) == 1 or len(rejoiners) < state.after  # if all members rejoined, the members restarted
    return Storm(_most_visits_first(rejoiners), instance=True, sure=False) if is_shared else None


def _triggering_members(state: EpisodeState, threshold: int) -> tuple[MemberHistory, ...]:
    """Return the few members that triggered most of the episode's rebalances, the worst first."""
    # Departures and requested rebalances count separately: one of these two must repeat.
    triggers = [m for m in state.histories if max(m.departures, m.departures_and_requests - m.departures) >= threshold]
    if _is_migration(state) or 2 * len(triggers) > max(state.before or 0, state.after, 2):
        # If all members are involved, or in a migration, restarts are expected: only other triggers count.
        triggers = [member for member in triggers if member.departures_and_requests - member.closings >= threshold]
    if _is_migration(state):
        triggers = [member for member in triggers if member.how in ("lost", "overran")]
    rebalance_count = sum(max(member.rebalances, member.rejoins) for member in triggers)
    return _most_visits_first(triggers) if 2 * rebalance_count > state.rebalances + state.bounces else ()


def _most_visits_first(members: Sequence[MemberHistory]) -> tuple[MemberHistory, ...]:
    return tuple(sorted(members, key=lambda member: -member.departures_and_requests))


def repetition_of(worst: MemberHistory) -> Repeated:
    """Return how often a member triggered a rebalance, and the usual time between two of them."""
    gaps = sorted(after - before for before, after in pairwise(worst.times))
    period_ms = max(0, gaps[len(gaps) // 2]) if gaps else None
    return Repeated(member_id=worst.now, times=worst.departures_and_requests, period_ms=period_ms)


def classify(state: EpisodeState, storm_turns: int = STORM_ROUNDS) -> tuple[Diagnosis, Storm | None, MemberChanges]:
    """Return an episode's kind so far, its storm if there is one, and which members returned, joined or departed.

    ``storm_turns``: rebalances without progress that make a storm.
    """
    repetition, seen = find_storm(state, storm_turns), changes(state.present, state.absent)
    verdict = _kind_of(state, repetition, seen)
    if verdict.kind in ("crash", "zone-lost"):
        if (state.kind, state.protocol) == ("streams", "classic"):
            verdict = Diagnosis("unknown", STREAMS_STAYS_REASON)
        elif any(item.source == OFFSET_COMMITS and item.kind == "member.fenced" for item in state.evidence):
            verdict = Diagnosis(
                verdict.kind, verdict.why or "the end of a session is only inferred from offset commits"
            )
        elif _has_moved(state):
            verdict = Diagnosis(verdict.kind, verdict.why or "the group's coordinator moved meanwhile")
    return verdict, repetition, seen


def _kind_of(state: EpisodeState, repetition: Storm | None, seen: MemberChanges) -> Diagnosis:  # noqa: PLR0911 - per kind
    if _is_migration(state):
        return Diagnosis("protocol-migration")
    if repetition is not None:
        why = "" if repetition.sure else "two processes share the instance id, or one restarts again and again"
        return Diagnosis("duplicate-instance-id" if repetition.instance else "storm", why)
    if not state.round_count and not state.bounces:
        if is_reset(state):
            return Diagnosis("offsets-reset")
        return Diagnosis("unknown", "the rebalance has brought no new generation")
    if not state.before and not state.bounces:
        return _classify_start(state, seen)
    if state.first_seen and not (seen.returned or seen.departed or seen.temporary_members) and not state.bounces:
        return _classify_first_seen(state, seen)
    if None not in (state.assignor_before, state.assignor) and state.assignor_before != state.assignor:
        return Diagnosis("assignor-change")
    return _classify_member_changes(state, seen) if any(seen) else _classify_unchanged_members(state)


def _classify_start(state: EpisodeState, seen: MemberChanges) -> Diagnosis:
    if state.after:
        at = f"first seen at generation {state.first_seen}: earlier generations have no record"
        return Diagnosis("first-start", at if state.may_be_new else "")
    if not state.deleted and not seen.temporary_members:
        return Diagnosis("unknown", "the group has no members, and had none when the episode began")
    return _classify_emptied_group(state, seen.temporary_members)


def _classify_first_seen(state: EpisodeState, seen: MemberChanges) -> Diagnosis:
    if not state.after:
        return Diagnosis("unknown", "the group had no members when it was first seen")
    at = f"first seen at generation {state.first_seen}" if state.first_seen > 0 else "first seen without a generation"
    if seen.joined:
        return Diagnosis("scale-out", f"{at}: it is unknown when the other members joined")
    if state.rebalances > 1:
        return _classify_unchanged_members(state)
    return Diagnosis("unknown", f"{at}: earlier events are unknown")


def _classify_unchanged_members(state: EpisodeState) -> Diagnosis:  # noqa: PLR0911 - one return per kind
    if state.causes.get(_SUBSCRIPTION_CHANGED) or any(item.kind == _SUBSCRIPTION_CHANGED for item in state.evidence):
        # The leader may request the rebalance first, when its metadata shows new topics.
        return Diagnosis("subscription-change")
    if state.causes.get("topic.partitions_changed"):
        kinds: dict[str, EpisodeKind] = {"added": "topic-added", "deleted": "topic-deleted"}
        return Diagnosis(kinds.get(state.topics, "partition-growth"))
    if state.changes_tasks:
        return Diagnosis("connector-change")
    if application_reasons(state.evidence):
        return Diagnosis("app-requested")
    if _has_moved(state):
        return Diagnosis("coordinator-move", "" if _has_moved(state, logged=True) else _NEW_LEADER_DOUBT)
    if state.bounces:
        return Diagnosis("static-bounce")
    return Diagnosis("unknown", "no evidence shows why the group rebalanced")


def _has_moved(state: EpisodeState, *, logged: bool = False) -> bool:
    return any(item.kind == COORDINATOR_MOVED and not (logged and item.source == RECORDS) for item in state.evidence)


def _classify_member_changes(state: EpisodeState, seen: MemberChanges) -> Diagnosis:  # noqa: PLR0911 - one per kind
    if any(member.how == "overran" for member in state.histories):
        return Diagnosis("poll-timeout")
    if not state.after and seen.departed:
        return _classify_emptied_group(state, (*seen.departed, *seen.temporary_members))
    if seen.returned and len(seen.returned) >= len(seen.departed):
        return _classify_full_restart(state, seen)
    if seen.departed:
        return _classify_replacement(state, seen) if seen.joined else _classify_departures(state, seen.departed)
    if seen.joined:
        return Diagnosis("scale-out")
    if any(member.how == "lost" for member in seen.temporary_members):
        return _classify_crash(seen.temporary_members)
    return Diagnosis("unknown", "members joined and departed again")


def _classify_emptied_group(state: EpisodeState, departed: Sequence[MemberHistory]) -> Diagnosis:
    has_shut_down = state.deleted or all(member.how == "left" for member in departed)
    return Diagnosis("shutdown") if has_shut_down else _classify_crash(departed)


def _classify_full_restart(state: EpisodeState, seen: MemberChanges) -> Diagnosis:
    returned = seen.returned
    moved = _classify_coordinator_move(state, seen)
    if moved is not None:
        return moved
    lost = [member for member in returned if member.how == "lost"]
    if lost:
        return _classify_crashes_with_return(state, returned, lost)
    if state.protocol != "classic" and all(member.by == MEMBER_KEY for member in returned):
        # Under KIP-848 each process generates its member id once, so these are the same processes.
        if all(member.how == "left" for member in returned):
            why = "the same client left and came back: it exceeded max.poll.interval.ms, or unsubscribed for a while"
            return Diagnosis("poll-timeout", why)
        return Diagnosis("unknown", "the same client was gone and came back; no evidence shows why")
    why = _doubt_text(state, seen)
    if (strategy := _deployment_strategy(state, seen)) is not None:
        return Diagnosis(strategy, why)
    return Diagnosis("restart", why) if len(returned) == 1 else _classify_several_restarts(state, why)


def _deployment_strategy(state: EpisodeState, seen: MemberChanges) -> EpisodeKind | None:
    """Return the deployment strategy that replaced all members, such as ``surge``; None if it is unknown."""
    returned = seen.returned
    others = seen.departed or seen.joined or any(m.how != "left" or m.has_same_address for m in returned)
    if len(returned) != state.before or others or any(item.source == POLLING for item in state.evidence):
        return None
    if state.away == state.before and state.before > 1:
        return "recreate"
    if state.away or not all(0 < member.joined_at < member.times[-1] for member in returned):
        return None
    if state.before > 1 and _joined_before_departures(returned, returned):
        return "fleet-replaced"
    return "surge" if all(member.by == POD_KEY for member in returned) and have_one_owner(returned) else None


def _joined_before_departures(joined: Sequence[MemberHistory], departed: Sequence[MemberHistory]) -> bool:
    return max(member.joined_at for member in joined) < min(member.times[-1] for member in departed)


def _classify_several_restarts(state: EpisodeState, why: str) -> Diagnosis:
    is_polled = any(item.source == POLLING for item in state.evidence)
    if 2 * state.away <= (state.before or 0):
        return Diagnosis("rolling-restart", why or (_POLLING_DOUBT if is_polled else ""))
    if is_polled:
        return Diagnosis("unknown", _POLLING_DOUBT)
    if any(item.source == LISTENER and item.kind is None for item in state.evidence):
        why = why or "members' own reports may be late: it is uncertain how many were away at once"
    return Diagnosis("restart", why)


def _classify_crashes_with_return(
    state: EpisodeState, returned: Sequence[MemberHistory], lost: Sequence[MemberHistory]
) -> Diagnosis:
    whole_group_left = len(returned) > 1 and len(returned) == state.before
    first_loss_ms = min((member.times[-1] for member in lost if member.times), default=0)
    early_returns = [member for member in returned if 0 < member.joined_at <= first_loss_ms]
    if whole_group_left and 2 * len(early_returns) > len(returned):
        return Diagnosis("crash", _EARLY_REPLACEMENT_DOUBT)
    if whole_group_left and 2 * state.away <= len(returned) and state.rebalances > 1:
        return Diagnosis(
            "rolling-restart", "members crashed one after the other and came back, as in a rolling restart"
        )
    if whole_group_left and len(lost) == len(returned) and all(member.has_same_address for member in returned):
        return Diagnosis("unknown", _COMMON_EXPIRY_DOUBT)
    return _classify_crash(returned)


def _doubt_text(state: EpisodeState, seen: MemberChanges) -> str:
    """Return the reason why replaced members may not have been restarted; ``""`` if it is certain that they were."""
    if any(member.by in UNSURE for member in seen.returned):
        return "members were matched by names that other members may share"
    # Under KIP-848 each process generates its member id; under the classic protocol each join gives a new one.
    does_id_change_prove_restart = state.protocol != "classic"
    left = [member for member in seen.returned if member.how == "left"]
    if not all(member.is_new_process or (does_id_change_prove_restart and member.by != MEMBER_KEY) for member in left):
        return _UNEXPLAINED_LEAVE
    if any(member.how == "gone" for member in seen.returned):
        return "no evidence shows whether members that came back were restarted or crashed"
    return ""


def _classify_coordinator_move(state: EpisodeState, seen: MemberChanges) -> Diagnosis | None:
    """Return ``coordinator-move`` if the coordinator moved and all members rejoined from their address, else None."""
    has_new_process = any(m.closed or m.how == "overran" or not m.has_same_address for m in seen.returned)
    if has_new_process or seen.departed or seen.joined or not _has_moved(state):
        return None
    if any(member.how == "left" for member in seen.returned):
        return Diagnosis("coordinator-move", _UNEXPLAINED_LEAVE)
    return Diagnosis("coordinator-move", "" if _has_moved(state, logged=True) else _NEW_LEADER_DOUBT)


def _classify_replacement(state: EpisodeState, seen: MemberChanges) -> Diagnosis:
    joined, departed = seen.joined, seen.departed
    if any(member.how == "lost" for member in departed):
        return _classify_departures(state, departed)
    whole_group_left = len(departed) == state.before and all(member.how == "left" for member in departed)
    if whole_group_left and not state.away and have_one_owner(joined) and _joined_before_departures(joined, departed):
        return Diagnosis("fleet-replaced")
    why = f"{len(seen.joined)} joined and {len(seen.departed)} departed; no evidence shows which member replaced which"
    return Diagnosis("unknown", why)


def _classify_departures(state: EpisodeState, departed: Sequence[MemberHistory]) -> Diagnosis:
    if all(member.how == "left" for member in departed):
        return Diagnosis("scale-in")
    if state.lost_rack and 1 < len(departed) == state.departures and all(member.how == "lost" for member in departed):
        return Diagnosis("zone-lost")
    return _classify_crash(departed)


def _classify_crash(departed: Sequence[MemberHistory]) -> Diagnosis:
    how_departed = {member.how for member in departed}
    if "lost" not in how_departed:
        return Diagnosis("unknown", "no evidence shows whether the members left or crashed")
    return Diagnosis("crash", "no evidence shows how some of the members departed" if "gone" in how_departed else "")
