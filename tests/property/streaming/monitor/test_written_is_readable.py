"""All written state and records can be read again, including events at the limits of their fields."""

from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from streaming.monitor.bucket import expire, process
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import Sinks
from streaming.records import codec
from streaming.records.codec import Record
from streaming.records.diffs import Diff, LatestAssignment
from streaming.records.episodes import decode_episode, decode_incident
from streaming.records.events import (
    CONNECTOR,
    MAX_INT32,
    MAX_PARTITIONS,
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

SINKS = Sinks(*("m", "d", "a", "dlt", dict.fromkeys(("m", "d", "a", "dlt", "e", "i"), 2)), episodes="e", incidents="i")
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


def member_event(struct: Any, **fields: Any) -> Any:
    return st.builds(struct, group_id=st.just("g"), timestamp=TIMESTAMPS, member_id=MEMBERS, **fields)


EVENTS = st.one_of(
    views(),
    member_event(
        MemberJoined,
        topics=st.just(["t"]),
        generation=INT32_NUMBERS,
        session_timeout_ms=INT32_NUMBERS,
        owned=SHARES,
        acknowledges=st.booleans(),
    ),
    member_event(MemberHeartbeat),
    member_event(MemberFenced, last_heartbeat=TIMESTAMPS),
    member_event(AssignmentAcknowledged, generation=INT32_NUMBERS, owned=SHARES, held_ms=PARTITION_COUNTS),
    st.builds(
        PartitionsChanged,
        group_id=st.just("g"),
        timestamp=TIMESTAMPS,
        topics=st.dictionaries(
            st.sampled_from(["t", "u"]), st.builds(TopicMetadata, partitions=st.sampled_from([0, 1, 7])), min_size=1
        ),
    ),
    st.builds(
        PartitionsStopped,
        group_id=st.just("g"),
        timestamp=TIMESTAMPS,
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
    st.builds(
        GroupRebalancing,
        group_id=st.just("g"),
        timestamp=TIMESTAMPS,
        since=TIMESTAMPS,
        joined=st.lists(MEMBERS, max_size=2),
        awaited=st.lists(MEMBERS, max_size=2),
        state=st.sampled_from([None, "PreparingRebalance", "Reconciling"]),
        until=st.dictionaries(MEMBERS, TIMESTAMPS),
        source=st.sampled_from(["coordinator-log", "admin"]),
        commits_stopped=st.booleans(),
        ended=st.booleans(),
    ),
    st.builds(
        GroupProgress,
        group_id=st.just("g"),
        timestamp=TIMESTAMPS,
        partitions=st.dictionaries(
            st.sampled_from(["t", "u"]),
            st.dictionaries(st.sampled_from(["0", "2147483647"]), st.tuples(st.none() | OFFSETS, OFFSETS)),
        ),
        starts=st.dictionaries(st.sampled_from(["t", "u"]), st.dictionaries(st.sampled_from(["0", "1"]), OFFSETS)),
    ),
    st.builds(
        IncidentAcknowledged,
        group_id=st.just("g"),
        timestamp=TIMESTAMPS,
        incident=PARTITION_COUNTS,
        by=st.sampled_from([None, "ann"]),
        until=st.none() | TIMESTAMPS,
        text=st.sampled_from([None, "known"]),
        muted=st.booleans(),
    ),
    st.builds(
        ClusterObserved,
        group_id=st.just("g"),
        timestamp=TIMESTAMPS,
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
LONG_DELAY_SNAPSHOT = GroupObserved(
    group_id="g",
    timestamp=MAX_TIMESTAMP - 1,
    members=[],
    generation=2,
    kind="connect",
    protocol="compatible",
    delay_ms=MAX_INT32,
)
TASKS_SNAPSHOT = GroupObserved(
    group_id="g",
    timestamp=MAX_TIMESTAMP - 1,
    members=[
        ObservedMember(member_id=member_id, topics=[], assigned={"c": [number]})
        for number, member_id in enumerate("ab")
    ],
    generation=1,
    kind="connect",
    protocol="compatible",
)
LOST_TASKS_SNAPSHOT = msgspec.structs.replace(
    LONG_DELAY_SNAPSHOT, members=[ObservedMember(member_id="a", topics=[], assigned={"c": [0]})]
)
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
    blob: bytes | None = None
    assert MAX_PARTITIONS > 7
    for offset, data in enumerate(log):
        bucket = Bucket(blob)
        record = Record.of(0, offset, *codec.encode_event(Event("s", str(offset), data)))
        writes = process(bucket, [record], 0, SINKS) + expire(bucket, MAX_TIMESTAMP, SINKS)
        blob = bucket.pack()
        for write in writes:
            if write.topic == "m":
                codec.decode_event(write.key, write.value, codec.ce_attributes(write.headers))
            elif write.topic != "dlt" and write.value is not None:
                DECODERS[write.topic](write.value)
        group = Bucket(blob).get("g")
        assert (group.state, group.episode, group.incidents) is not None
