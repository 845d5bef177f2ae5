"""Computes the event of a group from its coordinator's answer; uses no client and no clock.

Coordinators return neither a classic group's generation nor, through this client, a consumer group's epoch. So this
module counts generations and epochs itself: one more for each change that Kafka certainly counts as well. The numbers
never exceed Kafka's numbers, so that the collector of ``__consumer_offsets`` can take over at any time.

===========  ======================================  ==========================================================
protocol     published                               one more
===========  ======================================  ==========================================================
classic      at rest, as members have no assignment  another assignment or assignor, or a rebalance seen before
             between generations
consumer     every state of members, assignments     members joined or left; or another target since the group was
             and targets                             last seen at rest
===========  ======================================  ==========================================================

If another collector published a group's last event, it has :data:`OTHER_COLLECTOR_SECONDS` to publish the next one,
because it sees more details. After that time this collector publishes the event.

Event ids are a chain: each id is a function of the previous id and of the snapshot. The first id has the time in place
of a previous id, because a deleted group may be created again exactly as it was. The last event of a group is all that
a restarted collector needs (:func:`resumed`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b

from msgspec import UNSET, UnsetType, structs

from streaming.collect.coordinator.embedded import STREAMS_ASSIGNOR
from streaming.collect.evidence import UNSURE_CAUSE, departed
from streaming.collect.rebalances import STABLE_STATES
from streaming.records.codec import encode, rfc3339
from streaming.records.diffs import LatestAssignment
from streaming.records.events import POLLING, Event, Evidence, GroupDeleted, GroupObserved, Kind, ObservedMember

#: What polling can't observe; the text is published in every event.
UNAVAILABLE_EVIDENCE = (
    "asked for with the Admin API: the generation or epoch is a count of what was seen, not Kafka's number; "
    "subscriptions, reasons, and what came and went between two answers can't be seen"
)
#: Seconds in which another collector, which published a group's last event, may publish the next event.
OTHER_COLLECTOR_SECONDS = 15.0
#: The state of a group that its coordinator does not know.
DEAD_STATE = "Dead"


@dataclass(frozen=True, slots=True)
class OngoingRebalance:
    """A rebalance of a polled group: when it was last stable and first seen rebalancing (ms), and its first state."""

    rest: int | None
    seen: int
    state: str | None


@dataclass(frozen=True, slots=True)
class PolledGroup:
    """The state of a polled group: its last published event, and times of its last answers (ms).

    ``checked_at``: when a description last equalled the event ``view``. ``rest``: when the group was last seen stable.
    """

    view: GroupObserved | None = None
    id: str = ""
    checked_at: int | None = None
    rest: int | None = None
    rebalance: OngoingRebalance | None = None

    @property
    def is_from_other_collector(self) -> bool:
        """True if another collector published the group's last event."""
        return bool(self.id) and self.view is not None and not self.view.polled

    @property
    def number(self) -> int:
        """The generation or epoch of the last published snapshot; 0 if there is none."""
        return 0 if self.view is None else self.view.number or 0

    def with_rebalance(self, state: str | None, now: int, rest: int | None = None) -> "PolledGroup":
        """Return the group with a rebalance in progress, first seen at ``now`` (ms); a known rebalance is unchanged.

        ``rest``: when ListGroups last showed a stable or empty group (ms); None if it did not.
        """
        if self.rebalance is not None:
            return self
        return replace(self, rebalance=OngoingRebalance(max(filter(None, (self.rest, rest)), default=None), now, state))


UNKNOWN = PolledGroup()


def is_polled(kind: Kind | UnsetType, protocol: str) -> bool:
    """True if polling can follow a group of this kind and protocol."""
    return kind != "connect" and protocol in ("classic", "consumer")


def resumed(event: Event) -> PolledGroup:
    """Return the state of a group after its last event, which any collector may have published."""
    view = event.data
    if not isinstance(view, GroupObserved) or not is_polled(view.kind, view.group_protocol):
        return UNKNOWN
    is_at_rest = view.timestamp if view.state in STABLE_STATES else None
    return PolledGroup(view, event.id, checked_at=view.timestamp, rest=is_at_rest)


def resumed_from_latest(latest: LatestAssignment) -> PolledGroup:
    """Return the state of a group whose events retention deleted, from its latest assignment."""
    members = sorted(latest.members.items())
    view = GroupObserved(
        group_id=latest.group_id,
        timestamp=latest.timestamp,
        members=[ObservedMember(member_id=member_id, topics=[], assigned=assigned) for member_id, assigned in members],
        generation=latest.generation,
        group_epoch=latest.group_epoch,
        group_protocol="consumer" if latest.protocol == "consumer" else "classic",
        protocol=latest.assignor,
        kind=latest.kind,
    )
    return PolledGroup(view, checked_at=latest.timestamp)


def shows_change(group: PolledGroup, state: str) -> bool:
    """Return True if a group rebalances, or its state in the group list differs from its last description."""
    expected = "Empty" if group.view is None else group.view.state
    return group.rebalance is not None or (group.checked_at is not None and expected not in (None, state))


def poll(group: PolledGroup, answer: GroupObserved, now: int, source: str) -> tuple[PolledGroup, Event | None]:
    """Return the group after an answer at ``now`` (ms), and the event to publish (None: nothing changed).

    The answer lacks generation, topics and kind. A group that is empty when it is first seen is published only once a
    member joins.
    """
    if answer.state == DEAD_STATE:
        data = GroupDeleted(group_id=answer.group_id, timestamp=now, reason="the coordinator no longer knows it")
        return UNKNOWN, None if group.view is None else Event(source, _chained_digest(group.id, b"deleted"), data)
    is_at_rest = answer.state in STABLE_STATES
    group = group if is_at_rest else group.with_rebalance(answer.state, now)
    view = _view(group, answer, now)
    event = None
    if _has_changed(group, view, is_at_rest=is_at_rest):
        snapshot_id = _chained_digest(group.id, encode(structs.replace(view, timestamp=0) if group.id else view))
        view = structs.replace(view, evidence=_evidence(group, view, now, is_at_rest=is_at_rest))
        event = Event(source, snapshot_id, view)
        group = replace(group, view=view, id=snapshot_id)
    rebalance, rest = (None, now) if is_at_rest else (group.rebalance, group.rest)
    return replace(group, checked_at=now, rest=rest, rebalance=rebalance), event


def _view(group: PolledGroup, answer: GroupObserved, now: int) -> GroupObserved:
    before = group.view
    # The Admin API has no subscriptions, so the subscriptions that the other collector published are kept.
    topics = {member.member_id: member.topics for member in before.members} if before is not None else {}
    # A group whose last member left has no assignor any more, but it keeps its kind.
    kind = UNSET if before is None or answer.members else before.kind
    if answer.group_protocol == "classic" and answer.protocol == STREAMS_ASSIGNOR:
        kind = "streams"
    members = [
        structs.replace(member, topics=topics.get(member.member_id, []))
        for member in sorted(answer.members, key=lambda member: member.member_id)
    ]
    view = structs.replace(answer, timestamp=now, members=members, kind=kind)
    number = group.number + (before is None or _is_new_generation(group, before, view))
    return structs.replace(view, **{"group_epoch" if view.has_epochs else "generation": number})


def _is_new_generation(group: PolledGroup, before: GroupObserved, now: GroupObserved) -> bool:
    """True if Kafka's own generation or epoch has certainly increased since ``before``."""
    if before.group_protocol != now.group_protocol:
        return True
    owned_before, owned_now = ({_name(member): member.assigned for member in view.members} for view in (before, now))
    if now.group_protocol == "classic":
        return group.rebalance is not None or before.protocol != now.protocol or owned_before != owned_now
    if owned_before.keys() != owned_now.keys():
        return True
    targets = ({_name(member): member.target or {} for member in view.members} for view in (before, now))
    return before.state in STABLE_STATES and next(targets) != next(targets)


def _name(member: ObservedMember) -> str:
    return member.group_instance_id or member.member_id


def _has_changed(group: PolledGroup, view: GroupObserved, *, is_at_rest: bool) -> bool:
    if view.group_protocol == "classic" and not is_at_rest:
        return False
    before = group.view
    if before is None:
        return bool(view.members)
    if _visible_content(before) != _visible_content(view) or before.group_protocol != view.group_protocol:
        return True
    if view.group_protocol == "classic":
        return group.rebalance is not None
    return is_at_rest and before.state not in STABLE_STATES


def _visible_content(view: GroupObserved) -> tuple[str | None, Mapping[str, tuple[object, ...]]]:
    """Return the fields of a snapshot that the Admin API returns."""
    is_consumer = view.group_protocol == "consumer"
    return view.protocol or None, {
        member.member_id: (
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.assigned,
            member.target or {} if is_consumer else None,
        )
        for member in view.members
    }


def _evidence(group: PolledGroup, view: GroupObserved, now: int, *, is_at_rest: bool) -> list[Evidence]:
    evidence = [Evidence(source=POLLING, reason=UNAVAILABLE_EVIDENCE)]
    rebalance = group.rebalance
    if rebalance is not None:
        began = "by" if rebalance.rest is None else f"between {rfc3339(rebalance.rest)} and"
        end_text = f"it was over by {rfc3339(now)}" if is_at_rest else f"it goes on at {rfc3339(now)}"
        reason = f"{began} {rfc3339(rebalance.seen)}, when the group was seen in {rebalance.state}; {end_text}"
        evidence.append(Evidence(source=POLLING, reason=f"the rebalance began {reason}"))
    elif group.checked_at is not None:
        reason = f"it changed between {rfc3339(group.checked_at)} and {rfc3339(now)}; no state between the two was seen"
        evidence.append(Evidence(source=POLLING, reason=reason))
    gone = [] if group.view is None else [member.member_id for member in departed(group.view, view)]
    if gone:
        reason = "gone since the answer before: can't tell a crash from a leave"
        evidence.append(Evidence(source=POLLING, reason=reason, member_ids=gone, kind=UNSURE_CAUSE))
    return evidence


def _chained_digest(before: str, content: bytes) -> str:
    """Return a 128-bit BLAKE2b hash (hexadecimal) of the length of the previous id, the previous id and the content."""
    return blake2b(f"{len(before)}:{before}".encode(errors="surrogatepass") + content, digest_size=16).hexdigest()
