"""A group of any kind: its state from the coordinator's records, and its snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from streaming.collect.coordinator.classic import ClassicGroup, Generation, following, view
from streaming.collect.coordinator.consumer import ConsumerGroup
from streaming.collect.coordinator.modern import GroupPart, ModernGroup, TopicNames
from streaming.collect.coordinator.share import ShareGroup
from streaming.collect.coordinator.streams import StreamsGroup
from streaming.records.events import GroupObserved

_CLASSES: dict[str, type[ModernGroup]] = {"consumer": ConsumerGroup, "share": ShareGroup, "streams": StreamsGroup}
#: Parts that the coordinator also writes after the group is gone.
_LATE = frozenset({"regexes"})


@dataclass
class CoordinatedGroup:
    """A group as its coordinator has it: a classic or a modern group; both None: it does not exist."""

    classic: Generation | None = None
    modern: ModernGroup | None = None

    @property
    def is_gone(self) -> bool:
        """True if the coordinator has no such group."""
        return self.classic is None and self.modern is None

    def apply(self, record: ClassicGroup | GroupPart) -> None:
        """Apply one record."""
        if isinstance(record, ClassicGroup):
            self.classic = following(self.classic, record.value)
            return
        new = _CLASSES[record.kind]
        group = self.modern if isinstance(self.modern, new) else None
        if record.part == "epoch" and record.value is None:
            self.modern = None if group is not None else self.modern
        elif group is not None:
            group.put(record.part, record.key, record.value)
        elif record.value is not None and record.part not in _LATE:
            # Tombstones of a deleted group come in any order: none creates it again.
            self.modern = new()
            self.modern.put(record.part, record.key, record.value)

    def snapshot(self, group_id: str, timestamp: int, names: TopicNames) -> GroupObserved | None:
        """Return a snapshot; None before the first generation or epoch, and of a group that is gone."""
        if self.classic is not None:
            return view(group_id, self.classic, timestamp)
        return None if self.modern is None else self.modern.snapshot(group_id, timestamp, names)
