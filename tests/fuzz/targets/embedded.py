"""Fuzzes the bytes that clients embed in classic group records: consumers, Connect workers, Kafka Streams."""

from collections.abc import Callable, Iterator
from struct import error, pack
from typing import TypeVar
from uuid import UUID

from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from assignors.assignment import subtract, union
from streaming.collect.coordinator import connect, embedded
from streaming.collect.coordinator.classic import GENERATION_VALUE
from streaming.collect.coordinator.embedded import read_assignment, read_subscription
from streaming.collect.coordinator.schema import MalformedRecord
from streaming.records.events import MAX_TIMESTAMP
from tests.fuzz.case import Case, FuzzTarget
from tests.fuzz.mutate import EDGE_NUMBERS
from tests.support import offsets_topic
from tests.support.offsets_topic import prefixed, string

T = TypeVar("T")

numbers = st.sampled_from([edge for edge in EDGE_NUMBERS if -(2**31) <= edge < 2**31])
_shares = st.dictionaries(st.sampled_from(["t", "u", "é", ""]), st.lists(numbers, max_size=4), max_size=3)
subscriptions = st.builds(
    offsets_topic.subscription,
    st.lists(st.sampled_from(["t", "u", ""]), max_size=3),
    _shares,
    generation=numbers,
    user_data=st.none() | st.binary(max_size=30),
    rack=st.none() | st.sampled_from(["", "r1"]),
)
assignments = st.builds(offsets_topic.assignment, _shares)


def _check_member_bytes(case: Case) -> None:
    """Check the decoders with a member's embedded bytes: its subscription and its assignment."""
    subscription, assignment = ((part or b"") for part in [*case, None, None][:2])
    _consumer(subscription, assignment)
    _connect(subscription, assignment)
    _check_streams_bytes(subscription, assignment)


def _consumer(subscription: bytes, assignment: bytes) -> None:
    """Assert that embedded bytes are rejected, or decoded with the same result as by kafka-python."""
    for protocol in ("range", "sticky", None):
        try:
            decoded = read_subscription(subscription, protocol)
        except MalformedRecord:
            continue
        owned, generation, rack = (decoded.get(name) for name in ("owned", "owned_generation", "rack_id"))
        again = offsets_topic.subscription(
            decoded["topics"], owned or {}, generation=-1 if generation is None else generation, rack=rack
        )
        second_result = read_subscription(again, None)
        assert second_result == second_result | decoded
        assert _topics_by_kafka_python(subscription) in (None, tuple(decoded["topics"]))
    try:
        decoded = read_assignment(assignment, None)
    except MalformedRecord:
        return
    assert read_assignment(offsets_topic.assignment(decoded["assigned"]), None) == decoded


def _topics_by_kafka_python(subscription: bytes) -> tuple[str, ...] | None:
    """Return the topics that kafka-python decodes; None if kafka-python requires fields that Kafka does not require."""
    try:
        return tuple(ConsumerProtocolSubscription.decode(subscription).topics)
    except (ValueError, TypeError, error):
        return None


def _consumer_seeds() -> Iterator[Case]:
    assignment = offsets_topic.assignment({"t": [0, 1], "u": [3]})
    for rack in (None, "r1"):
        yield [offsets_topic.subscription(["t", "u"], {"t": [0]}, generation=4, rack=rack), assignment]
    user_data = pack(">i", 1) + offsets_topic.string("t") + pack(">iii", 1, 0, 7)
    yield [offsets_topic.subscription(["t"], {}, user_data=user_data), assignment]


def _members(kind: str) -> Iterator[tuple[str | None, bytes, bytes]]:
    """Yield protocol, subscription and assignment of every member in the captured records of groups of this kind."""
    generation = GENERATION_VALUE._replace(factory=dict)
    for row in offsets_topic.captured_records_of_kind(kind):
        if row.value is None or row.key is None or row.key[:2] != pack(">h", 2):
            continue
        decoded = generation.read(row.value)
        for member in decoded["members"]:
            yield decoded["protocol"], member["subscription"], member["assignment"]


def _connect(subscription: bytes, worker_assignment: bytes) -> None:
    """Assert that a worker's bytes are rejected, or unchanged after decoding and encoding."""
    for protocol, version in connect.SUBPROTOCOL_VERSIONS.items():
        try:
            worker, assignment = connect.read_worker(subscription, protocol), connect.WorkerAssignment()
            if worker_assignment:
                assignment = connect.read_assignment(worker_assignment, protocol)
        except MalformedRecord:
            continue
        if version:
            again = offsets_topic.worker(worker["owned"], worker.get("endpoint", ""))
            assert connect.read_worker(again, protocol) == {"endpoint": ""} | worker
        again = offsets_topic.work(assignment.assigned, assignment.revoked, assignment.delay_ms)
        assert connect.read_assignment(again, protocol) == assignment
        runs = connect.running_tasks(worker["owned"], assignment, protocol)
        assert not subtract(subtract(runs, assignment.assigned), worker["owned"])
        assert not subtract(assignment.assigned, runs)
        assert union(runs, runs) == runs


def _connect_seeds() -> Iterator[Case]:
    for _, subscription, assignment in _members("connect"):
        yield [subscription, assignment]
    yield [offsets_topic.worker(None), offsets_topic.work({"a": [-1, 0, 1], "b": [0]}, {"a": [2]}, 60_000)]
    yield [offsets_topic.worker({"a": [2, 3], "b": [-1]}), offsets_topic.work({"b": [0]}, {"a": [2]})]


def _check_streams_bytes(subscription: bytes, assignment: bytes) -> None:
    """Assert that the bytes of Streams are rejected, ignored, or unchanged after decoding and encoding."""
    instance = _read(embedded.read_instance, subscription)
    if instance:
        endpoint = instance.get("endpoint", "").encode()
        again = pack(">ii", 11, 11) + UUID(instance["process_id"]).bytes + prefixed(endpoint)
        assert embedded.read_instance(again) == instance
    assigned_tasks = _read(embedded.read_assigned_tasks, assignment)
    if not assigned_tasks:
        return
    tasks = [_task(name, number) for name, numbers in assigned_tasks["standby"].items() for number in numbers]
    at = assigned_tasks.get("next_rebalance_ms", MAX_TIMESTAMP + 1)
    again = pack(">iiii", 11, 11, 0, len(tasks)) + b"".join(tasks) + pack(">iiiiq", 0, 0, 0, 0, at)
    assert embedded.read_assigned_tasks(again) == assigned_tasks


def _read(read: Callable[[bytes], T | None], data: bytes) -> T | None:
    try:
        return read(data)
    except MalformedRecord:
        return None


def _task(name: str, number: int) -> bytes:
    """Return a standby task without partitions, in version 11 of the user data of Streams."""
    topology, _, subtopology = name.rpartition("__")
    text = topology.encode("utf-16-be")
    return pack(">iii", int(subtopology), number, len(text) // 2) + text + pack(">i", 0)


def _streams_seeds() -> Iterator[Case]:
    for _, subscription, assignment in _members("streams-classic"):
        subscribed = ConsumerProtocolSubscription.decode(subscription)
        yield [subscribed.user_data, ConsumerProtocolAssignment.decode(assignment).user_data]
    process, tasks = bytes(range(16)), pack(">iii", 1, 0, 3)
    standby = pack(">iiii", 1, 2, 1, 1) + pack(">H", 2) + b"in" + pack(">i", 1)
    yield [pack(">i", 1) + process + tasks + pack(">i", 0), pack(">i", 1) + tasks + standby]
    yield [pack(">ii", 6, 6) + process + tasks + pack(">i", 0) + prefixed(b"h:1"), pack(">ii", 6, 6) + tasks + standby]
    named = pack(">iii", 2, 1, 1) + "ä".encode("utf-16-be") + pack(">i", 0)
    yield [b"", pack(">iii", 10, 10, 0) + pack(">i", 1) + named + pack(">iiii", 0, 0, 0, 0) + pack(">q", 0)]


def _seeds() -> Iterator[Case]:
    yield from _consumer_seeds()
    yield from _connect_seeds()
    yield from _streams_seeds()


_FUZZ_WORDS = (
    *(pack(">h", number) for number in range(-1, 27)),
    *(pack(">i", number) for number in (-1, 0, 1, 2, 7, 10, 11, 12, 2**31 - 1)),
    string("a"),
    string(None),
    b"\xd8\x00",
)
TARGETS = (
    FuzzTarget(
        "embedded", _check_member_bytes, _seeds, 2, st.tuples(subscriptions, assignments).map(list), _FUZZ_WORDS
    ),
)
