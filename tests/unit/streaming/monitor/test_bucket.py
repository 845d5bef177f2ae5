"""A bucket without Spark: the input is plain rows, the output is plain rows and a state blob."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial

import msgspec
import pytest

from assignors.partitioner import partition_for_key
from streaming.monitor.bucket import expire, process
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.heartbeats import FORGET_AFTER_MS, LATE_FENCE_MS, SOURCE
from streaming.monitor.outputs import OutputRecord, Sinks
from streaming.monitor.state import MAX_FINGERPRINT_BYTES, MAX_FINGERPRINTS
from streaming.records import codec
from streaming.records.codec import Record
from streaming.records.events import MAX_TIMESTAMP, RETIRED_TYPES, Event, MemberFenced
from tests.support.histories import Log
from tests.support.pure_stream import apply_events, written_event

SINKS = Sinks("m", "d", "a", "dlt", {"m": 4, "d": 5, "a": 3, "dlt": 2})
run = partial(apply_events, sinks=SINKS)


def invalid(key: bytes | None, value: bytes | None, ce_type: bytes | None = b"member.joined") -> Record:
    return Record(2, 7, key, value, ce_type, b"1", b"s", None, [("x", None), ("dlt_topic", b"old")])


PARTITIONS = b"topic.partitions_changed"
TOPIC = b'{"groupId":"g","timestamp":1,"topics":{"t":{%s}}}'
PROGRESS = b'{"groupId":"g","timestamp":1,"partitions":{"t":{%s}}}'
MEMBER = b'{"memberId":"c","topics":["t"],"assigned":{"t":[0]}}'
REPEATED_MEMBER = b'{"groupId":"g","timestamp":1,"generation":1,"members":[%s,%s]}' % (MEMBER, MEMBER)
JOIN = b'{"groupId":"g","timestamp":1,"memberId":"c","topics":[]%s}'


@pytest.mark.parametrize(
    ("invalid_record", "kind", "message"),
    [
        (invalid(None, b"{}"), b"MissingKey", b"no key"),
        (invalid(b"g", b"{"), b"MalformedEvent", b"truncated"),
        (invalid(b"g", None), b"MalformedEvent", b"null"),
        (invalid(b"g", b"{}", b"member.exploded"), b"UnknownEventType", b"'member.exploded' is not one of"),
        (invalid(b"g", b"{}", None), b"MalformedEvent", b"header ce_type: missing"),
        (invalid(b"g", b"{}", b"\xff"), b"MalformedEvent", b"header ce_type: not UTF-8"),
        (invalid(b"other", JOIN % b""), b"MalformedEvent", b"is not the groupId"),
        (invalid(b"g", JOIN % b',"generation":"4"'), b"MalformedEvent", b"$.generation"),
        (invalid(b"g", JOIN % b',"assignors":["made-up"]'), b"UnknownAssignor", b"made-up"),
        # No number in Kafka exceeds INT32; beyond 64 bits the state could not be written.
        (invalid(b"g", JOIN % b',"generation":1180591620717411303424'), b"MalformedEvent", b"$.generation"),
        (invalid(b"g", JOIN % b',"sessionTimeoutMs":2147483648'), b"MalformedEvent", b"$.sessionTimeoutMs"),
        (invalid(b"g", TOPIC % b'"partitions":2,"racks":[[]]', PARTITIONS), b"ContradictoryTopic", b"topics.t.racks"),
        (invalid(b"g", TOPIC % b'"partitions":2,"topicId":"no"', PARTITIONS), b"BadInput", b"topicId: 'no'"),
        (invalid(b"g", PROGRESS % b'"x":[1,2]', b"group.progress"), b"MalformedEvent", b"at `key` in `$.partitions"),
        (invalid(b"g", PROGRESS % b'"-1":[1,2]', b"group.progress"), b"MalformedEvent", b"at `key` in `$.partitions"),
        (invalid(b"g", PROGRESS % b'"0":[1]', b"group.progress"), b"MalformedEvent", b"$.partitions"),
        (invalid(b"g", REPEATED_MEMBER, b"group.observed"), b"MalformedEvent", b"listed twice - at `$.members`"),
        (invalid(b"g", JOIN.replace(b":1,", b":-1,") % b""), b"MalformedEvent", b"$.timestamp"),
    ],
    ids=lambda value: value.decode()[:24] if isinstance(value, bytes) else None,
)
def test_invalid_record_is_dead_lettered_and_changes_nothing(
    bucket: Bucket, invalid_record: Record, kind: bytes, message: bytes
) -> None:
    (letter,) = process(bucket, [invalid_record], 0, SINKS)
    assert not bucket.changed
    assert (letter.topic, letter.key, letter.value) == ("dlt", invalid_record.key, invalid_record.value)
    assert letter.partition == (None if invalid_record.key is None else partition_for_key(invalid_record.key, 2))
    headers = list(letter.headers)
    assert headers[0] == ("x", None)
    reason = dict(headers)
    assert reason["dlt_exception"] == kind
    assert message in (reason["dlt_message"] or b"")
    assert headers[3:] == [("dlt_topic", b"m"), ("dlt_partition", b"2"), ("dlt_offset", b"7")]


def test_batch_writes_only_the_last_assignment_of_a_group(log: Log) -> None:
    writes = run(Bucket(), [log.topics(t=1), log.join("c1"), log.join("c2"), log.delete()])
    assert [(write.topic, write.value is None) for write in writes] == [*[("d", False)] * 3, ("a", True)]


def live_events(log: Log) -> list[Event]:
    """Return the events of two members that have sent a heartbeat."""
    joins = [log.join(name, session_timeout_ms=10_000) for name in ("c1", "c2")]
    return [log.topics(t=2), *joins, log.beat("c1"), log.beat("c2")]


def live_bucket() -> tuple[Log, Bucket]:
    log, bucket = Log(), Bucket()
    run(bucket, live_events(log))
    return log, Bucket(bucket.pack())


def written_fences(writes: list[OutputRecord]) -> list[MemberFenced]:
    return [msgspec.json.decode(write.value or b"", type=MemberFenced) for write in writes]


def test_expired_session_writes_a_fence_with_a_fixed_id() -> None:
    _, bucket = live_bucket()
    assert bucket.due == {"g": 10_000}
    assert expire(bucket, 9_999, SINKS) == []
    first = expire(bucket, 10_000, SINKS)
    assert [(fence.member_id, fence.timestamp, fence.last_heartbeat) for fence in written_fences(first)] == [
        ("c1", 14_000, 4000),
        ("c2", 15_000, 5000),
    ]
    assert {write.topic for write in first} == {"m"}
    assert dict(first[0].headers)["ce_id"] == b"g/c1/4000"
    assert dict(first[0].headers)["ce_source"] == SOURCE.encode()
    bucket = Bucket(bucket.pack())
    assert expire(bucket, 19_999, SINKS) == []
    assert expire(bucket, 20_000, SINKS) == first


@pytest.mark.parametrize("end", ["leave", "fence"])
def test_departed_member_has_no_timer(end: str) -> None:
    log, bucket = live_bucket()
    run(bucket, [getattr(log, end)("c1")], now_ms=1)
    bucket = Bucket(bucket.pack())
    assert [fence.member_id for fence in written_fences(expire(bucket, 10_000, SINKS))] == ["c2"]
    run(bucket, [getattr(log, end)("c2")], now_ms=10_001)
    bucket = Bucket(bucket.pack())
    assert bucket.due == {"g": 10_001 + FORGET_AFTER_MS}
    assert expire(bucket, 30_000, SINKS) == []


def test_rejoined_member_is_timed_by_its_new_session() -> None:
    log, bucket = live_bucket()
    run(bucket, [log.join("c1", session_timeout_ms=4000)], now_ms=3000)
    bucket = Bucket(bucket.pack())
    assert bucket.due == {"g": 7000}
    assert [fence.member_id for fence in written_fences(expire(bucket, 7000, SINKS))] == ["c1"]


def test_fence_at_the_latest_timestamp_can_be_read(log: Log, bucket: Bucket) -> None:
    log.count = MAX_TIMESTAMP // 1000 - 3
    run(bucket, [log.topics(t=1), log.join("c1", session_timeout_ms=10_000), log.beat("c1")])
    (write,) = expire(Bucket(bucket.pack()), 10_000, SINKS)
    assert written_event(write).data.timestamp == MAX_TIMESTAMP


def test_fence_event_is_applied_when_it_is_read_back() -> None:
    _, bucket = live_bucket()
    fence = written_fences(expire(bucket, 10_000, SINKS))[0]
    writes = run(bucket, [Event(SOURCE, "f", fence)], now_ms=10_100)
    assert [write.topic for write in writes] == ["d", "a"]
    bucket.pack()
    assert bucket.due == {"g": 20_000}
    replay = [*live_events(Log()), Event(SOURCE, "f", fence)]
    assert run(Bucket(), replay, now_ms=777_777)[-2:] == writes


def test_late_fence_is_stale_after_a_newer_heartbeat() -> None:
    log, bucket = live_bucket()
    fence = written_fences(expire(bucket, 10_000, SINKS))[0]
    assert run(bucket, [log.beat("c1"), Event(SOURCE, "f", fence)], now_ms=10_100) == []


def test_late_timer_expires_no_session() -> None:
    _, bucket = live_bucket()
    late = 10_000 + LATE_FENCE_MS + 1
    assert expire(bucket, late, SINKS) == []
    assert len(expire(bucket, late + 10_000, SINKS)) == 2
    _, second_bucket = live_bucket()
    assert len(expire(second_bucket, 20_000, SINKS)) == 2  # the session timeout of exactly ten seconds is over


def test_session_expiry_ignores_the_clocks_of_members(log: Log, bucket: Bucket) -> None:
    """The hosts of two members are a day ahead and a day behind: only the arrival of heartbeats counts."""
    run(bucket, [log.topics(t=2), *(log.join(name, session_timeout_ms=10_000) for name in ("ahead", "behind"))])
    for now_ms in range(0, 60_000, 3_000):
        log.count = now_ms + 86_400
        ahead = log.beat("ahead")
        log.count = 0
        run(bucket, [ahead, log.beat("behind")], now_ms)
        assert expire(bucket, now_ms + 2_999, SINKS) == []


def test_members_that_never_sent_a_heartbeat_are_not_timed(log: Log, bucket: Bucket) -> None:
    run(bucket, [log.topics(t=1), log.join("c1", session_timeout_ms=10), log.beat("unknown")])
    bucket.pack()
    assert bucket.due == {}


def test_retention_of_empty_groups_is_a_setting(log: Log, bucket: Bucket) -> None:
    sinks = SINKS._replace(forget_after_ms=100)
    run(bucket, [log.topics(t=1), log.join("c1"), log.leave("c1")], now_ms=5, sinks=sinks)
    bucket.pack()
    assert bucket.due == {"g": 105}
    assert len(expire(bucket, 105, sinks)) == 1
    bucket.pack()
    assert bucket.due == {"g": 205}  # the timer's event is written again in case it is lost


def test_a_group_that_stays_empty_is_forgotten_by_an_event(log: Log, bucket: Bucket) -> None:
    run(bucket, [log.topics(t=1), log.join("c1"), log.leave("c1")], now_ms=5)
    bucket.pack()
    assert bucket.due == {"g": 5 + FORGET_AFTER_MS}
    assert timedelta(milliseconds=FORGET_AFTER_MS) == timedelta(days=7)
    (write,) = expire(bucket, 5 + FORGET_AFTER_MS, SINKS)
    assert dict(write.headers)["ce_type"] == b"group.deleted"
    (tombstone,) = run(bucket, [written_event(write)])
    assert (tombstone.topic, tombstone.value) == ("a", None)
    assert len(Bucket(bucket.pack())) == 0


def test_batch_without_changes_keeps_the_stored_bytes(log: Log, bucket: Bucket) -> None:
    join = log.join("c1")
    run(bucket, [log.topics(t=1), join])
    blob = bucket.pack()
    again = Bucket(blob)
    run(again, [join])
    assert not again.changed
    assert again.pack() == blob


@pytest.mark.parametrize("limited", ["d", "a"])
@pytest.mark.parametrize("group", ["g", "g" * 3000])
def test_diff_of_exactly_the_topic_limit_is_written(limited: str, group: str) -> None:
    """A diff and its latest assignment go to two topics, so the smaller of the two size limits applies."""
    log = Log(group)
    events = [log.topics(t=500), log.join("c1")]
    diff, latest = run(Bucket(), events)
    size = codec.record_bytes(diff.key, diff.value, diff.headers)
    assert run(Bucket(), events, sinks=SINKS._replace(max_bytes={limited: size})) == [diff, latest]
    (letter,) = run(Bucket(), events, sinks=SINKS._replace(max_bytes={limited: size - 1}))
    reason = f"rebalance.diff would have {size} bytes, max.message.bytes of d and a is {size - 1}"
    assert dict(letter.headers)["dlt_message"] == f"group {group[:100]!r}: {reason}".encode()


def test_event_with_too_long_a_diff_is_refused_without_change(log: Log) -> None:
    sinks = SINKS._replace(max_bytes={"d": 2000, "dlt": 1000})
    bucket = Bucket()
    (letter,) = run(bucket, [log.topics(t=2), log.join("c" * 1900)], sinks=sinks)
    headers = dict(letter.headers)
    assert (letter.topic, letter.key, headers["dlt_exception"]) == ("dlt", b"g", b"RecordTooLarge")
    assert b"max.message.bytes of d and a is 2000" in (headers["dlt_message"] or b"")
    assert codec.record_bytes(letter.key, letter.value, letter.headers) <= 1000
    diff, _ = run(bucket, [log.join("c1")], sinks=sinks)
    assert msgspec.json.decode(diff.value or b"")["members"].keys() == {"c1"}


def rolling_join_events(log: Log, generations: int) -> Iterator[Event]:
    """Yield events of an observed group, which a new member joins in every second generation."""
    yield log.topics(t=4)
    for number in range(1, generations):
        resident_member = {"resident": {"t": [0, 1] if number % 2 else [0, 1, 2, 3]}}
        yield log.observe(number, resident_member | ({f"visitor-{number:04}": {"t": [2, 3]}} if number % 2 else {}))


def join_and_leave_events(log: Log, members: int) -> Iterator[Event]:
    """Yield events of a derived group (known only from member events) that members join and leave."""
    yield log.topics(t=4)
    yield log.join("resident", session_timeout_ms=10_000)
    for number in range(members):
        yield log.join(f"visitor-{number:04}", session_timeout_ms=10_000)
        yield log.beat(f"visitor-{number:04}")
        yield log.leave(f"visitor-{number:04}")


def log_with_leaves(log: Log, leaves: int) -> Iterator[Event]:
    yield log.observe(1, {"resident": {"t": [0]}})
    for number in range(leaves):
        yield log.leave(f"visitor-{number:04}")


def stored_sizes(bucket: Bucket, events: list[Event]) -> list[int]:
    """Return the size of the stored state after each half of the events."""
    sizes = []
    for half in events[: len(events) // 2], events[len(events) // 2 :]:
        run(bucket, half)
        sizes.append(len(bucket.pack()))
    return sizes


@pytest.mark.parametrize("events", [rolling_join_events, join_and_leave_events, log_with_leaves])
def test_stored_state_of_a_group_is_bounded(bucket: Bucket, events: Callable[[Log, int], Iterator[Event]]) -> None:
    """After MAX_APPLIED events, the stored state of a group does not grow any more."""
    sizes = stored_sizes(bucket, list(events(Log(), 2 * MAX_FINGERPRINTS)))
    state = bucket.get("g").state
    assert len(state.applied) == MAX_FINGERPRINT_BYTES
    # Larger numbers take more bytes.
    assert MAX_FINGERPRINT_BYTES < sizes[1] <= sizes[0] + 16 < MAX_FINGERPRINT_BYTES + 1500


def acknowledgement_events(log: Log, generations: int) -> Iterator[Event]:
    """Yield events of members that report their partitions without how long they have owned them."""
    for name in ("c1", "c2"):
        yield log.join(name, acknowledges=True)
    for number in range(1, generations):
        yield log.acknowledge("c1", generation=number, owned={"t": [0]})


def topic_renaming_events(log: Log, topics: int) -> Iterator[Event]:
    """Yield events of an observed group that consumes many topics, each only for a short time."""
    yield log.observe(1, {"resident": {"t": [0]}})
    for number in range(topics):
        yield log.topics(**{f"topic-{number:06}": 3})


@pytest.mark.parametrize("events", [acknowledgement_events, topic_renaming_events])
def test_repeated_events_do_not_grow_the_state(events: Callable[[Log, int], Iterator[Event]]) -> None:
    sizes = stored_sizes(Bucket(), list(events(Log(), 4 * MAX_FINGERPRINTS)))
    assert sizes[1] <= sizes[0] + 100 < MAX_FINGERPRINT_BYTES + 5000


@pytest.mark.parametrize("kind", sorted(RETIRED_TYPES))
def test_records_of_retired_types_are_skipped(bucket: Bucket, kind: str) -> None:
    records = [invalid(b"g", b'{"groupId":"g"}', header) for header in (kind.encode(), b"made.up", None)]
    assert [write.topic for write in process(bucket, records, 0, SINKS)] == [SINKS.dead_letters] * 2
    assert not bucket.changed
