"""The current state of a live group, read from the monitor's topics."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from msgspec import UNSET, Struct, structs

from assignors.model import Topic
from streaming.records import events
from streaming.records.diffs import LatestAssignment, MemberDiff, MemberNames, UnknownGroup
from streaming.records.names import display_names

#: The event types that :class:`MembershipLog` uses.
EVENT_TYPES = (
    "member.joined",
    "member.left",
    "member.fenced",
    "member.subscription_changed",
    "topic.partitions_changed",
    "group.observed",
    "group.deleted",
)


class LiveMember(Struct, frozen=True, kw_only=True, gc=False):
    """A member of a live group, with its input of the next rebalance.

    ``assignors``: in order of preference; empty if unknown, or if the group has the name of its assignor. ``owned``:
    owned partitions, under KIP-848 the member's target assignment. Timeouts are None if they are unknown or set by the
    broker. ``classic``: True if the member uses the classic protocol.
    """

    member_id: str
    names: MemberNames = MemberNames()
    rack_id: str | None = None
    topics: tuple[str, ...] = ()
    assignors: tuple[str, ...] = ()
    owned: events.Holding = {}
    generation: int = -1
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    classic: bool = True


class LiveGroup(NamedTuple):
    """The current state of a group.

    ``number``: the group's generation or epoch, 0 if unknown. ``members``: in the order of the JoinGroup response.
    ``topics``: subscribed and requested topics. ``unknown``: lines of text about missing data.
    """

    group_id: str
    kind: str
    protocol: str
    assignor: str | None
    number: int
    timestamp: int
    members: tuple[LiveMember, ...]
    topics: Mapping[str, Topic]
    unknown: tuple[str, ...] = ()

    @property
    def names(self) -> dict[str, str]:
        """Return the display name of each member, by member id."""
        names_by_id = display_names({member.member_id: member.names for member in self.members})
        return {member.member_id: names_by_id.get(member.member_id, member.member_id) for member in self.members}


class MembershipLog:
    """Builds the state of one group from the group's membership events, in order."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._view: events.GroupObserved | None = None
        self._joined: dict[str, events.MemberJoined] = {}
        self._topics: dict[str, events.TopicMetadata] = {}
        self._is_empty = True

    def feed(self, event: events.Event) -> None:
        """Apply the next membership event to the live group."""
        self._is_empty = False
        data: events.EventData = event.data
        match data:
            case events.GroupObserved():
                self._view = data
            case events.PartitionsChanged():
                self._topics |= data.topics
            case events.GroupDeleted():
                self._view, self._joined = None, {}
            case events.MemberJoined():
                self._join(data)
            case events.MemberLeft() | events.MemberFenced():
                self._joined.pop(data.member_id, None)
            case events.SubscriptionChanged() if joined := self._joined.get(data.member_id):
                self._joined[data.member_id] = structs.replace(joined, topics=data.topics)
            case _:
                pass

    def _join(self, data: events.MemberJoined) -> None:
        instance = data.group_instance_id
        place = data.member_id  # A static member takes the place of its predecessor.
        if instance is not None:
            place = next((name for name, member in self._joined.items() if member.group_instance_id == instance), place)
        joined = {**self._joined, place: data}
        self._joined = {data.member_id if member_id == place else member_id: joined[member_id] for member_id in joined}

    def group(self, latest: LatestAssignment | None, also: Collection[str] = ()) -> LiveGroup:
        """Return the group's current state; ``latest`` is its record in the topic of latest assignments.

        ``also``: topics to include in addition to subscribed topics, if their partition counts are known.
        """
        if self._view is not None:
            return self._add_topics(_observed_group(self._view), also)
        if latest is not None:
            return self._add_topics(self._derived_group(latest), also)
        no_data = "the monitor has no data about it; `rebalance-monitor groups` lists all known groups"
        problem = no_data if self._is_empty else "it has no members, or does not exist any more"
        raise UnknownGroup(f"group {self._group_id}: {problem}")

    def _derived_group(self, latest: LatestAssignment) -> LiveGroup:
        members = []
        for member_id in dict.fromkeys((*self._joined, *latest.members)):
            if member_id not in latest.members:
                continue
            owned, joined = latest.members[member_id], self._joined.get(member_id)
            if joined is None:
                names = latest.names.get(member_id, MemberNames())
                members.append(LiveMember(member_id=member_id, names=names, topics=tuple(owned), owned=owned))
                continue
            own = {"assignors": tuple(joined.assignors), "classic": joined.group_protocol == "classic"}
            members.append(_live_member(joined, owned, latest.generation or 0, **own))
        unknown: tuple[str, ...] = ()
        if missing := len(latest.members.keys() - self._joined.keys()):
            joins = f"the membership topic does not have the join of {missing} of {len(members)} members"
            unknown = (f"{joins}: they are assumed to subscribe to the topics of their partitions",)
        kind = "consumer" if latest.kind is UNSET else latest.kind
        number = (latest.generation if latest.group_epoch is None else latest.group_epoch) or 0
        group = (self._group_id, kind, latest.protocol, latest.assignor, number, latest.timestamp, tuple(members))
        return LiveGroup(*group, topics={}, unknown=unknown)

    def _add_topics(self, group: LiveGroup, also: Collection[str]) -> LiveGroup:
        if group.kind in ("connect", "streams"):
            return group
        subscribed = sorted({topic for member in group.members for topic in member.topics})
        topics, unknown = {}, list(group.unknown)
        for name in (*subscribed, *sorted(set(also).difference(subscribed))):
            metadata = self._topics.get(name)
            if metadata is not None:
                racks = None if metadata.racks is None else tuple(map(tuple, metadata.racks))
                topics[name] = Topic(name, metadata.partitions, racks, metadata.topic_id)
            elif name not in also:
                unknown.append(f"topic {name}: its partition count is not in the membership log")
        return group._replace(topics=topics, unknown=tuple(unknown))


def names_of(member: events.MemberJoined | events.ObservedMember | MemberDiff) -> MemberNames:
    """Return the identity of a member from a record: its client id, host and instance id."""
    return MemberNames(member.client_id, member.client_host, member.group_instance_id)


def _live_member(
    member: events.MemberJoined | events.ObservedMember, owned: events.Holding, generation: int, **fields: Any
) -> LiveMember:
    return LiveMember(
        member_id=member.member_id,
        names=names_of(member),
        rack_id=member.rack_id,
        topics=tuple(member.topics),
        owned=owned,
        generation=generation,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        **fields,
    )


def _observed_group(view: events.GroupObserved) -> LiveGroup:
    number, classic = view.number or 0, view.group_protocol == "classic"
    members = []
    for member in view.members:
        held = member.assigned if classic or member.target is None else member.target
        owned = {topic: sorted(held[topic]) for topic in sorted(held) if held[topic]}
        # In the snapshot of a KIP-848 group, only classic members have their own session timeout.
        is_classic = classic or member.session_timeout_ms is not None
        members.append(_live_member(member, owned, number if classic else member.member_epoch or 0, classic=is_classic))
    group = (view.group_id, view.kind or "consumer", view.group_protocol, view.protocol, number, view.timestamp)
    return LiveGroup(*group, tuple(members), topics={})
