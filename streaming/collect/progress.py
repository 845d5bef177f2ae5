"""Publishes samples of groups' committed and end offsets, more often while a group rebalances.

A group is *busy* while it rebalances, and for some seconds after each round. Then it is sampled less and less
often until it has caught up: all records produced before the end of the flux are committed. At rest it is sampled
once a minute.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from confluent_kafka.admin import OffsetSpec
from msgspec import UNSET

from streaming.collect.cluster_view import subscribed
from streaming.collect.rebalances import KnownGroup
from streaming.kafka.metadata import OffsetRequest, Place
from streaming.records.events import MAX_TIMESTAMP, GroupProgress
from streaming.settings.connection import KafkaSettings

_log = logging.getLogger(__name__)
#: Seconds between two samples of a busy group, and the longest pause until it has caught up.
_SAMPLE_INTERVAL_SECONDS: Final = 1.0
#: The least number of seconds between two batches of samples.
_MIN_PAUSE_SECONDS: Final = 0.25
_MAX_PAUSE_SECONDS: Final = 30.0
#: A group stays busy for this long after a round.
_BUSY_SECONDS: Final = 10.0
#: Groups at rest are sampled together: seconds between two batches.
_BATCH_SECONDS: Final = 5.0
#: The most partitions in one batch; groups that do not fit are sampled in the next batch.
_MAX_BATCH_PARTITIONS: Final = 20_000
#: ``{(topic, partition): offset}``.
Offsets = Mapping[Place, int]


def consumed_partitions(group: KnownGroup) -> list[Place]:
    """Return the partitions that a group consumes: its members' partitions, and partitions with committed offsets."""
    snapshot = group.snapshot
    if snapshot.group_protocol == "share" or snapshot.kind == "connect":
        return []  # share groups and Connect's groups commit no offsets under their own group id
    topics = subscribed(snapshot) if snapshot.members else {topic for topic, _ in group.committed}
    places = {place for place in group.committed if place[0] in topics}
    if not snapshot.holds_tasks:
        shares = (share for member in snapshot.members for share in member.assigned.items())
        places |= {(topic, number) for topic, numbers in shares for number in numbers}
    return sorted(places)


@dataclass(slots=True)
class _SamplePace:
    """The sampling times (s) of a group that rebalances, has just rebalanced, or has not caught up.

    ``targets``: the end offsets some seconds after the group's last round; None until then.
    """

    due: float
    frequent_until: float = 0.0
    pause: float = _SAMPLE_INTERVAL_SECONDS
    targets: dict[Place, int] | None = None


class SampleSchedule:
    """Decides when each group is sampled; times are seconds on a clock that the caller reads.

    ``rest_seconds``: seconds between two samples of a group at rest; 0: groups at rest are not sampled.
    """

    def __init__(self, rest_seconds: float) -> None:
        self._rest_seconds = rest_seconds
        self._active_groups: dict[str, _SamplePace] = {}
        #: When each group at rest is due.
        self._due_at: dict[str, float] = {}
        self._next_batch = float("-inf")
        self._last_batch = float("-inf")

    def sample_often(self, group_ids: Iterable[str], now: float, *, changed: bool) -> None:
        """Sample the offsets of rebalancing groups often from ``now`` on; ``changed``: take the next sample at once."""
        for group_id in group_ids:
            pace = self._active_groups.setdefault(group_id, _SamplePace(now))
            if changed or pace.pause > _SAMPLE_INTERVAL_SECONDS:
                pace.due = now
            pace.frequent_until, pace.pause, pace.targets = now + _BUSY_SECONDS, _SAMPLE_INTERVAL_SECONDS, None
            self._due_at.pop(group_id, None)

    def due(self, group_ids: Callable[[], Collection[str]], now: float) -> list[str]:
        """Return the groups to sample now, recently rebalanced ones first; ``group_ids``: returns all groups."""
        if now < self._last_batch + _MIN_PAUSE_SECONDS:
            return []
        due = [group_id for group_id, pace in self._active_groups.items() if pace.due <= now]
        self._last_batch = now if due else self._last_batch
        if not self._rest_seconds or now < self._next_batch:
            return due
        self._next_batch = now + _BATCH_SECONDS
        existing_groups = set(group_ids())
        self._active_groups = {
            group_id: pace for group_id, pace in self._active_groups.items() if group_id in existing_groups
        }
        # New groups are spread over the time between two samples.
        self._due_at = {
            group_id: self._due_at.get(group_id, now + self._offset(group_id))
            for group_id in existing_groups - self._active_groups.keys()
        }
        return due + [group_id for group_id, due_at in self._due_at.items() if due_at <= now]

    def is_busy(self, group_id: str) -> bool:
        """Return true if the group rebalances, has rebalanced a short time ago, or has not caught up."""
        return group_id in self._active_groups

    def schedule_next_sample(self, group_id: str, committed: Offsets, ends: Offsets, now: float) -> None:
        """Schedule the next sample of a group that was just sampled; ``ends``: its partitions' end offsets."""
        pace = self._active_groups.get(group_id)
        if pace is None:
            if group_id in self._due_at:
                self._rest_until_next_sample(group_id, ends, now)
            return
        if now >= pace.frequent_until:
            pace.targets = pace.targets or dict(ends)
            if all(committed.get(place, end) >= end for place, end in pace.targets.items()):
                del self._active_groups[group_id]
                self._rest_until_next_sample(group_id, ends, now)
                return
            pace.pause = min(2 * pace.pause, _MAX_PAUSE_SECONDS)
        if pace.due <= self._last_batch:  # else something has changed since the request
            pace.due = now + pace.pause

    def _rest_until_next_sample(self, group_id: str, ends: Offsets, now: float) -> None:
        """Schedule the next sample of a group at rest for the time at which other groups with its topic are sampled."""
        if self._rest_seconds:
            topic = min(ends)[0] if ends else group_id
            self._due_at[group_id] = now + self._rest_seconds - (now - self._offset(topic)) % self._rest_seconds

    def _offset(self, name: str) -> float:
        """Return a delay (s) that is shorter than the sampling interval and always the same for the same name."""
        return crc32(name.encode()) % 1000 / 1000 * self._rest_seconds


def progress_event(
    group: KnownGroup, ends: Offsets, starts: Offsets, now: int, requested_at: int, *, is_busy: bool
) -> GroupProgress:
    """Return the progress event at ``now`` (ms) for a group's partitions, which are the keys of ``ends``."""
    partitions: dict[str, dict[str, tuple[int | None, int]]] = {}
    retention_starts: dict[str, dict[str, int]] = {}
    committed_at: dict[str, dict[str, int]] = {}
    for (topic, number), end in ends.items():
        commit = group.committed.get((topic, number))
        offset, at = (None, None) if commit is None else (commit.offset, commit.timestamp)
        if is_busy and at is not None and 0 <= at <= MAX_TIMESTAMP:
            committed_at.setdefault(topic, {})[str(number)] = at
        start = starts.get((topic, number), 0)
        partitions.setdefault(topic, {})[str(number)] = (offset, max(end, offset or 0))
        if offset is not None and start > offset:
            retention_starts.setdefault(topic, {})[str(number)] = start
    return GroupProgress(
        group_id=group.snapshot.group_id,
        timestamp=now,
        partitions=partitions,
        starts=retention_starts or UNSET,
        requested_at=requested_at,
        committed_at=committed_at or UNSET,
    )


class ProgressSampler:
    """Samples the end offsets of groups' partitions; never waits for an answer. ``schedule``: when it samples them."""

    def __init__(self, kafka: KafkaSettings, rest_seconds: float) -> None:
        self.schedule = SampleSchedule(rest_seconds)
        self._end_request, self._start_request = OffsetRequest(kafka), OffsetRequest(kafka)
        #: The end and start offsets of the batch; None while the request is pending.
        self._ends: dict[Place, int] | None = {}
        self._begins: dict[Place, int] | None = {}
        self._batch: dict[str, list[Place]] = {}
        self._requested_at = 0
        #: Partitions with lag in their last samples: retention may delete their uncommitted records.
        self._lagging_partitions: set[Place] = set()
        self._refused_topics: frozenset[str] = frozenset()

    def sample(
        self,
        group_of: Callable[[str], KnownGroup | None],
        group_ids: Callable[[], Collection[str]],
        now: float,
        timestamp: int,
    ) -> list[GroupProgress]:
        """Return the samples whose answers have arrived; when due, request the next samples."""
        events = []
        if self._batch:
            self._ends = self._end_request.take(now) if self._ends is None else self._ends
            self._begins = self._start_request.take(now) if self._begins is None else self._begins
            if self._ends is None or self._begins is None:
                return []
            for topic in sorted(self._end_request.refused - self._refused_topics):
                _log.info("topic %s: no progress of its groups, as this user may not describe it", topic)
            self._refused_topics |= self._end_request.refused
            for group_id, partitions in self._batch.items():
                group, is_busy = group_of(group_id), self.schedule.is_busy(group_id)
                commits = {} if group is None else group.committed
                committed = {place: commit.offset or 0 for place, commit in commits.items()}
                ends = {place: self._ends[place] for place in partitions if place in self._ends}
                self.schedule.schedule_next_sample(group_id, committed, ends, now)
                late = {place for place, end in ends.items() if committed.get(place, end) < end}
                self._lagging_partitions = self._lagging_partitions.difference(partitions) | late
                if ends and group is not None:
                    requested_at = self._requested_at
                    events.append(progress_event(group, ends, self._begins, timestamp, requested_at, is_busy=is_busy))
        self._batch, places, self._requested_at = {}, set[Place](), timestamp
        for group_id in self.schedule.due(group_ids, now):
            group = group_of(group_id)
            self._batch[group_id] = [] if group is None else consumed_partitions(group)
            places.update(self._batch[group_id])
            if len(places) > _MAX_BATCH_PARTITIONS:
                break
        lagging_partitions = places & self._lagging_partitions
        self._ends, self._begins = None if places else {}, None if lagging_partitions else {}
        if places:
            self._end_request.send(places, now)
        if lagging_partitions:
            self._start_request.send(lagging_partitions, now, OffsetSpec.earliest())
        return events
