"""Members, topics and assignments: the readable edge of every assignor.

Frozen and slotted; assignors turn them into dense integers inside one call and back once. A share of
partitions is any ascending ``Sequence[int]``: a ``range`` and a list are equally good answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from assignors.errors import InvalidGroup

#: ``{topic: ascending partitions}``: what one member owns or is given.
Share = Mapping[str, Sequence[int]]
#: ``{member id (zookeeper: thread id): share}``, every member present.
Assignment = dict[str, dict[str, Sequence[int]]]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as cluster metadata shows it. ``partitions == 0`` means that it has no metadata.

    ``racks[p]`` are the racks of partition p's replicas, ``()`` when unknown; ``topic_id`` is the Uuid as
    Kafka prints it (base64, url-safe), needed by the consumer protocol only.
    """

    name: str
    partitions: int
    racks: tuple[tuple[str, ...], ...] | None = None
    topic_id: str | None = None

    def __post_init__(self) -> None:
        """Racks in lists are taken as well."""
        racks = self.racks
        if racks is not None and not (type(racks) is tuple and {tuple}.issuperset(map(type, racks))):
            object.__setattr__(self, "racks", tuple(map(tuple, racks)))


@dataclass(frozen=True, slots=True)
class Member:
    """A member as the JoinGroup response shows it (zookeeper: a consumer, with its ``streams`` for each topic).

    ``owned`` and ``generation`` are the member's claim (ConsumerProtocolSubscription v2, or the sticky
    assignor's user data); under the consumer protocol ``owned`` is the previous target assignment.
    """

    member_id: str
    topics: tuple[str, ...] = ()
    instance_id: str | None = None
    rack_id: str | None = None
    owned: Share = field(default_factory=dict)
    generation: int = -1
    streams: Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        """Topics in a list are taken as well; one text is not: it would be read letter by letter."""
        topics: Iterable[str] = self.topics
        if type(topics) is not tuple:
            if isinstance(topics, str):
                raise InvalidGroup(f"topics: {topics!r} is one text; give a sequence of names")
            object.__setattr__(self, "topics", tuple(topics))
