"""Members, topics and assignments: input and output of every assignor.

The classes are frozen and slotted; assignors convert them to dense integers inside a call. The partitions of
a topic are any ascending ``Sequence[int]``: a ``range`` or a list.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from assignors.errors import InvalidGroup
from assignors.java import string_key

#: ``generation`` of a member that sends none (``ConsumerPartitionAssignor.DEFAULT_GENERATION``).
NO_GENERATION = -1
#: ``{topic: ascending partitions}``: owned or assigned partitions of one member.
TopicPartitions = Mapping[str, Sequence[int]]
#: ``{member id (zookeeper: thread id): partitions}`` with an entry for every member.
Assignment = dict[str, dict[str, Sequence[int]]]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic in the cluster's metadata; ``partitions == 0`` means that the topic has no metadata.

    ``racks[p]`` are the racks of partition p's replicas, ``()`` if unknown. ``topic_id`` is the topic's Uuid in the
    format in which Kafka prints it (base64, url-safe); only the consumer protocol needs it.
    """

    name: str
    partitions: int
    racks: tuple[tuple[str, ...], ...] | None = None
    topic_id: str | None = None

    def __post_init__(self) -> None:
        """Convert lists of racks into tuples."""
        racks = self.racks
        if racks is not None and not (type(racks) is tuple and {tuple}.issuperset(map(type, racks))):
            object.__setattr__(self, "racks", tuple(map(tuple, racks)))


@dataclass(frozen=True, slots=True)
class Member:
    """A member as in the JoinGroup response (zookeeper: a consumer, with its number of ``streams`` for each topic).

    ``owned`` and ``generation`` are the member's claim (ConsumerProtocolSubscription v2, or the sticky
    assignor's user data); under the consumer protocol ``owned`` is the previous target assignment.
    """

    member_id: str
    topics: tuple[str, ...] = ()
    instance_id: str | None = None
    rack_id: str | None = None
    owned: TopicPartitions = field(default_factory=dict)
    generation: int = NO_GENERATION
    streams: Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        """Convert a list of topics into a tuple; refuse a single string, whose letters would count as topics."""
        topics: Iterable[str] = self.topics
        if type(topics) is not tuple:
            if isinstance(topics, str):
                raise InvalidGroup(f"topics: {topics!r} is one text; give a sequence of names")
            object.__setattr__(self, "topics", tuple(topics))


def check_group(topics: Mapping[str, Topic], members: Sequence[Member]) -> None:
    """Refuse input that no assignor accepts: negative partition counts and repeated member ids."""
    for name, topic in topics.items():
        if topic.partitions < 0:
            raise InvalidGroup(f"topics.{name}.partitions: {topic.partitions} is below 0")
    seen: dict[str, int] = {}
    for position, member in enumerate(members):
        first = seen.setdefault(member.member_id, position)
        if first != position:
            reason = f"{member.member_id!r} is listed twice, first as members[{first}]"
            raise InvalidGroup(f"members[{position}].memberId: {reason}")


def static_members_first(member: Member) -> tuple[bool, bytes]:
    """Return the sort key of Kafka's range assignors: static members by instance id, then dynamic ones by member id."""
    instance = member.instance_id
    return instance is None, string_key(member.member_id if instance is None else instance)
