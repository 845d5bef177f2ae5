"""The episodes of any log do not depend on batches, and are the same if computed from the diffs alone."""

from collections import defaultdict
from collections.abc import Iterator
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from assignors.errors import MonitorError
from streaming.episodes.notes import BounceNote, WaitNote
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.group import apply
from streaming.monitor.notes import make_notes
from streaming.monitor.outputs import DiffOutput
from streaming.monitor.state import ownership
from streaming.records.diffs import Diff
from streaming.records.episodes import Episode, Incident, decode_episode
from streaming.records.events import Event, GroupDeleted, GroupObserved, GroupQuiet, MemberLeft, PartitionsStopped, Stop
from tests.support.diff_episodes import QuietNote, episodes
from tests.support.histories import log_by_partition
from tests.support.pure_stream import apply_events, by_key, run, written_incidents
from tests.support.recorded import membership_log

Notes = list[tuple[str, Diff] | BounceNote | WaitNote | QuietNote]


class RandomGroups:
    def __init__(self, count: int, seed: int) -> None:
        self.random, self.evidence_random = Random(seed), Random(seed + 1)
        self.bucket = Bucket()
        self.notes: defaultdict[str, Notes] = defaultdict(list)
        self.late: defaultdict[str, int] = defaultdict(int)
        plain = list(membership_log(count, 9, seed))
        self.observed = {event.data.group_id for event in plain if isinstance(event.data, GroupObserved)}
        self.log = [event for source_event in plain for event in self.delayed_events(source_event)]

    def delayed_events(self, event: Event) -> Iterator[Event]:
        """Yield the event at a randomly delayed time, then evidence of downtime and at random a ``group.quiet``."""
        group_id = event.data.group_id
        self.late[group_id] += self.random.choice((0, 0, 0, 119_000, 200_000))
        moved = event.data.timestamp + self.late[group_id]
        event = structs.replace(event, data=structs.replace(event.data, timestamp=moved))
        if isinstance(event.data, GroupDeleted):  # the episodes of a forgotten group would start again at number 1
            event = structs.replace(event, data=structs.replace(event.data, forget=False))
        if isinstance(event.data, MemberLeft) and group_id in self.observed:
            # Before a group is observed, its diffs do not show who reported that a member left.
            event = structs.replace(event, data=structs.replace(event.data, reason="closed"))
        if isinstance(event.data, GroupObserved):
            event = structs.replace(event, data=self.add_pending_revocations(event.data))
        self.apply(event)
        yield event
        yield from self.witness_events(event)
        state = self.bucket.get(group_id).episode
        if state is not None and self.random.random() < 0.3:
            after = self.random.choice((state.last_note_id, state.last_note_id, "stale"))
            data = GroupQuiet(group_id=group_id, timestamp=moved + 120_000, after=after)
            self.notes[group_id].append(QuietNote(after))
            quiet = Event("timer", f"{event.id}/quiet", data)
            apply_events(self.bucket, [quiet])
            yield quiet

    def add_pending_revocations(self, data: GroupObserved) -> GroupObserved:
        """Return the snapshot, in which random members still have partitions to revoke."""
        if self.random.random() < 0.5:
            return data
        members = [
            structs.replace(
                member,
                member_epoch=data.group_epoch if self.random.random() < 0.7 else 1,
                pending_revocation={"topic-0": [90]} if self.random.random() < 0.2 else {},
                owned=member.owned or ({"topic-0": [91]} if self.random.random() < 0.2 else {}),
            )
            for member in data.members
        ]
        return structs.replace(data, members=members, state="Reconciling")

    def witness_events(self, event: Event) -> Iterator[Event]:
        """Yield random evidence about the partitions that the group's last round stopped."""
        state = self.bucket.get(event.data.group_id).state
        if state is None or not state.observed or self.evidence_random.random() < 0.6:
            return
        timestamps = sorted(event.data.timestamp + self.evidence_random.randrange(-9_000, 9_000) for _ in range(2))
        stop = Stop(stopped_after=timestamps[0], resumed_before=timestamps[1])
        if self.evidence_random.random() < 0.8:
            share = self.evidence_random.choice([*ownership(state.members).values(), {}])
            stop = structs.replace(stop, partitions=share)
        data = PartitionsStopped(
            group_id=event.data.group_id,
            timestamp=event.data.timestamp,
            source="offset-commits",
            stops=[stop],
            generation=state.generation,
            group_epoch=state.generation,
        )
        stopped_event = Event("witness", f"{event.id}/stopped", data)
        apply_events(self.bucket, [stopped_event])
        yield stopped_event

    def apply(self, event: Event) -> None:
        group_id = event.data.group_id
        tracked = self.bucket.get(group_id)
        try:
            after, outputs = apply(tracked.state, event, tracked.heartbeats)
        except MonitorError:
            return
        if after is not tracked.state:
            notes = make_notes(tracked.state, after, event, outputs, first=tracked.episode is None)
            self.notes[group_id] += [note for note in notes if isinstance(note, BounceNote)]
            self.notes[group_id] += [(output.id, output.diff) for output in outputs if isinstance(output, DiffOutput)]
            self.notes[group_id] += [note for note in notes if isinstance(note, WaitNote)]
        apply_events(self.bucket, [event])


def written(log: list[Event], batch: int = 10_000, buckets: int = 1) -> dict[str, list[Episode]]:
    """Return the episodes of each group, as a reader of the compacted topic receives them."""
    episodes_by_group: defaultdict[str, list[Episode]] = defaultdict(list)
    for (topic, _), rows in by_key(run(log_by_partition(log, 4), batch=batch, buckets=buckets)).items():
        if topic == "e":
            ((value, _),) = rows
            assert value is not None
            episode = decode_episode(value)
            episodes_by_group[episode.group_id].append(episode)
    return {
        group_id: sorted(group_episodes, key=lambda episode: episode.episode)
        for group_id, group_episodes in episodes_by_group.items()
    }


@given(seed=st.integers(0, 10**9), batch=st.sampled_from((1, 3, 50)), buckets=st.sampled_from((1, 4, 16)))
@settings(max_examples=6)
def test_output_does_not_depend_on_batches_or_buckets(seed: int, batch: int, buckets: int) -> None:
    log = log_by_partition(RandomGroups(150, seed).log, 4)
    assert by_key(run(log, batch=batch, buckets=buckets)) == by_key(run(log, batch=10_000, buckets=1))


def test_generated_logs_give_bounds_of_downtime() -> None:
    by_group = written(RandomGroups(150, 1).log)
    downtimes = [episode.downtime for group_episodes in by_group.values() for episode in group_episodes]
    assert any(downtime is not None and downtime.bounded_ms for downtime in downtimes)


@given(seed=st.integers(0, 10**9))
@settings(max_examples=5)
def test_condition_has_at_most_one_open_incident(seed: int) -> None:
    groups = RandomGroups(250, seed)
    bucket, newest = Bucket(), dict[tuple[str, int], Incident]()
    for event in groups.log:
        for incident in written_incidents(apply_events(bucket, [event])):
            previous = newest.get((incident.group_id, incident.incident))
            assert previous is None or (previous.kind, previous.opened_at) == (incident.kind, incident.opened_at)
            assert (incident.status == "open") == (incident.closed_at is None)
            newest[incident.group_id, incident.incident] = incident
        incidents = [incident for incident in newest.values() if incident.group_id == event.data.group_id]
        open_incidents = [incident.kind for incident in incidents if incident.status == "open"]
        assert len(open_incidents) == len(set(open_incidents))
        assert sorted(incident.incident for incident in incidents) == list(range(1, len(incidents) + 1))
    assert newest


@given(seed=st.integers(0, 10**9))
@settings(max_examples=5)
def test_diffs_alone_give_the_same_episodes(seed: int) -> None:
    groups = RandomGroups(250, seed)
    by_group = written(groups.log)
    assert any(len(group_episodes) > 1 for group_episodes in by_group.values())
    for group_id, group_episodes in by_group.items():
        read = episodes(group_id, groups.notes[group_id], derived=group_id not in groups.observed)
        assert list(map(_remove_moves, read)) == list(map(_remove_moves, group_episodes))


def _remove_moves(episode: Episode) -> Episode:
    """Return the episode without moves, downtime and story: diffs lack the owners of a recreated topic."""
    return structs.replace(episode, moved=0, moved_again=0, downtime=None, story="")
