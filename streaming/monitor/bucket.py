"""What the stream does with one bucket of groups in one batch: plain rows in, plain rows and a blob out.

This is the whole job without Spark: the Spark operator, the benchmark's plain loop and the tests all call
:func:`process` and :func:`expire`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import structs

from streaming.monitor import alarms, applied, envelope, liveness, once, repeats, steps, telling, views
from streaming.monitor.alarms import Alarms, IncidentOutput
from streaming.monitor.blob import Bucket
from streaming.monitor.envelope import Sinks, Write
from streaming.monitor.group import apply
from streaming.monitor.packing import CorruptState
from streaming.monitor.rendering import AssignmentOutput, Output
from streaming.monitor.repeats import Repeatable
from streaming.monitor.roster import Roster
from streaming.monitor.state import GroupState
from streaming.monitor.steps import Part
from streaming.monitor.telling import EpisodeOutput, Happened
from streaming.monitor.tracked import Tracked
from streaming.wire import repeated
from streaming.wire.codec import Record, read, read_heartbeat
from streaming.wire.events import (
    AssignmentAcknowledged,
    Event,
    GroupAsked,
    GroupChanged,
    GroupDeleted,
    GroupObserved,
    GroupQuiet,
    MemberFenced,
    MemberHeartbeat,
    MemberJoined,
    MemberLeft,
    PartitionsChanged,
    PartitionsStopped,
    SubscriptionChanged,
)
from streaming.wire.followed import follows
from streaming.wire.heartbeats import Heartbeats
from streaming.wire.repeated import RepeatedView

#: A tuple, here as elsewhere where each event is asked: `X | Y` would be made anew each time, for a microsecond.
_SIGNS_OF_LIFE: Final = (MemberHeartbeat, AssignmentAcknowledged)
_BESIDE: Final = (AssignmentAcknowledged, PartitionsStopped)
#: Events that are nothing a second time, whatever the group is: not even for its episode.
_ONCE: Final = (MemberJoined, MemberLeft, MemberFenced, SubscriptionChanged, PartitionsChanged)


def process(bucket: Bucket, records: Iterable[Record | Heartbeats], now_ms: int, sinks: Sinks) -> list[Write]:
    """Apply one batch's records of a bucket.

    Args:
        bucket: is changed.
        records: each group's in the order of (partition, offset): Kafka's own. Heartbeats that follow each other
            may have been read.
        now_ms: the batch's time; it moves deadlines and nothing else.
        sinks: where outputs go.

    Returns:
        What to write, in order: each diff, of each group that changed the latest assignment, and of each episode
        and each incident that changed the last record. A record that can't be used gives a dead letter and changes
        nothing.

    Raises:
        CorruptState: a group's state can't be read. No record is to blame, so none is refused for it.
    """
    writes: list[Write] = []
    batch = _Batch(bucket, now_ms, sinks)
    for record in records:
        if isinstance(record, Heartbeats):
            batch.hear_all(record)
            continue
        if batch.again(record):
            continue
        try:
            beat = read_heartbeat(record)
            if beat is not None:
                batch.hear(beat)
            else:
                writes += batch.take(record)
        except CorruptState:
            raise
        except Exception as error:  # noqa: BLE001 - poison never stops the job: it is in the dead letter whole
            writes.append(envelope.dead_letter(record, error, sinks))
    writes += [envelope.write_event(_asking(change), sinks) for change in batch.asked.values()]
    batch.complete()
    # A compacted topic keeps the last record of a key: what a batch overwrites itself need not be written.
    writes += [envelope.write(output.event, output, sinks) for output in batch.assignments.values()]
    batch.tell()
    if sinks.episodes is not None:
        writes += [envelope.write_episode(told, sinks.episodes, sinks) for told in batch.episodes.values()]
    if sinks.incidents is not None:
        writes += [envelope.write_incident(one, sinks.incidents, sinks) for one in batch.incidents.values()]
    return writes


def expire(bucket: Bucket, now_ms: int, sinks: Sinks) -> list[Write]:
    """Fences, quiet and forgetting that are due, to write back to the membership log."""
    writes: list[Write] = []
    for group_id in sorted(group for group, deadline in bucket.due.items() if deadline <= now_ms):
        tracked = bucket.get(group_id)
        if sinks.episodes is None:
            tracked.tell(None, 0)
            tracked.report(None)
        events = telling.due(group_id, tracked, now_ms, sinks.quiet_ms)
        events += liveness.due(group_id, tracked, now_ms, sinks.forget_after_ms)
        writes += [envelope.write_event(event, sinks) for event in events]
        bucket.put(group_id)
    return writes


def _asking(change: Event) -> Event:
    """What asks for a full view of a group; its id is a function of the change that could not be used."""
    data = change.data
    said = GroupAsked(group_id=data.group_id, timestamp=data.timestamp, after=change.id)
    return Event(liveness.SOURCE, f"{data.group_id}/asked/{change.id}", said)


def _identity(record: Record) -> tuple[object, ...]:
    """All that makes a record the event that it is."""
    return record[2:7]


class _Batch:
    """One batch of a bucket on its way, and the last record of each key of the compacted topics in it.

    Attributes:
        assignments: by group.
        episodes, incidents: by group and number.
        asked: by group, the last change that follows from a view that is not known.
    """

    __slots__ = (
        *("_bucket", "_happened", "_late", "_now_ms", "_once", "_sinks", "_standing"),
        *("asked", "assignments", "episodes", "incidents"),
    )

    def __init__(self, bucket: Bucket, now_ms: int, sinks: Sinks) -> None:
        self._bucket = bucket
        self._now_ms = now_ms
        self._sinks = sinks
        #: By group, what its episode has not been told yet.
        self._happened: dict[str, list[Happened]] = {}
        #: By group, the last event of which the latest assignment has nothing.
        self._late: dict[str, Event] = {}
        #: The group of the last record, where that was a view that the next one may be played on.
        self._standing: Repeatable | None = None
        #: The last record, where it was applied and is nothing a second time, as :func:`_identity` has it.
        self._once: tuple[object, ...] = ()
        self.asked: dict[str, Event] = {}
        self.assignments: dict[str, AssignmentOutput] = {}
        self.episodes: dict[tuple[str, int], EpisodeOutput] = {}
        self.incidents: dict[tuple[str, int], IncidentOutput] = {}

    def hear(self, data: MemberHeartbeat | AssignmentAcknowledged) -> None:
        """Take a sign of life of a member."""
        if liveness.hear(self._bucket.get(data.group_id), data.member_id, data.timestamp, self._now_ms):
            self._bucket.put(data.group_id)

    def hear_all(self, heartbeats: Heartbeats) -> None:
        """Take signs of life between which nothing else came."""
        group_id, heard = heartbeats
        if liveness.hear_all(self._bucket.get(group_id), heard, self._now_ms):
            self._bucket.put(group_id)

    def again(self, record: Record) -> bool:
        """Whether a record is once more the last one that was applied, as of producers that repeat themselves.

        Read, it would be found in what the group has applied (:mod:`~streaming.monitor.applied`).
        """
        return self._once == _identity(record)

    def take(self, record: Record) -> list[Write]:
        """Apply a record; the diffs to write."""
        standing, self._standing, self._once = self._standing, None, ()
        view = None if standing is None else repeated.read_repeated(record, standing.told)
        if standing is None or view is None:
            return self.apply(read(record), record)
        writes = self._repeated(standing, view)
        return self.apply(view.event, record) if writes is None else writes

    def _repeated(self, standing: Repeatable, view: RepeatedView) -> list[Write] | None:
        """Apply a view to the part of its group that it does not repeat; None: it is to be applied to the whole."""
        sinks, group_id = self._sinks, view.data.group_id
        tracked = self._bucket.get(group_id)
        untold = sinks.episodes is not None and tracked.untold and group_id not in self._happened
        if tracked.state is not standing.state or tracked.heard or untold:
            return None
        step = repeats.step(standing, view, sinks.expected_partitions, sinks.naming)
        if step is None:
            return None
        part = step.part
        writes = envelope.written(view.event, step.whole, sinks, told=len(view.told.value))
        if sinks.episodes is not None:
            told = telling.happened(
                part.before, step.after, part.event, step.found, first=False, others=part.others
            )
            if told is not None:
                self._happened.setdefault(group_id, []).append(told)
        self.asked.pop(group_id, None)
        tracked.keep(step.standing.state)
        self._latest(view.event, step.whole)
        tracked.forget_at = 0
        self._bucket.put(group_id)
        self._standing = step.standing
        return writes

    def apply(self, event: Event, record: Record) -> list[Write]:
        """Apply a record's event; the diffs to write."""
        data, sinks = event.data, self._sinks
        if isinstance(data, _SIGNS_OF_LIFE):
            self.hear(data)
        if isinstance(data, MemberHeartbeat):
            return []
        tracked = self._bucket.get(data.group_id)
        if isinstance(data, GroupQuiet):
            self._rest(event, data)
            return []
        if isinstance(data, GroupChanged):
            whole = self._changed(event, tracked)
            if not isinstance(whole, Event):
                return whole
            event = whole
        # What is told beside rounds needs no members.
        before = tracked.head if isinstance(data, _BESIDE) else tracked.state
        state, outputs = apply(
            before, event, tracked.heard, most=sinks.expected_partitions, naming=sinks.naming
        )
        # What can fail comes before the first change.
        writes = envelope.written(event, outputs, sinks)
        if sinks.episodes is not None:
            first = tracked.untold and data.group_id not in self._happened
            found = telling.happened(before, state, event, outputs, first=first)
            if found is not None:
                self._happened.setdefault(data.group_id, []).append(found)
                self._bucket.put(data.group_id)
        if state is before:
            return []
        if isinstance(data, GroupObserved):
            self.asked.pop(data.group_id, None)
        tracked.keep(state)
        self._latest(event, outputs)
        if alarms.concerned(tracked, event):
            self._alarm(event, before)
        liveness.follow(tracked, event, self._now_ms, sinks.forget_after_ms)
        self._bucket.put(data.group_id)
        self._standing = repeats.standing(record.value, event, state, outputs)
        if isinstance(data, _ONCE):
            self._once = _identity(record)
        return writes

    def _changed(self, event: Event, tracked: Tracked) -> Event | list[Write]:
        """Apply a change to the part of its group that it touches; the full view, where that is not enough."""
        head = tracked.head
        if head is not None and applied.contains(head.applied, applied.fingerprint(event.source, event.id)):
            return []
        if head is None or head.view is None or not follows(head.view, event):
            self.asked[event.data.group_id] = event
            return []
        found = self._part(event, tracked)
        if found is None:
            return views.whole(tracked.state, event) or []
        part, roster = found
        sinks, group_id = self._sinks, event.data.group_id
        head, outputs = steps.play(part, sinks.expected_partitions, sinks.naming)
        roster = roster.after(part.entries, part.others.free)
        after, head = head, structs.replace(head, members=())
        if outputs and isinstance(outputs[-1], AssignmentOutput):
            latest = structs.replace(outputs[-1], state=roster.whole(head))
            outputs = (*outputs[:-1], latest)
        writes = envelope.written(event, outputs, sinks)
        if sinks.episodes is not None:
            told = telling.happened(part.before, after, part.event, outputs, first=False, others=part.others)
            if told is not None:
                self._happened.setdefault(group_id, []).append(told)
        tracked.keep_parts(head, roster)
        self._latest(event, outputs)
        tracked.forget_at = 0
        self._bucket.put(group_id)
        return writes

    def _part(self, event: Event, tracked: Tracked) -> tuple[Part, Roster] | None:
        """The part of a group that a change touches; None: it is to be applied to the whole group."""
        sinks, group_id = self._sinks, event.data.group_id
        first = sinks.episodes is not None and tracked.untold and group_id not in self._happened
        parts = None if first or tracked.heard or sinks.naming == "all" else tracked.parts()
        if parts is None:
            return None
        part = steps.part(*parts, event, sinks.expected_partitions)
        return None if part is None else (part, parts[1])

    def tell(self) -> None:
        """Tell the episodes of all groups what has happened since they were told the last time."""
        for group_id in list(self._happened):
            self._tell(group_id)

    def _tell(self, group_id: str) -> None:
        happened = self._happened.pop(group_id, None)
        if happened is not None:
            tracked = self._bucket.get(group_id)
            found = self._alarms(tracked)
            told = telling.tell(tracked, happened, self._now_ms, self._sinks.quiet_ms, found)
            self._take(group_id, told, found)

    def _rest(self, event: Event, data: GroupQuiet) -> None:
        """Apply the word that a group is quiet."""
        self._tell(data.group_id)
        tracked = self._bucket.get(data.group_id)
        told = telling.quiet(tracked, event, data) if self._sinks.episodes is not None else []
        if told:
            found = self._alarms(tracked)
            if found is not None and tracked.state is not None and tracked.episode is not None:
                found.quiet(event, tracked.state, tracked.episode)
            self._take(data.group_id, told, found)
            self._complete(event, tracked)
            self._bucket.put(data.group_id)

    def _latest(self, event: Event, outputs: Sequence[Output]) -> None:
        """Take the latest assignment after an event, or that it is left out for now."""
        group_id = event.data.group_id
        if outputs and isinstance(outputs[-1], AssignmentOutput):
            self.assignments[group_id] = outputs[-1]
            self._late.pop(group_id, None)
        elif outputs and self._sinks.episodes is None:  # nobody will say that the group is quiet
            self._late[group_id] = event

    def complete(self) -> None:
        """Take the latest assignments that were left out and that nothing later calls for."""
        for group_id, event in self._late.items():
            self._complete(event, self._bucket.get(group_id))

    def _complete(self, event: Event, tracked: Tracked) -> None:
        """Write the latest assignment of a group that was told of by diffs alone for a while."""
        head = tracked.head
        if head is None or head.said is None or not head.said.unsaid:
            return
        said = structs.replace(head.said, unsaid=0)
        if (parts := tracked.parts()) is not None:
            tracked.keep_parts(structs.replace(parts[0], said=said), parts[1])
        elif tracked.state is not None:
            tracked.keep(structs.replace(tracked.state, said=said))
        latest = once.beginning(AssignmentOutput(event, tracked.state), said, head.cause)
        self.assignments[event.data.group_id] = latest

    def _alarm(self, event: Event, before: GroupState | None) -> None:
        """Look at the incidents of a group that is gone, or of whose topics one is or was."""
        group_id = event.data.group_id
        self._tell(group_id)
        tracked = self._bucket.get(group_id)
        found = self._alarms(tracked)
        if found is not None:
            if isinstance(event.data, GroupDeleted):
                found.deleted(event)
            elif tracked.state is not None:
                found.topics(event, before, tracked.state)
            self._take(group_id, (), found)
        if tracked.state is None:
            tracked.tell(None, 0)

    def _alarms(self, tracked: Tracked) -> Alarms | None:
        sinks = self._sinks
        return None if sinks.incidents is None else Alarms(tracked, sinks.thresholds, sinks.storm_turns)

    def _take(self, group_id: str, told: Iterable[EpisodeOutput], found: Alarms | None) -> None:
        """Take episodes and incidents that changed."""
        self.episodes.update(((group_id, one.state.number), one) for one in told)
        if found is not None:
            self.incidents.update(((group_id, one.known.number), one) for one in found.outputs)
