"""The events that follow from a coordinator's answer: ``poll(group, answer, …) -> (group, event)``. Pure.

Coordinators tell neither a classic group's generation nor, through this client, a consumer group's epoch. So the
numbers of these events are counted here: one more for each change that Kafka certainly counts as well. They never
run ahead of Kafka's, so that the collector of ``__consumer_offsets`` can take over at any time.

===========  ======================================  ==========================================================
protocol     published                               one more
===========  ======================================  ==========================================================
classic      at rest: between generations nobody is  another assignment or assignor, or a rebalance seen before
             told what members own
consumer     every state of members, what they own   members came or went; or, since the group was last seen at
             and are to own                          rest, they are to own something else
===========  ======================================  ==========================================================

If another collector published a group's last event, it has :data:`OTHER_SECONDS` to publish the next one, as it
sees more. After that this collector does.

Ids are a chain: each is a function of the one before it and of what was seen. The first has none before it, so the
time counts in its place: a group that was deleted may come back exactly as it was at first. The last event of
a group is all that a restarted collector needs (:func:`resumed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Literal

from msgspec import UNSET, UnsetType, structs

from streaming.collect.coordinator.streams_data import STREAM
from streaming.collect.evidence import UNSURE, departed
from streaming.records.codec import encode, rfc3339
from streaming.records.diffs import LatestAssignment
from streaming.records.events import (
    POLLING,
    Event,
    Evidence,
    GroupDeleted,
    GroupObserved,
    Kind,
    ObservedMember,
    Partitions,
)

#: What an event of this collector is not, for its readers.
LIMITS = (
    "asked for with the Admin API: the generation or epoch is a count of what was seen, not Kafka's number; "
    "subscriptions, reasons, and what came and went between two answers can't be seen"
)
#: States in which nothing is under way; all others lie between two generations, or between an epoch and its end.
RESTS = frozenset({"Stable", "Empty"})
#: For how long another collector that has the last word on a group may be behind.
OTHER_SECONDS = 15.0
#: The coordinator knows no such group.
DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class Described:
    """A coordinator's description of a group; members of classic groups have no ``target``."""

    group_id: str
    protocol: Literal["classic", "consumer"]
    state: str
    assignor: str | None = None
    members: tuple[ObservedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class Flux:
    """A rebalance under way: last seen at rest, first seen in it (ms), and the first state that was seen."""

    rest: int | None
    seen: int
    state: str


@dataclass(frozen=True, slots=True)
class PolledGroup:
    """The state of a group between two answers.

    Attributes:
        described: when it was last described, in ms: nothing newer than ``view`` was seen then.
    """

    view: GroupObserved | None = None
    id: str = ""
    described: int | None = None
    rest: int | None = None
    flux: Flux | None = None

    @property
    def is_from_other_collector(self) -> bool:
        """True if another collector published the group's last event."""
        return bool(self.id) and self.view is not None and not self.view.polled

    @property
    def number(self) -> int:
        """The generation or epoch of the last published view; 0 before the first."""
        if self.view is None:
            return 0
        number = self.view.group_epoch if self.view.group_protocol == "consumer" else self.view.generation
        return number or 0


UNKNOWN = PolledGroup()


def resumed(event: Event) -> PolledGroup:
    """Return the state of a group after its last event, of any collector."""
    view = event.data
    if not isinstance(view, GroupObserved):
        return UNKNOWN
    at_rest = view.timestamp if view.state in RESTS else None
    return PolledGroup(view, event.id, described=view.timestamp, rest=at_rest)


def resumed_from_latest(latest: LatestAssignment) -> PolledGroup:
    """Return the state of a group whose events were deleted, from its latest assignment."""
    members = [
        ObservedMember(member_id=member_id, topics=[], assigned=assigned)
        for member_id, assigned in sorted(latest.members.items())
    ]
    view = GroupObserved(
        group_id=latest.group_id,
        timestamp=latest.timestamp,
        members=members,
        generation=latest.generation,
        group_epoch=latest.group_epoch,
        group_protocol="consumer" if latest.protocol == "consumer" else "classic",
        protocol=latest.assignor,
        kind=latest.kind,
    )
    return PolledGroup(view, described=latest.timestamp)


def in_flux(known: PolledGroup, state: str, now: int, rest: int | None = None) -> PolledGroup:
    """The group after a state of a rebalance was seen at ``now`` (ms): only the first one counts.

    ``rest``: when the group was last listed at rest, if it was.
    """
    if known.flux is not None:
        return known
    return replace(known, flux=Flux(max(filter(None, (known.rest, rest)), default=None), now, state))


def is_news(known: PolledGroup, state: str) -> bool:
    """True if a listed state requires a description: a rebalance has begun or ended.

    A group that was never described is due anyway.
    """
    expected = "Empty" if known.view is None else known.view.state
    return known.flux is not None or (known.described is not None and expected not in (None, state))


def poll(known: PolledGroup, answer: Described, now: int, source: str) -> tuple[PolledGroup, Event | None]:
    """The group after an answer at ``now`` (ms), and what is published.

    An answer that shows nothing new publishes nothing. A group that is empty when it is first seen is published
    when somebody joins: until then there is nothing to tell.
    """
    if answer.state == DEAD:
        return UNKNOWN, _deleted(known, answer.group_id, now, source)
    at_rest = answer.state in RESTS
    known = known if at_rest else in_flux(known, answer.state, now)
    view = _view(known, answer, now)
    event = None
    if _shows_more(known, view, at_rest=at_rest):
        view = structs.replace(view, evidence=_evidence(known, view, now, at_rest=at_rest))
        event = Event(source, _id(known.id, view), view)
        known = replace(known, view=view, id=event.id)
    flux = None if at_rest else known.flux
    rest = now if at_rest else known.rest
    return replace(known, described=now, rest=rest, flux=flux), event


def _deleted(known: PolledGroup, group_id: str, now: int, source: str) -> Event | None:
    if known.view is None:
        return None
    data = GroupDeleted(group_id=group_id, timestamp=now, reason="the coordinator no longer knows it")
    return Event(source, _digest(known.id, b"deleted"), data)


def _view(known: PolledGroup, answer: Described, now: int) -> GroupObserved:
    before = known.view
    # Subscriptions can't be seen: where the other collector has told them, they are not taken back.
    topics = {member.member_id: member.topics for member in before.members} if before is not None else {}
    consumer = answer.protocol == "consumer"
    view = GroupObserved(
        group_id=answer.group_id,
        timestamp=now,
        members=[
            structs.replace(member, topics=topics.get(member.member_id, []))
            for member in sorted(answer.members, key=lambda member: member.member_id)
        ],
        group_protocol=answer.protocol,
        protocol=answer.assignor,
        state=answer.state,
        kind=_kind(before, answer),
    )
    number = known.number + (before is None or _counts(known, before, view))
    return structs.replace(view, generation=None if consumer else number, group_epoch=number if consumer else None)


def _kind(before: GroupObserved | None, answer: Described) -> Kind | UnsetType:
    """Kafka Streams by its protocol; a group whose last member left has none any more, but its kind."""
    if answer.members or before is None:
        return "streams" if answer.protocol == "classic" and answer.assignor == STREAM else UNSET
    return before.kind


def _counts(known: PolledGroup, before: GroupObserved, now: GroupObserved) -> bool:
    """True if Kafka's own number has certainly grown since ``before``."""
    if before.group_protocol != now.group_protocol:
        return True
    if now.group_protocol == "classic":
        under_way = known.flux is not None
        return under_way or before.protocol != now.protocol or _owned(before) != _owned(now)
    if _owned(before).keys() != _owned(now).keys():
        return True
    return before.state in RESTS and _targets(before) != _targets(now)


def _shows_more(known: PolledGroup, view: GroupObserved, *, at_rest: bool) -> bool:
    if view.group_protocol == "classic" and not at_rest:
        return False
    before = known.view
    if before is None:
        return bool(view.members)
    if _seen(before) != _seen(view) or before.group_protocol != view.group_protocol:
        return True
    if view.group_protocol == "classic":
        return known.flux is not None
    return at_rest and before.state not in RESTS


def _owned(view: GroupObserved) -> dict[str, Partitions]:
    return {member.group_instance_id or member.member_id: member.assigned for member in view.members}


def _targets(view: GroupObserved) -> dict[str, Partitions]:
    return {member.group_instance_id or member.member_id: member.target or {} for member in view.members}


def _seen(view: GroupObserved) -> tuple[str | None, Mapping[str, tuple[object, ...]]]:
    consumer = view.group_protocol == "consumer"
    return view.protocol or None, {
        member.member_id: (
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.assigned,
            member.target or {} if consumer else None,
        )
        for member in view.members
    }


def _evidence(known: PolledGroup, view: GroupObserved, now: int, *, at_rest: bool) -> list[Evidence]:
    found = [Evidence(source=POLLING, reason=LIMITS)]
    if (when := _when(known, now, at_rest=at_rest)) is not None:
        found.append(Evidence(source=POLLING, reason=when))
    lost = [] if known.view is None else [member.member_id for member in departed(known.view, view)]
    if lost:
        said = "gone since the answer before: can't tell a crash from a leave"
        found.append(Evidence(source=POLLING, reason=said, member_ids=lost, kind=UNSURE))
    return found


def _when(known: PolledGroup, now: int, *, at_rest: bool) -> str | None:
    flux = known.flux
    if flux is not None:
        began = f"by {rfc3339(flux.seen)}"
        if flux.rest is not None:
            began = f"between {rfc3339(flux.rest)} and {rfc3339(flux.seen)}"
        ended = f"it was over by {rfc3339(now)}" if at_rest else f"it goes on at {rfc3339(now)}"
        return f"the rebalance began {began}, when the group was seen in {flux.state}; {ended}"
    if known.described is None:
        return None
    return f"it changed between {rfc3339(known.described)} and {rfc3339(now)}; no state between the two was seen"


def _id(before: str, view: GroupObserved) -> str:
    timestamp = 0 if before else view.timestamp
    return _digest(before, encode(structs.replace(view, timestamp=timestamp, evidence=[])))


def _digest(before: str, content: bytes) -> str:
    """128 bits of BLAKE2b over an id, behind its length, and what follows it; in hexadecimal."""
    chain = f"{len(before)}:{before}".encode(errors="surrogatepass")
    return blake2b(chain + content, digest_size=16).hexdigest()
