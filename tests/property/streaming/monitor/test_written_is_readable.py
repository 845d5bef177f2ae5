"""All written state and records can be read again, including events at the limits of their fields."""

from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from streaming.monitor.bucket import expire
from streaming.monitor.bucket_state import Bucket
from streaming.records.diffs import Diff, LatestAssignment
from streaming.records.episodes import decode_episode, decode_incident
from streaming.records.events import (
    CONNECTOR,
    MAX_INT32,
    MAX_TIMESTAMP,
    AssignmentAcknowledged,
    ClusterChange,
    ClusterObserved,
    Event,
    GroupObserved,
    GroupProgress,
    GroupRebalancing,
    IncidentAcknowledged,
    MemberFenced,
    MemberHeartbeat,
    MemberJoined,
    ObservedMember,
    PartitionsChanged,
    PartitionsStopped,
    Stop,
    TopicMetadata,
)
from tests.support.pure_stream import SINKS, apply_events, written_event

TIMESTAMPS = st.sampled_from([0, 1, 1_700_000_000_000, MAX_TIMESTAMP - 1, MAX_TIMESTAMP])
INT32_NUMBERS = st.sampled_from([-MAX_INT32 - 1, -1, 0, 1, 2, MAX_INT32 - 1, MAX_INT32])
PARTITION_COUNTS = st.sampled_from([0, 1, MAX_INT32])
MEMBERS = st.sampled_from(["a", "b"])
OFFSETS = st.sampled_from([0, 7, 2**63 - 1])
SHARES = st.sampled_from([{}, {"t": [0]}, {"t": [0, MAX_INT32]}, {"u": [1]}])
TASK_SHARES = st.sampled_from([{}, {"t": [CONNECTOR]}, {"t": [0, MAX_INT32]}])


@st.composite
def views(draw: st.DrawFn) -> GroupObserved:
    connect = draw(st.booleans())
    shares = TASK_SHARES if connect else SHARES
    modern = not connect and draw(st.booleans())
    members = [
        ObservedMember(
            member_id=member_id,
            topics=["t"],
            assigned=draw(shares),
            target=draw(shares) if modern else None,
            pending_revocation=draw(shares),
            session_timeout_ms=draw(INT32_NUMBERS),
            member_epoch=draw(INT32_NUMBERS),
            previous_member_epoch=draw(INT32_NUMBERS),
        )
        for member_id in draw(st.sets(MEMBERS))
    ]
    return GroupObserved(
        group_id="g",
        timestamp=draw(TIMESTAMPS),
        members=members,
        generation=None if modern else draw(INT32_NUMBERS),
        group_epoch=draw(INT32_NUMBERS) if modern else None,
        group_protocol="consumer" if modern else "classic",
        protocol="uniform" if modern else "compatible" if connect else "cooperative-sticky",
        state=draw(st.sampled_from(["Stable", "Reconciling", "Assigning", None])),
        **({"kind": "connect", "delay_ms": draw(PARTITION_COUNTS)} if connect else {}),
    )


def group_event(struct: Any, **fields: Any) -> Any:
    return st.builds(struct, group_id=st.just("g"), timestamp=TIMESTAMPS, **fields)


EVENTS = st.one_of(
    views(),
    group_event(
        MemberJoined,
        member_id=MEMBERS,
        topics=st.just(["t"]),
        generation=INT32_NUMBERS,
        session_timeout_ms=INT32_NUMBERS,
        owned=SHARES,
        acknowledges=st.booleans(),
    ),
    group_event(MemberHeartbeat, member_id=MEMBERS),
    group_event(MemberFenced, member_id=MEMBERS, last_heartbeat=TIMESTAMPS),
    group_event(
        AssignmentAcknowledged, member_id=MEMBERS, generation=INT32_NUMBERS, owned=SHARES, held_ms=PARTITION_COUNTS
    ),
    group_event(
        PartitionsChanged,
        topics=st.dictionaries(
            st.sampled_from(["t", "u"]), st.builds(TopicMetadata, partitions=st.sampled_from([0, 1, 7])), min_size=1
        ),
    ),
    group_event(
        PartitionsStopped,
        source=st.just("w"),
        generation=INT32_NUMBERS,
        stops=st.lists(
            st.builds(
                Stop,
                partitions=SHARES,
                stopped_after=TIMESTAMPS,
                stopped_before=TIMESTAMPS,
                resumed_after=TIMESTAMPS,
                resumed_before=TIMESTAMPS,
            ),
            max_size=2,
        ),
    ),
    group_event(
        GroupRebalancing,
        since=TIMESTAMPS,
        joined=st.lists(MEMBERS, max_size=2),
        awaited=st.lists(MEMBERS, max_size=2),
        state=st.sampled_from([None, "PreparingRebalance", "Reconciling"]),
        until=st.dictionaries(MEMBERS, TIMESTAMPS),
        source=st.sampled_from(["coordinator-log", "admin"]),
        commits_stopped=st.booleans(),
        ended=st.booleans(),
    ),
    group_event(
        GroupProgress,
        partitions=st.dictionaries(
            st.sampled_from(["t", "u"]),
            st.dictionaries(st.sampled_from(["0", "2147483647"]), st.tuples(st.none() | OFFSETS, OFFSETS)),
        ),
        starts=st.dictionaries(st.sampled_from(["t", "u"]), st.dictionaries(st.sampled_from(["0", "1"]), OFFSETS)),
    ),
    group_event(
        IncidentAcknowledged,
        incident=PARTITION_COUNTS,
        by=st.sampled_from([None, "ann"]),
        until=st.none() | TIMESTAMPS,
        text=st.sampled_from([None, "known"]),
        muted=st.booleans(),
    ),
    group_event(
        ClusterObserved,
        brokers=st.lists(st.integers(0, 2), max_size=3),
        changes=st.lists(
            st.builds(
                ClusterChange,
                st.sampled_from(["broker-restart", "topic-deleted"]),
                st.sampled_from(["broker 1", "t"]),
                TIMESTAMPS,
                st.lists(st.just("g"), max_size=1),
            ),
            max_size=2,
        ),
    ),
)


def connect_snapshot(generation: int, *tasks: list[int], **fields: Any) -> GroupObserved:
    """Return a snapshot of workers a, b, …, each with these tasks of connector c."""
    members = [ObservedMember(member_id, [], {"c": numbers}) for member_id, numbers in zip("ab", tasks, strict=False)]
    kind = {"kind": "connect", "protocol": "compatible"}
    return GroupObserved("g", MAX_TIMESTAMP - 1, members=members, generation=generation, **kind, **fields)


TASKS_SNAPSHOT = connect_snapshot(1, [0], [1])
LOST_TASKS_SNAPSHOT = connect_snapshot(2, [0], delay_ms=MAX_INT32)
LONG_DELAY_SNAPSHOT = connect_snapshot(2, delay_ms=MAX_INT32)
DECODERS = {
    "d": lambda value: msgspec.json.decode(value, type=Diff),
    "a": lambda value: msgspec.json.decode(value, type=LatestAssignment),
    "e": decode_episode,
    "i": decode_incident,
}


@given(st.lists(EVENTS, max_size=12))
@example([TASKS_SNAPSHOT, LOST_TASKS_SNAPSHOT])
@example([TASKS_SNAPSHOT, LONG_DELAY_SNAPSHOT])
def test_written_records_can_be_read(log: list[Any]) -> None:
    bucket = Bucket()
    for number, data in enumerate(log):
        writes = apply_events(bucket, [Event("s", str(number), data)]) + expire(bucket, MAX_TIMESTAMP, SINKS)
        for write in writes:
            if write.topic == "m":
                written_event(write)
            elif write.topic != "dlt" and write.value is not None:
                DECODERS[write.topic](write.value)
        bucket = Bucket(bucket.pack())
        assert bucket.get("g") is not None  # decodes the stored group
