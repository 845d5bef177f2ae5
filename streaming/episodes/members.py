"""Member histories of an episode: members that departed, joined, or replaced another member.

A restart is one replaced member, not a leave and a join. A new member replaces a departed one at once if the identity
is the same (:func:`~streaming.episodes.identity.exact_keys`): member id, instance id, client id on the same host, or a
unique client id. All others are matched as sets, each time the episode is judged (:func:`changes`): members of one
owner, with as many joins as departures. So a member that returns later under its own name is still matched with itself.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final, Literal, NamedTuple

from msgspec import Struct, structs

from streaming.episodes import identity
from streaming.episodes.notes import BounceNote, RoundNote
from streaming.episodes.reasons import exceeds_poll_interval, proves_client_close
from streaming.records.diffs import Cause, MemberNames
from streaming.records.events import COMPARISON

#: How a member departed: LeaveGroup; session expired; exceeded max.poll.interval.ms; unknown. "": it did not depart.
DepartureManner = Literal["", "left", "lost", "overran", "gone"]
#: The number of departures and rejoins per member whose times are kept: enough to compute the usual time between two.
_MAX_DEPARTURE_TIMES: Final = 16
#: The number of identities that are kept per static member.
_MAX_IDENTITIES: Final = 8
#: A rebalance request this soon after the member's last departure or request is not counted, ms.
_SAME_DEPARTURE_MS: Final = 1000
#: The most members that joined and departed within the episode and are kept one by one.
MAX_TEMPORARY_MEMBERS: Final = 256
_UNKNOWN_MEMBER: Final = MemberNames()
#: Causes whose members may neither have joined nor departed.
_REQUEST_CAUSES = frozenset({"member.joined", "member.subscription_changed"})
#: Reason of rejoins of classic members in KIP-848 groups: they rejoin for every epoch, without requesting a rebalance.
_CLASSIC_REJOIN = "using the classic protocol"


class MemberHistory(Struct, frozen=True, array_like=True, gc=False):
    """History of one member in an episode, across all its member ids.

    Attributes:
        first, now: its first and last member id; ``first_identity``, ``identity``: its names under these two ids.
        was_present: True if it was in the group when the episode began; else it joined at ``joined_at``, ms.
        how: how it last departed; ``closed``: that departure proves that the client was closed.
        by: the key that matched it with its replacement; ``""``: it did not return.
        departures_and_requests: how often it departed or requested a rebalance; ``times``: the last of these times, ms.
        departures: how often it departed; ``closings``: how many of these prove that the client was closed.
        rebalances: how many rebalances it triggered, by departing, arriving or rejoining; ``rebalance``: the last one.
        rejoins: how often it rejoined as a static member under a new member id, without a rebalance.
        identities: its last identities, if it rejoined as a static member.
    """

    first: str
    now: str
    first_identity: MemberNames
    identity: MemberNames
    was_present: bool
    how: DepartureManner = ""
    closed: bool = False
    by: str = ""
    departures_and_requests: int = 0
    times: tuple[int, ...] = ()
    closings: int = 0
    joined_at: int = 0
    rebalances: int = 0
    rebalance: int = 0
    rejoins: int = 0
    identities: tuple[MemberNames, ...] = ()
    departures: int = 0

    @property
    def is_new_process(self) -> bool:
        """True if the member's leave, instance id, host or client id shows that it returned as a new process."""
        first, latest = self.first_identity, self.identity
        has_new_host = bool(first.client_host and latest.client_host) and first.client_host != latest.client_host
        return self.closed or self.by == identity.BY_INSTANCE_ID or has_new_host or first.client_id != latest.client_id

    @property
    def has_same_address(self) -> bool:
        """True if a departed member returned with the same client id from the same host."""
        first, now = self.first_identity, self.identity
        return bool(now.client_id) and (first.client_id, first.client_host) == (now.client_id, now.client_host)


class MemberChanges(NamedTuple):
    """The members that returned, joined or departed in an episode.

    ``returned``: departed and returned, or were replaced by other members. ``joined``: new members. ``departed``:
    members that were present when the episode began, and departed. ``temporary_members``: joined and then departed.
    """

    returned: tuple[MemberHistory, ...]
    joined: tuple[MemberHistory, ...]
    departed: tuple[MemberHistory, ...]
    temporary_members: tuple[MemberHistory, ...]


def are_alternating(identities: Iterable[MemberNames]) -> bool:
    """Return whether a member changed back to an earlier identity, as if two processes shared an instance id."""
    distinct_identities = [names for names, _ in groupby(identities)]
    return len(distinct_identities) > len({*distinct_identities})


def departure_manner(cause: Cause, member_id: str, *, derived: bool = False) -> tuple[DepartureManner, bool]:
    """Return how a member departed, as far as the round's cause proves it, and whether its client was closed.

    A cause ``member.left`` needs evidence, as collectors use it for any departed member. In a ``derived`` group the
    cause is the member's own event.
    """
    kinds: set[str | None] = set()
    closed = False
    for item in cause.evidence:
        if member_id not in item.member_ids:
            continue
        if item.kind in ("member.left", "member.fenced") and exceeds_poll_interval(item.reason):
            return "overran", False
        if item.source != COMPARISON or item.kind == "group.observed":
            kinds.add(item.kind)
            closed = closed or (item.kind == "member.left" and proves_client_close(item))
    if "member.left" in kinds:
        return "left", closed
    if "member.fenced" in kinds:
        return "lost", False
    named = member_id in cause.member_ids
    if derived and named and cause.kind == "member.left":
        return "left", True
    return ("lost" if named and cause.kind == "member.fenced" and "group.observed" not in kinds else "gone"), False


def requesting_members(cause: Cause) -> dict[str, None]:
    """Return the ids of members that requested a rebalance by joining, rejoining or changing their subscription."""
    ids: list[str] = []
    if cause.kind in _REQUEST_CAUSES:
        rejoined_ids = {name for item in cause.evidence if _CLASSIC_REJOIN in item.reason for name in item.member_ids}
        ids += (member_id for member_id in cause.member_ids if member_id not in rejoined_ids)
    for item in cause.evidence:
        if item.kind is None and _CLASSIC_REJOIN not in item.reason:  # a rejoin in the coordinator's log
            ids += item.member_ids
    return dict.fromkeys(ids)


def apply_membership(
    present: dict[str, MemberHistory], absent: tuple[MemberHistory, ...], note: RoundNote, rebalance: int
) -> tuple[MemberHistory, ...]:
    """Apply joins and departures of a rebalance round to ``present``, in place; return the absent members."""
    departed: list[MemberHistory] = []
    for member_id in note.gone:
        history = present.pop(member_id, None) or _initial_member_history(member_id, note.names)
        how, closed = departure_manner(note.diff.cause, member_id, derived=note.derived)
        history = _add_rebalance(_add_time(history, note.timestamp), rebalance)
        closings, departures = history.closings + closed, history.departures + 1
        departed.append(structs.replace(history, how=how, closed=closed, closings=closings, departures=departures))
    absent = (*absent, *departed)
    if note.joined:
        absent = _match_joined_members(present, absent, note, rebalance)
    if note.diff.round == 1 and note.diff.cause.kind in _REQUEST_CAUSES:
        apply_requests(present, note, rebalance)
    return _drop_oldest_temporary(absent)


def apply_requests(present: dict[str, MemberHistory], note: RoundNote, rebalance: int) -> None:
    """Count a rebalance for the members that requested it by rejoining or by a changed subscription."""
    for member_id in requesting_members(note.diff.cause):
        if member_id in note.joined or member_id in note.gone:
            continue
        history = present.get(member_id) or _initial_member_history(member_id, note.names)
        # Some clients repeat a request at once (kafka-python's leader, for new metadata). The repeat is not counted.
        if not history.times or note.timestamp - history.times[-1] >= _SAME_DEPARTURE_MS:
            history = _add_time(history, note.timestamp)
        present[member_id] = _add_rebalance(history, rebalance)


def apply_bounce(present: dict[str, MemberHistory], note: BounceNote) -> None:
    """Apply a note about static members that rejoined under new member ids without a rebalance."""
    for old, new in note.renamed.items():
        who = note.names.get(new, _UNKNOWN_MEMBER)
        history = present.pop(old, None) or _initial_member_history(old, note.names)
        present[new] = structs.replace(
            _add_time(history, note.timestamp),
            now=new,
            identity=who,
            by=identity.BY_INSTANCE_ID if history.was_present else "",
            rejoins=history.rejoins + 1,
            identities=(*(history.identities or (history.identity,)), who)[-_MAX_IDENTITIES:],
        )


def changes(present: Mapping[str, MemberHistory], absent: Iterable[MemberHistory]) -> MemberChanges:
    """Return the members that returned, joined or departed; those without an instance id are matched by weaker keys."""
    departed = [member for member in absent if member.was_present]
    temporary_members = tuple(member for member in absent if not member.was_present)
    joined = [member for member in present.values() if not member.was_present]
    returned = [member for member in present.values() if member.was_present and member.by and member.how]
    if departed and joined:
        pairs = _pair(departed, joined)
        returned += [_merged_history(gone, new, by) for gone, new, by in pairs]
        taken = {id(member) for gone, new, _ in pairs for member in (gone, new)}
        departed = [member for member in departed if id(member) not in taken]
        joined = [member for member in joined if id(member) not in taken]
    return MemberChanges(tuple(returned), tuple(joined), tuple(departed), temporary_members)


def have_one_owner(members: Iterable[MemberHistory]) -> bool:
    """Return whether all members have names of one owner, such as a Deployment."""
    ids = [member.identity.client_id for member in members]
    keys = [set(identity.keys_of_owner(client_id)) if client_id else set() for client_id in ids]
    return bool(keys) and bool(set.intersection(*keys))


def _initial_member_history(member_id: str, names: Mapping[str, MemberNames]) -> MemberHistory:
    who = names.get(member_id, _UNKNOWN_MEMBER)
    return MemberHistory(member_id, member_id, who, who, was_present=True)


def _add_time(history: MemberHistory, timestamp: int) -> MemberHistory:
    times = (*history.times[1 - _MAX_DEPARTURE_TIMES :], timestamp)
    return structs.replace(history, departures_and_requests=history.departures_and_requests + 1, times=times)


def _add_rebalance(history: MemberHistory, rebalance: int) -> MemberHistory:
    if history.rebalance == rebalance:
        return history
    return structs.replace(history, rebalances=history.rebalances + 1, rebalance=rebalance)


def _match_joined_members(
    present: dict[str, MemberHistory], absent: tuple[MemberHistory, ...], note: RoundNote, rebalance: int
) -> tuple[MemberHistory, ...]:
    """Match joined members with absent members of the same identity; return the members that are still absent."""
    joined_members = {member_id: note.names.get(member_id, _UNKNOWN_MEMBER) for member_id in note.joined}
    places: dict[tuple[str, str], list[int]] = {}
    for place, history in enumerate(absent):
        for named in identity.exact_keys(history.now, history.identity):
            places.setdefault(named, []).append(place)
    matched_positions: set[int] = set()
    if places:
        shared = Counter(who.client_id for who in joined_members.values())
        for by in (identity.MEMBER_KEY, identity.BY_INSTANCE_ID, identity.HOST_KEY, identity.CLIENT_KEY):
            for member_id, who in joined_members.items():
                key = dict(identity.exact_keys(member_id, who)).get(by)
                if member_id in present or key is None:
                    continue
                free = [place for place in places.get((by, key), ()) if place not in matched_positions]
                # If several members have this client id, the match would be ambiguous.
                if not free or (by == identity.CLIENT_KEY and (len(free) > 1 or shared[who.client_id] > 1)):
                    continue
                matched_positions.add(free[0])
                returned = structs.replace(absent[free[0]], now=member_id, identity=who, by=by)
                present[member_id] = _add_rebalance(returned, rebalance)
    for member_id, who in joined_members.items():
        if member_id not in present:
            new = MemberHistory(member_id, member_id, who, who, was_present=False, joined_at=note.timestamp)
            present[member_id] = _add_rebalance(new, rebalance)
    return tuple(member for place, member in enumerate(absent) if place not in matched_positions)


def _pair(departed: list[MemberHistory], joined: list[MemberHistory]) -> list[tuple[MemberHistory, MemberHistory, str]]:
    pairs: list[tuple[MemberHistory, MemberHistory, str]] = []
    taken: set[int] = set()
    for by in identity.KEY_KINDS:
        members_by_key: dict[str, tuple[list[MemberHistory], list[MemberHistory]]] = {}
        for list_number, members in enumerate((departed, joined)):
            for member in members:
                key = _keys_by_kind(member).get(by) if id(member) not in taken else None
                if key is not None:
                    members_by_key.setdefault(key, ([], []))[list_number].append(member)
        for gone, new in members_by_key.values():
            for pair in _pairs_with_equal_keys(gone, new, by):
                pairs.append((*pair, by))
                taken.update(map(id, pair))
    return pairs


def _keys_by_kind(history: MemberHistory) -> dict[str, str]:
    who = history.identity
    return dict([*identity.exact_keys(history.now, who), *identity.keys_of_set(who)])


def _pairs_with_equal_keys(
    departed: list[MemberHistory], joined: list[MemberHistory], by: str
) -> Iterator[tuple[MemberHistory, MemberHistory]]:
    """Yield pairs of a departed and a joined member with equal keys; an earlier join needs more evidence."""
    is_whole_set = len(departed) == len(joined) and by in identity.SHARED_KEY_KINDS
    free = sorted(joined, key=lambda member: member.joined_at)
    for gone in sorted(departed, key=lambda member: member.times[-1]):
        for new in free:
            if new.joined_at >= gone.times[-1] or _can_be_replacement(gone, new, by, is_whole_set=is_whole_set):
                free.remove(new)
                yield gone, new
                break


def _can_be_replacement(gone: MemberHistory, new: MemberHistory, by: str, *, is_whole_set: bool) -> bool:
    if by == identity.BY_INSTANCE_ID:
        return True
    has_same_host = bool(gone.identity.client_host) and gone.identity.client_host == new.identity.client_host
    if by == identity.HOST_KEY:  # a killed process may be back before its session expires
        return gone.how == "lost"
    replica_sets = {identity.replica_set(member.identity) for member in (gone, new)}
    return (by == identity.POD_KEY and len(replica_sets) > 1) or (is_whole_set and not has_same_host)


def _merged_history(gone: MemberHistory, new: MemberHistory, by: str) -> MemberHistory:
    return structs.replace(
        gone,
        now=new.now,
        identity=new.identity,
        by=by,
        departures_and_requests=gone.departures_and_requests + new.departures_and_requests,
        times=tuple(sorted((*gone.times, *new.times)))[-_MAX_DEPARTURE_TIMES:],
        closings=gone.closings + new.closings,
        joined_at=new.joined_at,
        rebalances=gone.rebalances + new.rebalances,
        departures=gone.departures + new.departures,
    )


def _drop_oldest_temporary(absent: tuple[MemberHistory, ...]) -> tuple[MemberHistory, ...]:
    """Drop the oldest members that joined and departed within the episode, if there are too many."""
    temporary_members = [member for member in absent if not member.was_present]
    dropped_ids = {id(member) for member in temporary_members[:-MAX_TEMPORARY_MEMBERS]}
    return tuple(member for member in absent if id(member) not in dropped_ids)
