"""The complete polling collector (``collect --by polling``) over a cluster in memory."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError

from streaming.collect import lifecycle
from streaming.collect.polling import collector
from streaming.collect.polling.schedule import RequestSchedule
from streaming.kafka.access import NoPermission
from streaming.records import codec
from streaming.records.events import Event, GroupDeleted, GroupObserved, ObservedMember
from tests.support.memory_kafka import MemoryKafka, group
from tests.support.polling import NO_COORDINATOR_ERROR, ONE_MEMBER, TWO_MEMBERS, PollingThread
from tests.support.wait import eventually

TOPIC = "rebalance.membership"
STATE = ConsumerGroupState


def published(kafka: MemoryKafka, name: str = "g") -> list[tuple[str, Any]]:
    """Return each published event of a group: its type, and its generation and members or its partition counts."""
    contents = []
    for message in kafka.records(TOPIC) if TOPIC in kafka.topics else []:
        kind, value = ((dict(message.headers() or [])["ce_type"] or b"").decode(), json.loads(message.value() or b""))
        if value["groupId"] != name:
            continue
        if kind == "group.observed":
            number = value["generation"] if value["groupEpoch"] is None else value["groupEpoch"]
            what: Any = (number, {member["memberId"]: member["assigned"] for member in value["members"]})
        elif kind == "topic.partitions_changed":
            what = {topic: described["partitions"] for topic, described in value["topics"].items()}
        else:
            what = None
        contents.append((kind, what))
    return contents


FIRST_EVENTS = [("topic.partitions_changed", {"t": 2}), ("group.observed", (1, {"a": {"t": [0, 1]}}))]


@contextmanager
def polling_one_group(kafka: MemoryKafka) -> Iterator[PollingThread]:
    """Run a collector that has published the first events of group g, which has one member."""
    kafka.groups["g"] = group("g", shares=ONE_MEMBER)
    with PollingThread() as polling:
        eventually(lambda: published(kafka) == FIRST_EVENTS)
        yield polling


def test_members_join_and_leave_and_group_is_deleted(kafka: MemoryKafka) -> None:
    with polling_one_group(kafka) as polling:
        kafka.groups["g"] = group("g", STATE.PREPARING_REBALANCING, {"a": [], "b": []})
        polling.await_descriptions()
        kafka.groups["g"] = group("g", shares=TWO_MEMBERS)
        eventually(lambda: published(kafka)[2:] == [("group.observed", (2, {"a": {"t": [0]}, "b": {"t": [1]}}))])
        kafka.groups["g"] = group("g", STATE.EMPTY)
        eventually(lambda: published(kafka)[3:] == [("group.observed", (3, {}))])
        del kafka.groups["g"]
        eventually(lambda: published(kafka)[4:] == [("group.deleted", None)])
        kafka.groups["g"] = group("g", shares=ONE_MEMBER)
        eventually(lambda: published(kafka)[5:] == FIRST_EVENTS)
    assert polling.figure("events_total") == 7
    sources = {dict(message.headers() or [])["ce_source"] for message in kafka.records(TOPIC)}
    assert sources == {b"kafka://c/groups", b"kafka://c/metadata"}
    assert kafka.committed == {}
    assert all(consumer.closed for consumer in kafka.consumers)


def test_restart_repeats_no_event_and_continues_the_count(kafka: MemoryKafka) -> None:
    kafka.groups["g"] = group("g", shares=ONE_MEMBER)
    kafka.groups["k"] = group("k", shares=ONE_MEMBER, kind=ConsumerGroupType.CONSUMER)
    with PollingThread():
        eventually(lambda: published(kafka) == FIRST_EVENTS == published(kafka, "k"))
    with PollingThread() as polling:
        polling.await_descriptions(6)
    assert published(kafka) == FIRST_EVENTS == published(kafka, "k")
    kafka.groups["g"] = group("g", shares=TWO_MEMBERS)
    del kafka.groups["k"]
    with PollingThread():
        eventually(lambda: len(published(kafka)) == 3 and len(published(kafka, "k")) == 3)
    assert published(kafka)[2] == ("group.observed", (2, {"a": {"t": [0]}, "b": {"t": [1]}}))
    assert published(kafka, "k")[2] == ("group.deleted", None)


def test_unavailable_coordinator_is_awaited(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    kafka.groups = {"g": group("g", shares=ONE_MEMBER), "h": group("h", shares=ONE_MEMBER)}
    with PollingThread() as polling:
        eventually(lambda: published(kafka, "g") == FIRST_EVENTS == published(kafka, "h"))
        kafka.fail("describe g", *[NO_COORDINATOR_ERROR] * 3)
        kafka.groups["h"] = group("h", shares=TWO_MEMBERS)
        eventually(lambda: len(published(kafka, "h")) == 3)
        eventually(lambda: "all coordinators answer again" in caplog.messages)
        assert polling.figure("groups_unanswered") == 0
    message = "group g: its coordinator does not answer (no coordinator): waiting for an answer"
    assert caplog.messages.count(message) == 1
    assert caplog.messages[0] == "polling groups with at most 1000 requests per second"
    assert caplog.messages[-1] == "stopped"
    assert published(kafka) == FIRST_EVENTS


def test_other_groups_are_polled_beside_one_in_unknown_state(kafka: MemoryKafka) -> None:
    kafka.groups = {"a": group("a", STATE.UNKNOWN, shares=ONE_MEMBER), "g": group("g", shares=ONE_MEMBER)}
    with PollingThread():
        eventually(lambda: published(kafka, "g") == FIRST_EVENTS)


def test_client_waiting_for_lost_coordinator_is_replaced(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    kafka.groups = {"g": group("g", shares=ONE_MEMBER), "h": group("h", shares=ONE_MEMBER)}
    with PollingThread():
        eventually(lambda: published(kafka, "g") == FIRST_EVENTS == published(kafka, "h"))
        kafka.move_coordinators()
        kafka.groups = {"g": group("g", shares=TWO_MEMBERS), "h": group("h", shares=TWO_MEMBERS)}
        eventually(lambda: len(published(kafka, "g")) == 3 == len(published(kafka, "h")))
        eventually(lambda: "all coordinators answer again" in caplog.messages)
    assert not any("no contact" in line for line in caplog.messages)


def test_unlisted_group_is_gone_only_if_coordinator_confirms(kafka: MemoryKafka) -> None:
    with polling_one_group(kafka) as polling:
        kafka.unlisted_groups = {"g"}
        polling.await_descriptions()
        kafka.list_errors = [NO_COORDINATOR_ERROR]
        kafka.groups["g"] = group("g", shares=TWO_MEMBERS)
        eventually(lambda: len(published(kafka)) == 3)
    assert "group.deleted" not in dict(published(kafka))


def test_unreachable_cluster_is_awaited(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with polling_one_group(kafka):
        kafka.away = True
        eventually(lambda: "no contact with Kafka (broker is away): waiting for it" in caplog.messages)
        kafka.groups["g"] = group("g", shares=TWO_MEMBERS)
        kafka.away = False
        eventually(lambda: len(published(kafka)) == 3)
        eventually(lambda: "Kafka answers again" in caplog.messages)


def test_unanswered_group_is_due_when_the_cluster_is_back(
    kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    request_times: list[float] = []
    retry = RequestSchedule.retry

    def counted(schedule: RequestSchedule, now: float) -> None:
        request_times.append(now)
        retry(schedule, now)

    monkeypatch.setattr(RequestSchedule, "retry", counted)
    with polling_one_group(kafka):
        kafka.away = True
        eventually(lambda: "no contact with Kafka (broker is away): waiting for it" in caplog.messages)
        assert request_times == []
        kafka.away = False
        eventually(lambda: "Kafka answers again" in caplog.messages)
    assert len(request_times) == 1


@pytest.mark.parametrize(
    ("code", "resource", "name"),
    [("GROUP_AUTHORIZATION_FAILED", "group", "g"), ("TOPIC_AUTHORIZATION_FAILED", "topic", "*")],
)
def test_missing_permission_is_reported(kafka: MemoryKafka, code: str, resource: str, name: str) -> None:
    kafka.groups["g"] = group("g", shares=ONE_MEMBER)
    kafka.fail("describe g", KafkaError(getattr(KafkaError, code), "not allowed"))
    polling = PollingThread()
    polling.start()
    error = polling.ended()
    assert isinstance(error, NoPermission)
    assert str(error) == (
        f"cluster memory:1: user 'ANONYMOUS' may not describe {resource} {name}, which collect --by polling must "
        "for group g; or leave it out with --exclude-group; kafka-acls.sh --bootstrap-server memory:1 --add "
        f"--allow-principal 'User:ANONYMOUS' --operation Describe --{resource} '{name}'"
    )


def publish(kafka: MemoryKafka, data: GroupObserved | GroupDeleted) -> None:
    number = len(kafka.records(TOPIC))
    key, value, headers = codec.encode_event(Event("kafka://c/__consumer_offsets", f"0:{number}", data))
    logs = kafka.topics[TOPIC].logs
    (place,) = [n for n, log in enumerate(logs) if any(entry and entry.key() == key for entry in log.entries)]
    kafka.append(TOPIC, value, key=key, partition=place, headers=headers)


def snapshot_from_offsets_topic(generation: int, shares: dict[str, list[tuple[str, int]]]) -> GroupObserved:
    members = [
        ObservedMember(
            member_id=name,
            topics=["t"],
            assigned={"t": [number for _, number in share]},
            client_id=name,
            client_host="/127.0.0.1",
        )
        for name, share in shares.items()
    ]
    return GroupObserved(
        group_id="g", timestamp=1, members=members, generation=generation, protocol="range", state="Stable"
    )


def test_events_of_the_offsets_collector_are_not_repeated(kafka: MemoryKafka) -> None:
    with polling_one_group(kafka) as polling:
        publish(kafka, snapshot_from_offsets_topic(7, ONE_MEMBER))
        polling.await_descriptions(5)
        kafka.groups["g"] = group("g", STATE.PREPARING_REBALANCING, {"a": [], "b": []})
        polling.await_descriptions()
        kafka.groups["g"] = group("g", shares=TWO_MEMBERS)
        polling.await_descriptions(5)
        publish(kafka, snapshot_from_offsets_topic(8, TWO_MEMBERS))
        polling.await_descriptions(5)
        del kafka.groups["g"]
        eventually(lambda: polling.figure("groups") == 1)
        publish(kafka, GroupDeleted(group_id="g", timestamp=2, reason="deleted"))
        eventually(lambda: polling.figure("groups") == 0)
    assert [number for kind, number in published(kafka)[2:] if kind == "group.observed"] == [
        (7, {"a": {"t": [0, 1]}}),
        (8, {"a": {"t": [0]}, "b": {"t": [1]}}),
    ]
    assert published(kafka)[-1] == ("group.deleted", None)
    assert len(published(kafka)) == 5


def wait_for_requests(kafka: MemoryKafka, *requests: str) -> None:
    """Delay the answers to these requests, and wait until as many requests are pending at the cluster."""
    kafka.slow = {*requests}
    eventually(lambda: len(kafka.late) == len(requests))


def test_answer_older_than_offsets_collector_is_ignored(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "OTHER_COLLECTOR_SECONDS", 0.1)
    with polling_one_group(kafka) as polling:
        for number, groups_before in enumerate(
            [
                {"g": group("g", STATE.PREPARING_REBALANCING, {"a": [], "b": []})},  # as if another member joined
                {"g": group("g", shares=ONE_MEMBER)},  # as if the group returned to its earlier state
            ],
            start=7,
        ):
            wait_for_requests(kafka, "list_consumer_groups", "describe g")
            kafka.groups["g"] = group("g", shares=TWO_MEMBERS)
            publish(kafka, snapshot_from_offsets_topic(number, TWO_MEMBERS))
            eventually(lambda: has_read_all(kafka))
            kafka.answer(groups_before)
            polling.await_descriptions(8)
    assert [what[0] for kind, what in published(kafka) if kind == "group.observed"] == [1, 7, 8]


def test_list_older_than_an_answer_starts_no_rebalance(kafka: MemoryKafka) -> None:
    with polling_one_group(kafka) as polling:
        wait_for_requests(kafka, "list_consumer_groups")
        polling.await_descriptions()
        kafka.answer({"g": group("g", STATE.COMPLETING_REBALANCING, ONE_MEMBER)})
        polling.await_descriptions()
    assert published(kafka) == FIRST_EVENTS


def test_deleted_group_does_not_return_by_an_older_answer(kafka: MemoryKafka) -> None:
    with polling_one_group(kafka) as polling:
        groups_before = dict(kafka.groups)
        wait_for_requests(kafka, "describe g")
        del kafka.groups["g"]
        publish(kafka, GroupDeleted(group_id="g", timestamp=2, reason="deleted"))
        eventually(lambda: has_read_all(kafka))
        kafka.answer(groups_before)
        eventually(lambda: polling.figure("groups") == 0)
    assert published(kafka)[2:] == [("group.deleted", None)]


def has_read_all(kafka: MemoryKafka) -> bool:
    """Return true if the collector has read every record of the membership topic."""
    reader = next(consumer for consumer in reversed(kafka.consumers) if not consumer.closed)
    ends = {(TOPIC, number): log.end for number, log in enumerate(kafka.topics[TOPIC].logs)}
    return reader._next_offsets == ends


def test_polling_takes_over_from_silent_offsets_collector(
    kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(collector, "OTHER_COLLECTOR_SECONDS", 0.3)
    caplog.set_level("INFO")
    with polling_one_group(kafka):
        publish(kafka, snapshot_from_offsets_topic(7, ONE_MEMBER))
        kafka.groups["g"] = group("g", shares=TWO_MEMBERS)
        eventually(lambda: len(published(kafka)) == 4)
    assert published(kafka)[3] == ("group.observed", (8, {"a": {"t": [0]}, "b": {"t": [1]}}))
    assert (
        "group g: no other collector publishes its changes any more: this collector publishes them" in caplog.messages
    )


def test_without_visible_groups_missing_permission_is_reported(
    kafka: MemoryKafka, caplog: pytest.LogCaptureFixture
) -> None:
    with PollingThread():
        eventually(lambda: any("no group can be seen" in line for line in caplog.messages))
    assert "--operation Describe --group '*'" in caplog.text


def test_short_request_budget_is_reported(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    kafka.groups = {f"g{number}": group(f"g{number}", STATE.EMPTY) for number in range(20)}
    with PollingThread(poll_requests_per_second=2):
        eventually(lambda: any("20 groups: to describe all of them takes 20 s" in line for line in caplog.messages))


def test_collector_stopped_before_the_first_answer_stops(kafka: MemoryKafka) -> None:
    with PollingThread():
        pass
    assert "list_consumer_groups" not in kafka.requests or published(kafka) == []


def test_heartbeats_report_only_observed_time(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    heartbeat_results: list[bool] = []

    class RecordedHeartbeats:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def write(self, *, up_to: float | None) -> None:
            heartbeat_results.append(up_to is not None)

        def write_last(self) -> None:
            heartbeat_results.append(False)

    def has_published(*expected: bool) -> bool:
        """Return true if heartbeats changed in this order, from not observed (False) to observed (True) or back."""
        changes = [
            beat
            for beat, before in zip(heartbeat_results, [None, *heartbeat_results], strict=False)
            if beat is not before
        ]
        return changes == list(expected)

    monkeypatch.setattr(lifecycle, "HeartbeatWriter", RecordedHeartbeats)
    kafka.groups["g"] = group("g", shares=ONE_MEMBER)
    kafka.list_errors = [NO_COORDINATOR_ERROR]
    with PollingThread() as polling:
        polling.await_descriptions()
        assert has_published(False)  # one broker has not listed its groups
        kafka.list_errors = []
        eventually(lambda: has_published(False, True))
        kafka.away = True
        eventually(lambda: has_published(False, True, False))
        kafka.away = False
        eventually(lambda: has_published(False, True, False, True))
    assert has_published(False, True, False, True, False)
