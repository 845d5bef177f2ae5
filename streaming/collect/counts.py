"""The partition counts that groups are told: each group once what is new about the topics it subscribes to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from streaming.wire.events import (
    Event,
    GroupChanged,
    GroupDeleted,
    GroupObserved,
    ObservedMember,
    PartitionsChanged,
    TopicMetadata,
)

#: What shows a group's members, all of them or some.
Shown = GroupObserved | GroupChanged


def read_by(member: ObservedMember, *, holds_tasks: bool) -> frozenset[str]:
    """The topics that a member subscribes to; those it has, where its subscription can't be seen.

    Args:
        member: the member.
        holds_tasks: what it has is by connector or subtopology, not by topic.
    """
    return frozenset(member.topics or (() if holds_tasks else member.assigned))


def subscribed(data: Shown) -> frozenset[str]:
    """The topics that some of these members subscribes to."""
    return frozenset[str]().union(*(read_by(one, holds_tasks=data.holds_tasks) for one in data.members))


def outdated(data: Shown, told: Mapping[str, TopicMetadata]) -> bool:
    """Whether a view, or what changed, shows a topic, or a partition, that the group has not been told of."""
    return any(topic not in told for topic in subscribed(data)) or any(
        topic not in told or max(partitions, default=-1) >= told[topic].partitions
        for member in (() if data.holds_tasks else data.members)
        for topic, partitions in member.assigned.items()
    )


def partitions_changed(
    source: str, group_id: str, timestamp: int, topics: Mapping[str, TopicMetadata]
) -> Event:
    """The event that tells a group's topics; its id is unique: a group is told at most once in a millisecond."""
    data = PartitionsChanged(group_id=group_id, timestamp=timestamp, topics=dict(topics))
    names = ",".join(f"{name}={topic.topic_id}/{topic.partitions}" for name, topic in sorted(topics.items()))
    return Event(source, f"{group_id}@{timestamp}:{names}", data)


class PartitionCounts:
    """What each group was told.

    Args:
        source: ``ce_source`` of the events.
        told: group → topic → what was published last.
    """

    def __init__(self, source: str, told: dict[str, dict[str, TopicMetadata]]) -> None:
        self._source = source
        self._told = told

    def keep(self, groups: Collection[str]) -> None:
        """Forget what all other groups were told.

        The stream forgets a group that was empty for long, with its topics: when it comes back it is told again.
        """
        self._told = {group_id: topics for group_id, topics in self._told.items() if group_id in groups}

    def lack(self, events: Iterable[Event]) -> bool:
        """Whether one of these events shows a topic, or a partition, that its group has not been told of."""
        deleted: set[str] = set()
        for event in events:
            data = event.data
            if isinstance(data, GroupDeleted):
                deleted.add(data.group_id)
            elif isinstance(data, Shown) and outdated(
                data, {} if data.group_id in deleted else self._told.get(data.group_id, {})
            ):
                return True
        return False

    def before(self, event: Event, current: Mapping[str, TopicMetadata]) -> list[Event]:
        """What a group is told before this event of it; a deleted group is told everything again."""
        data = event.data
        if isinstance(data, GroupDeleted):
            self._told.pop(data.group_id, None)
        elif isinstance(data, Shown):
            return self.tell(data.group_id, subscribed(data), current, data.timestamp)
        return []

    def tell(
        self, group_id: str, topics: Iterable[str], current: Mapping[str, TopicMetadata], timestamp: int
    ) -> list[Event]:
        """What a group that subscribes to ``topics`` has not been told of, as one event or none.

        Args:
            group_id: the group.
            topics: their names; those that do not exist are passed over.
            current: topic → what the cluster has.
            timestamp: of the event, in ms.
        """
        told = self._told.get(group_id, {})
        new = {
            name: current[name]
            for name in sorted(topics)
            if name in current and told.get(name) != current[name]
        }
        if not new:
            return []
        self._told[group_id] = told | new
        return [partitions_changed(self._source, group_id, timestamp, new)]
