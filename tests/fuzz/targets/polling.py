"""Fuzzes the responses to the polling collector, and the records that collectors and ``replay`` read from topics."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Annotated, Literal

import msgspec
import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, TopicPartition, admin
from hypothesis import strategies as st

from streaming.cli.replay import differences, replayed_diffs
from streaming.collect.coordinator.schema import MalformedRecord
from streaming.collect.counts import read_published
from streaming.collect.polling.group import UNKNOWN, PolledGroup, poll, resumed, shows_change
from streaming.collect.polling.requests import answer
from streaming.collect.polling.resume import read_published_state
from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.process import escape_unprintable
from streaming.records import codec
from streaming.records.codec import Record
from streaming.records.events import Event
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings
from tests.fuzz.case import Case, FuzzTarget
from tests.fuzz.shapes import of
from tests.fuzz.targets.topics import SINKS, check_output_record, membership_shape
from tests.support.memory_kafka import MemoryKafka
from tests.support.recorded import GROUP_SORTS
from tests.support.recorded import records as recorded

SETTINGS = Settings(kafka=KafkaSettings(bootstrap_servers="memory:1"))
_SOURCE = "kafka://memory/groups"

#: A partition as a member's leader may have written it.
_Place = tuple[str, Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]]


class _Member(msgspec.Struct):
    """Fields of confluent-kafka's ``MemberDescription``."""

    member_id: str
    assigned: list[_Place]
    target: list[_Place] | None = None
    instance: str | None = None
    client_id: str = "c"
    host: str = "/127.0.0.1"


class _GroupDescription(msgspec.Struct):
    """Fields of the client's ``ConsumerGroupDescription``; the members of a group have distinct names."""

    type: Literal["CLASSIC", "CONSUMER", "UNKNOWN"]
    state: Literal["STABLE", "EMPTY", "DEAD", "UNKNOWN", "PREPARING_REBALANCING", "COMPLETING_REBALANCING"]
    assignor: str = ""
    members: list[_Member] = []
    is_simple: bool = False

    def partition_as_in_the_client(self) -> admin.ConsumerGroupDescription:
        members = [
            admin.MemberDescription(
                description.member_id,
                description.client_id,
                description.host,
                _assignment(description.assigned),
                description.instance,
                None if description.target is None else _assignment(description.target),
            )
            for description in {member.member_id: member for member in self.members}.values()
        ]
        state, kind = ConsumerGroupState[self.state], ConsumerGroupType[self.type]
        return admin.ConsumerGroupDescription("g", self.is_simple, members, self.assignor, state, None, type=kind)


def _assignment(places: Sequence[_Place]) -> admin.MemberAssignment:
    return admin.MemberAssignment([TopicPartition(*place) for place in places])


_description_decoder = msgspec.json.Decoder(_GroupDescription)


def _polling(case: Case) -> None:
    """Assert that a response gives at most one event, which the stream and other collectors accept."""
    polled, bucket, ids = UNKNOWN, Bucket(), set[str]()
    for number, part in enumerate(case):
        try:
            description = answer(_description_decoder.decode(part or b"").partition_as_in_the_client())
        except (*codec.DECODE_ERRORS, ValueError, MalformedRecord):  # the description is unusable
            continue
        now = 1_700_000_000_000 + 1_000 * number
        if number % 3 == 2:  # ListGroups has already returned the state
            shows_change(polled, description.state)
            polled = polled.with_rebalance(description.state, now)
        before = polled.number
        polled, event = poll(polled, description, now, _SOURCE)
        if event is None:
            continue
        assert event.id not in ids
        ids.add(event.id)
        assert polled is UNKNOWN or polled.number >= before
        _check_accepted(bucket, number, event)
        again = resumed(event)
        assert (again.view, again.id, again.number) == (polled.view, polled.id, polled.number)


def _check_accepted(bucket: Bucket, offset: int, event: Event) -> None:
    """Assert that the stream and all readers of the stream's output accept the event."""
    key, value, headers = codec.encode_event(event)
    assert codec.decode_event(key, value, codec.ce_attributes(headers)) == event
    for write in process(bucket, [Record.of(0, offset, key, value, headers)], 0, SINKS):
        assert write.topic != SINKS.dead_letters, write
        check_output_record(write)


def _polling_seeds() -> Iterator[Case]:
    def description(kind: str, state: str, assignor: str, *members: _Member) -> bytes:
        return msgspec.json.encode(_GroupDescription(kind, state, assignor, list(members)))  # type: ignore[arg-type]

    a, b = _Member("a", [("t", 0), ("t", 1)], None, "i"), _Member("b", [("t", 2), ("u", 0)])
    yield [
        description("CLASSIC", "EMPTY", ""),
        description("CLASSIC", "PREPARING_REBALANCING", "", a),
        description("CLASSIC", "STABLE", "range", a),
        description("CLASSIC", "STABLE", "stream", a, b),
        description("CLASSIC", "EMPTY", ""),
        description("CLASSIC", "DEAD", ""),
    ]
    member_in_move, gone = _Member("a", [("t", 0)], [("t", 1)]), _Member("a", [("t", 1)], [("t", 1)])
    yield [
        description("CONSUMER", "STABLE", "uniform", _Member("a", [("t", 0)], [("t", 0)])),
        description("CONSUMER", "UNKNOWN", "uniform", member_in_move, _Member("b", [], [("t", 0)])),
        description("CONSUMER", "STABLE", "uniform", gone, _Member("b", [("t", 0)], [("t", 0)])),
        description("CLASSIC", "STABLE", "range", a),
        description("CONSUMER", "EMPTY", "uniform"),
    ]


_TOPIC_BY_SOURCE = {None: SETTINGS.topics.membership, b"d": SETTINGS.topics.diffs, b"a": SETTINGS.topics.assignments}


@contextmanager
def _cluster(case: Case) -> Iterator[MemoryKafka]:
    """Yield an in-memory cluster with the records of a case, in six parts each; the last one selects the topic."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        kafka = MemoryKafka(monkeypatch)
        for name in SETTINGS.topics.names:
            kafka.create(name)
        for key, value, kind, id_, source, place in zip(*[iter(case)] * 6, strict=False):
            headers = [("ce_type", kind), ("ce_id", id_), ("ce_source", source)]
            kafka.append(_TOPIC_BY_SOURCE.get(place, _TOPIC_BY_SOURCE[None]), value, key=key, headers=headers)
        yield kafka


def _check_resume(case: Case) -> None:
    """Assert that a collector resumes from arbitrary records in its topics, and that two replays are equal."""
    with _cluster(case) as kafka:
        published, groups = read_published_state(SETTINGS, "/s", lambda name: name != "unwanted")
        assert read_published(SETTINGS, "/s").counts == published.counts
        for group_id, polled in groups.items():
            _can_continue(group_id, polled)
        for line in differences(SETTINGS):
            assert escape_unprintable(line)
        diffs = list(replayed_diffs(SETTINGS))
        for log in kafka.topics[SETTINGS.topics.diffs].logs:
            log.entries.clear()
        for record in diffs:
            headers = [("ce_id", record.id.encode()), ("ce_type", b"rebalance.diff")]
            key = record.diff.group_id.encode()
            kafka.append(SETTINGS.topics.diffs, record.value, key=key, headers=headers)
        assert list(differences(SETTINGS)) == []


def _can_continue(group_id: str, polled: PolledGroup) -> None:
    """Assert that the collector can publish the next change of the group."""
    assert polled.view is None or polled.view.group_id == group_id
    for state in ("STABLE", "UNKNOWN", "EMPTY", "DEAD"):
        kafka_description = _GroupDescription("CONSUMER", state, "x", [_Member("m", [("t", 0)])])  # type: ignore[arg-type]
        description = msgspec.structs.replace(answer(kafka_description.partition_as_in_the_client()), group_id=group_id)
        event = poll(polled, description, 1_700_000_000_000, _SOURCE)[1]
        if event is not None:
            key, value, headers = codec.encode_event(event)
            assert codec.decode_event(key, value, codec.ce_attributes(headers)) == event


def _topic_seeds() -> Iterator[Case]:
    for sort in GROUP_SORTS:
        for start in (0, 100, 200):
            bucket = Bucket()
            case: Case = []
            for description in islice(recorded(sort, 300), start, start + 12):
                case += [description.key, description.value, description.type, description.id, description.source, None]
                for write in process(bucket, [description], 0, SINKS):
                    place = {SINKS.diffs: b"d", SINKS.assignments: b"a"}.get(write.topic)
                    if place is not None:
                        ce = codec.ce_attributes(write.headers)
                        case += [write.key, write.value, ce["type"].encode(), ce["id"].encode(), b"/s", place]
            yield case


TARGETS = (
    FuzzTarget(
        "polling", _polling, _polling_seeds, shape=st.lists(of(_GroupDescription).map(msgspec.json.encode), max_size=8)
    ),
    FuzzTarget("replay", _check_resume, _topic_seeds, 6, membership_shape),
)
