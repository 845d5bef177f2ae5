"""Who came and went in an episode: a restart is one member that was replaced, not a leave and a join.

A member that comes is matched with one that went, by the first of these that fits:

1. the same member id, or the same instance id;
2. the same client id on the same host;
3. the same client id, unless it is one that a client library makes up: a StatefulSet's pods keep their names;
4. pod names of one Deployment in the client id: ``pay-7f9c6d5b8-x2x9z`` and ``pay-5d4f7c9b6-q8r7t``;
5. the same client id but for the UUID in it (Kafka Streams), or a made-up one.

Rolling updates may start the new member first, and a killed one is found to be gone when it is long back. So one
that goes is matched with one that came in the same episode, too, where that says more than that two are called
alike: by the instance id; by client id and host where the session of the one that went had run out; by pod names of
two generations of one Deployment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import Final, Literal, NamedTuple

from msgspec import Struct, structs

from streaming.episodes.notes import BounceNote, RoundNote
from streaming.wire.diffs import Cause
from streaming.wire.names import Named

#: How a member went: by itself; its session ended; it overran its poll interval; nothing says how.
How = Literal["", "left", "lost", "overran", "gone"]

BY_MEMBER: Final = "member id"
BY_INSTANCE: Final = "instance id"
BY_HOST: Final = "client id and host"
BY_CLIENT: Final = "client id"
BY_POD: Final = "pod names of one Deployment"
BY_PATTERN: Final = "client id without its UUID"
BY_DEFAULT: Final = "default client id"
#: What proves no replacement: many members may be called so.
UNSURE: Final = frozenset({BY_PATTERN, BY_DEFAULT})

#: Times of one member's turns that are remembered: enough for the time between two.
_TIMES: Final = 16
#: Members that came and went within the episode and that are remembered one by one.
MOST_PASSED: Final = 256

#: What Kubernetes makes names of (``SafeEncodeString``): no vowels, no digits that look like letters.
_SAFE: Final = "[bcdfghjklmnpqrstvwxz2456789]"
_DEPLOYMENT: Final = re.compile(rf"(?P<name>.+)-(?P<hash>{_SAFE}{{6,10}})-{_SAFE}{{5}}(?P<thread>-\d+)?")
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: Client ids that client libraries make up where nobody names one.
_DEFAULT: Final = re.compile(
    r"rdkafka|kafka-python-[\d.]+|aiokafka-[\d.]+|sarama|kgo|consumer-.+-\d+|consumer-\d+|console-consumer(-\d+)?"
)
#: What reasons say of a member that did not poll in time, in the words of Kafka's clients and coordinators.
_OVERRAN: Final = (
    "poll timeout has expired",
    "max.poll.interval",
    "failed to transition from epoch",
    "did not join again in time",
)
_LEFT: Final = "member.left"
_FENCED: Final = "member.fenced"
_UNKNOWN: Final = "group.observed"
_COMPARISON: Final = "comparison"


class MemberIdentity(Struct, frozen=True, array_like=True, gc=False):
    """What a member is called beside its id."""

    client_id: str | None = None
    client_host: str | None = None
    group_instance_id: str | None = None


class MemberHistory(Struct, frozen=True, array_like=True, gc=False):
    """One member through an episode, under whatever member ids.

    Attributes:
        first: the id that it had first.
        now: the one it has, or had last.
        was: what it was called first.
        person: what it is called.
        founder: it was in the group when the episode began.
        how: how it went the last time; ``""``: it did not.
        by: what its return was matched by; ``""``: it did not return.
        turns: how often it was the reason of a rebalance: it went, or changed what it asks for.
        times: when, ms, the last ones.
    """

    first: str
    now: str
    was: MemberIdentity
    person: MemberIdentity
    founder: bool
    how: How = ""
    by: str = ""
    turns: int = 0
    times: tuple[int, ...] = ()


class Tracks(NamedTuple):
    """Members that came, went or asked for something: ``there`` by their member ids now, and ``missing``."""

    there: dict[str, MemberHistory]
    missing: tuple[MemberHistory, ...]

    @property
    def all(self) -> Iterator[MemberHistory]:
        """All of them, those that are there first."""
        return chain(self.there.values(), self.missing)


def identity(named: Named | None) -> MemberIdentity:
    """What is known of a member."""
    if named is None:
        return MemberIdentity()
    if isinstance(named, MemberIdentity):
        return named
    return MemberIdentity(named.client_id, named.client_host, named.group_instance_id)


def overran(reason: str) -> bool:
    """Whether a reason says that a member did not poll in time."""
    return any(words in reason for words in _OVERRAN)


def manner(cause: Cause, member_id: str, *, derived: bool = False) -> How:
    """How a member went, as far as the cause of the round says.

    That it left counts with a reason: of a member that is gone a collector says so where nothing says otherwise. In
    a ``derived`` group, which no collector sees, it is the word of the event.
    """
    told: set[str | None] = set()
    for item in cause.evidence:
        if member_id not in item.member_ids:
            continue
        if item.kind in (_LEFT, _FENCED) and overran(item.reason):
            return "overran"
        if item.source != _COMPARISON or item.kind == _UNKNOWN:
            told.add(item.kind)
    if _LEFT in told:
        return "left"
    if _FENCED in told:
        return "lost"
    if derived and cause.kind == _LEFT and member_id in cause.member_ids:
        return "left"
    fenced = cause.kind == _FENCED and member_id in cause.member_ids and _UNKNOWN not in told
    return "lost" if fenced else "gone"


def follow(
    there: dict[str, MemberHistory], missing: tuple[MemberHistory, ...], seen: RoundNote
) -> tuple[tuple[MemberHistory, ...], int]:
    """Those that are missing after a round, and how many were away in its middle. ``there`` is changed."""
    left = [_gone(there.pop(one, None), one, seen) for one in seen.gone]
    if left:
        missing = (*missing, *left)
    away = sum([track.founder for track in missing])
    if seen.joined:
        missing = _join(there, missing, seen)
    if left:
        missing = _earlier(there, missing, left, seen)
    return _bounded(missing), away


def stir(there: dict[str, MemberHistory], member_ids: Iterable[str], seen: RoundNote) -> None:
    """Take a rebalance that members in the group asked for: they joined again, or subscribed anew."""
    for one in member_ids:
        there[one] = _turn(there.get(one) or _founder(one, seen.names), seen.timestamp)


def bounce(there: dict[str, MemberHistory], seen: BounceNote) -> None:
    """Take static members that came back under new ids."""
    for old, new in seen.renamed.items():
        who = identity(seen.names.get(new))
        track = there.pop(old, None) or MemberHistory(old, old, who, who, founder=True)
        by = BY_INSTANCE if track.founder else ""
        there[new] = _turn(structs.replace(track, now=new, person=who, by=by), seen.timestamp)


def _founder(member_id: str, names: Mapping[str, Named]) -> MemberHistory:
    who = identity(names.get(member_id))
    return MemberHistory(member_id, member_id, who, who, founder=True)


def _gone(track: MemberHistory | None, member_id: str, seen: RoundNote) -> MemberHistory:
    if track is None:
        track = _founder(member_id, seen.names)
    times = (*track.times[1 - _TIMES :], seen.timestamp)
    how = manner(seen.cause, member_id, derived=seen.derived)
    return structs.replace(track, how=how, turns=track.turns + 1, times=times)


def _turn(track: MemberHistory, timestamp: int) -> MemberHistory:
    times = (*track.times[1 - _TIMES :], timestamp)
    return structs.replace(track, turns=track.turns + 1, times=times)


def _join(
    there: dict[str, MemberHistory], missing: tuple[MemberHistory, ...], seen: RoundNote
) -> tuple[MemberHistory, ...]:
    """Members that came: each in the place of one that went, or new. Gives those that are still missing."""
    if len(seen.joined) == 1:
        return _join_one(there, missing, seen.joined[0], identity(seen.names.get(seen.joined[0])))
    waiting = [(one, identity(seen.names.get(one))) for one in seen.joined]
    if missing:
        back: set[int] = set()
        keys = [dict(_keys(track.now, track.person)) for track in missing]
        came = [(one, who, dict(_keys(one, who))) for one, who in waiting]
        for by in _TIERS:
            free: dict[str, list[int]] = {}
            for place, of in enumerate(keys):
                if by in of and place not in back:
                    free.setdefault(of[by], []).append(place)
            for one, who, of in came if free else ():
                places = free.get(of.get(by, "")) if one not in there else None
                if places:
                    place = places.pop(0)
                    back.add(place)
                    there[one] = structs.replace(missing[place], now=one, person=who, by=by)
        if back:
            missing = tuple(track for place, track in enumerate(missing) if place not in back)
    for one, who in waiting:
        if one not in there:
            there[one] = MemberHistory(one, one, who, who, founder=False)
    return missing


def _join_one(
    there: dict[str, MemberHistory], missing: tuple[MemberHistory, ...], one: str, who: MemberIdentity
) -> tuple[MemberHistory, ...]:
    """The same of one member, as nearly all rounds have it."""
    best, found = len(_TIERS), None
    for track in missing:
        rank = _rank(track, one, who)
        if rank < best:
            best, found = rank, track
    if found is None:
        there[one] = MemberHistory(one, one, who, who, founder=False)
        return missing
    there[one] = structs.replace(found, now=one, person=who, by=_TIERS[best])
    return tuple([track for track in missing if track is not found])


def _rank(track: MemberHistory, one: str, who: MemberIdentity) -> int:
    """The place in :data:`_TIERS` of the first by which a member fits; their number where none does."""
    was = track.person
    if track.now == one:
        return 0
    if was.group_instance_id or who.group_instance_id:
        return 1 if was.group_instance_id == who.group_instance_id else len(_TIERS)
    if was.client_id and was.client_id == who.client_id and was.client_host == who.client_host:
        return 2 if who.client_host else 3 + 2 * bool(_DEFAULT.fullmatch(was.client_id))
    if not was.client_id or not who.client_id:
        return len(_TIERS)
    keys = dict(_keys(one, who))
    fits = [_TIERS.index(by) for by, key in _keys(track.now, was) if keys.get(by) == key]
    return min(fits, default=len(_TIERS))


def _earlier(
    there: dict[str, MemberHistory],
    missing: tuple[MemberHistory, ...],
    left: Iterable[MemberHistory],
    seen: RoundNote,
) -> tuple[MemberHistory, ...]:
    """Members that went, matched with ones that had come before them. Gives those that are still missing."""
    came = [track for one, track in there.items() if not track.founder and one not in seen.joined]
    if not came:
        return missing
    still = list(missing)
    for gone in left:
        if gone not in still:
            continue
        for other in came:
            by = _took_over(gone, other)
            if by:
                came.remove(other)
                still.remove(gone)
                there[other.now] = structs.replace(
                    gone,
                    now=other.now,
                    person=other.person,
                    by=by,
                    turns=gone.turns + other.turns,
                    times=tuple(sorted((*gone.times, *other.times)))[-_TIMES:],
                )
                break
    return tuple(still)


def _took_over(gone: MemberHistory, there: MemberHistory) -> str:
    """What shows that a member that is there took the place of one that went later; ``""``: nothing."""
    was, now = gone.person, there.person
    if was.group_instance_id:
        return BY_INSTANCE if was.group_instance_id == now.group_instance_id else ""
    if not was.client_id or not now.client_id:
        return ""
    alike = (was.client_id, was.client_host) == (now.client_id, now.client_host)
    if alike and was.client_host and gone.how == "lost":
        return BY_HOST
    pods = _DEPLOYMENT.fullmatch(was.client_id), _DEPLOYMENT.fullmatch(now.client_id)
    if pods[0] and pods[1]:
        (name, old, thread), (other, new, same) = (pod.group("name", "hash", "thread") for pod in pods if pod)
        if (name, thread) == (other, same) and old != new:
            return BY_POD
    return ""


_TIERS: Final = (BY_MEMBER, BY_INSTANCE, BY_HOST, BY_CLIENT, BY_POD, BY_DEFAULT, BY_PATTERN)


def _keys(member_id: str, who: MemberIdentity) -> Iterator[tuple[str, str]]:
    """What a member can be matched by."""
    yield BY_MEMBER, member_id
    if who.group_instance_id:
        # Another instance is another member, whatever it is called.
        yield BY_INSTANCE, who.group_instance_id
        return
    client = who.client_id
    if not client:
        return
    if who.client_host:
        yield BY_HOST, f"{client} {who.client_host}"
    yield from _client_keys(client)


@lru_cache(maxsize=1 << 12)  # who goes mostly comes back under the same client id
def _client_keys(client: str) -> tuple[tuple[str, str], ...]:
    """What a client id alone is matched by."""
    keys = [(BY_DEFAULT if _DEFAULT.fullmatch(client) else BY_CLIENT, client)]
    pod = _DEPLOYMENT.fullmatch(client)
    if pod is not None:
        keys.append((BY_POD, f"{pod['name']} {pod['thread'] or ''}"))
    plain = _UUID.sub("", client)
    if plain != client:
        keys.append((BY_PATTERN, plain))
    return tuple(keys)


def _bounded(missing: tuple[MemberHistory, ...]) -> tuple[MemberHistory, ...]:
    """Those that are missing, without the oldest of too many that only passed through."""
    if len(missing) <= MOST_PASSED:
        return missing
    too_many = sum(not track.founder for track in missing) - MOST_PASSED
    kept = []
    for track in missing:
        if too_many > 0 and not track.founder:
            too_many -= 1
        else:
            kept.append(track)
    return tuple(kept)
