from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError, TopicPartition, admin

from streaming.collect.polling import requests
from streaming.collect.polling.requests import GroupListing, GroupRequests, ListedState, NoAnswer, answer, listing
from streaming.records.events import GroupObserved, ObservedMember
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import MemoryKafka, group
from tests.support.polling import NO_COORDINATOR_ERROR

CONSUMER, CLASSIC = ConsumerGroupType.CONSUMER, ConsumerGroupType.CLASSIC
STATE = ConsumerGroupState
SETTINGS = KafkaSettings(bootstrap_servers="memory:1")


def member(name: str, **fields: Any) -> ObservedMember:
    return ObservedMember(member_id=name, topics=[], client_id=name, client_host="/127.0.0.1", **fields)


def stable_snapshot(group_id: str) -> GroupObserved:
    return GroupObserved(group_id=group_id, timestamp=0, members=[], state="Stable")


def test_description_of_a_classic_group_gives_its_snapshot() -> None:
    description = group("g", STATE.STABLE, {"b": [("u", 0), ("t", 2), ("t", 1), ("t", 2)], "a": []})
    members = [member("b", assigned={"t": [1, 2], "u": [0]}), member("a", assigned={})]
    assert answer(description) == GroupObserved(
        group_id="g", timestamp=0, members=members, protocol="range", state="Stable"
    )


def test_description_of_a_consumer_group_gives_its_target() -> None:
    description = group("g", STATE.STABLE, {"a": [("t", 0)]}, kind=CONSUMER, target={"a": [("t", 1)]})
    assert answer(description).members == [member("a", assigned={"t": [0]}, target={"t": [1]})]


@pytest.mark.parametrize(
    ("state", "kind", "target", "name"),
    [
        (STATE.EMPTY, CLASSIC, [], "Empty"),
        (STATE.PREPARING_REBALANCING, CLASSIC, [], "PreparingRebalance"),
        (STATE.COMPLETING_REBALANCING, CLASSIC, [], "CompletingRebalance"),
        (STATE.UNKNOWN, CLASSIC, [], "Unknown"),
        (STATE.UNKNOWN, CONSUMER, [("t", 0)], "Assigning"),
        (STATE.UNKNOWN, CONSUMER, [("t", 1)], "Reconciling"),
        (STATE.DEAD, CONSUMER, [], "Dead"),
    ],
)
def test_snapshot_state_has_kafkas_name(
    state: ConsumerGroupState, kind: ConsumerGroupType, target: list[tuple[str, int]], name: str
) -> None:
    description = group("g", state, {"a": [("t", 0)]}, kind=kind, target={"a": target})
    assert answer(description).state == name


def test_group_that_never_had_members_is_ignored() -> None:
    description = group("g", STATE.EMPTY)
    description.is_simple_consumer_group = True
    assert answer(description).state == "Dead"


def test_group_list_gives_states_and_request_costs() -> None:
    def group_listing(name: str, state: Any, kind: Any, *, simple: bool = False) -> admin.ConsumerGroupListing:
        return admin.ConsumerGroupListing(name, simple, state, kind)

    listed = admin.ListConsumerGroupsResult(
        [
            group_listing("a", STATE.STABLE, CLASSIC),
            group_listing("b", STATE.UNKNOWN, CONSUMER),
            group_listing("c", STATE.UNKNOWN, ConsumerGroupType.UNKNOWN),
            group_listing("offsets only", STATE.EMPTY, CLASSIC, simple=True),
        ],
        [NO_COORDINATOR_ERROR],  # the client's actual value, not the documented one
    )
    assert listing(listed) == GroupListing(
        (ListedState("a", "Stable", 2), ListedState("b", "Assigning or Reconciling", 1), ListedState("c", None, 2)),
        (NO_COORDINATOR_ERROR,),
    )


def test_each_request_gets_an_answer(kafka: MemoryKafka) -> None:
    kafka.groups = {"a": group("a"), "b": group("b")}
    kafka.fail("describe b", NO_COORDINATOR_ERROR)
    group_requests = GroupRequests(SETTINGS)
    assert group_requests.brokers("t") == 1
    assert list(group_requests.replies(0)) == []
    group_requests.list()
    assert group_requests.is_pending(None)
    group_requests.describe(["a", "b"])
    assert list(group_requests.replies(1)) == [
        GroupListing((ListedState("a", "Stable", 2), ListedState("b", "Stable", 2))),
        stable_snapshot("a"),
        NoAnswer("b", NO_COORDINATOR_ERROR),
    ]
    assert len(kafka.admins) == 1, "a broker that returns an error has answered"
    assert not group_requests.is_pending(None)
    assert list(group_requests.replies(0)) == []


class NonUtf8Partition:
    """A partition, as the client returns it, of a topic whose name is not valid UTF-8."""

    partition = 0

    @property
    def topic(self) -> str:
        return b"\xff".decode()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (TopicPartition("t", -5), "an assignment: -5 is not a partition number"),
        (TopicPartition("t", -1), "an assignment: -1 is not a partition number"),
        (NonUtf8Partition(), "an assignment: the name of a topic is not UTF-8"),
    ],
)
def test_impossible_assignment_of_a_leader_is_ignored(kafka: MemoryKafka, place: Any, message: str) -> None:
    kafka.groups = {"bad": group("bad", shares={"m": []}), "good": group("good")}
    (member,) = kafka.groups["bad"].members
    member.assignment.topic_partitions.append(place)
    group_requests = GroupRequests(SETTINGS)
    group_requests.describe(["bad", "good"])
    refused, answered = group_requests.replies(1)
    assert isinstance(refused, NoAnswer)
    assert (refused.group_id, refused.error.name(), refused.error.str()) == ("bad", "INVALID_RECORD", message)
    assert answered == stable_snapshot("good")


def test_unreadable_assignment_does_not_replace_the_client(kafka: MemoryKafka) -> None:
    kafka.fail("describe g", KafkaError(KafkaError._DESTROY, "Broker handle destroyed for termination"))
    group_requests = GroupRequests(SETTINGS)
    client = group_requests._admin
    group_requests.describe(["g"])
    (refused,) = group_requests.replies(1)
    assert isinstance(refused, NoAnswer)
    assert (refused.error.name(), refused.error.str()) == ("INVALID_RECORD", "a member's assignment can't be read")
    assert group_requests._admin is client


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Replace the module's clock by one that the test sets, and return it."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(requests, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_replacement_client_repeats_open_requests(kafka: MemoryKafka, clock: SimpleNamespace) -> None:
    kafka.groups = {"a": group("a"), "b": group("b")}
    group_requests = GroupRequests(SETTINGS)
    kafka.move_coordinators()
    group_requests.describe(["a"])
    clock.now = 2.0
    kafka.is_silent = True
    group_requests.list()
    group_requests.describe(["b"])
    kafka.is_silent = False
    assert list(group_requests.replies(0)) == []
    clock.now = 2.5
    assert list(group_requests.replies(0)) == [NoAnswer("a", KafkaError(KafkaError._TIMED_OUT))]
    replies = [GroupListing((ListedState("a", "Stable", 2), ListedState("b", "Stable", 2))), stable_snapshot("b")]
    assert list(group_requests.replies(1)) == replies
    assert not group_requests.is_pending(None)
    group_requests.describe(["a"])
    assert list(group_requests.replies(1)) == [stable_snapshot("a")]
    assert len(kafka.admins) == 2


def test_timeout_grows_after_each_unanswered_client(kafka: MemoryKafka, clock: SimpleNamespace) -> None:
    kafka.groups = {"a": group("a"), "b": group("b")}
    group_requests = GroupRequests(SETTINGS)

    def seconds_until_timeout() -> float:
        """Return the seconds until an unanswered DescribeGroups request about group a fails."""
        began = clock.now
        kafka.is_silent = True
        group_requests.describe(["a"])
        while not list(group_requests.replies(0)):
            clock.now += 0.5
        kafka.is_silent = False
        group_requests.describe(["b"])
        assert list(group_requests.replies(1)) == [stable_snapshot("b")]
        return clock.now - began

    assert [seconds_until_timeout() for _ in range(4)] == [2.5, 5, 10, 10]
    group_requests.describe(["a"])
    assert list(group_requests.replies(1)) == [stable_snapshot("a")]
    assert seconds_until_timeout() == 2.5
    assert len(kafka.admins) == 6


def test_list_request_without_an_answer_times_out(kafka: MemoryKafka, clock: SimpleNamespace) -> None:
    group_requests = GroupRequests(SETTINGS)
    kafka.is_silent = True
    group_requests.list()
    clock.now = 19.5
    assert (list(group_requests.replies(0)), group_requests.is_pending(None)) == ([], True)
    clock.now = 20.0
    assert list(group_requests.replies(0)) == [NoAnswer(None, KafkaError(KafkaError._TIMED_OUT))]
    assert not group_requests.is_pending(None)


def test_unreachable_brokers_are_listed_by_another_client(kafka: MemoryKafka) -> None:
    group_requests = GroupRequests(SETTINGS)
    for trouble, clients in ((NO_COORDINATOR_ERROR, 1), (KafkaError(KafkaError._TIMED_OUT), 2)):
        kafka.list_errors = [trouble]
        group_requests.list()
        assert list(group_requests.replies(1)) == [GroupListing((), (trouble,))]
        assert len(kafka.admins) == clients


def test_every_state_of_the_client_library_has_a_name() -> None:
    assert {state.name for state in ConsumerGroupState} <= requests._STATE_NAMES.keys() | {"UNKNOWN"}
