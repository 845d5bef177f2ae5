"""Causes of joins and leaves, derived from a real coordinator's log and from offset commits."""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from streaming.kafka.broker import EmbeddedBroker
from streaming.records.events import GroupObserved
from tests.integration.streaming.collect.collector_process import CollectorProcess, topic_with_writer
from tests.support.histories import diffs, play
from tests.support.kafka import LONG_BROKER_SESSION, PROPERTIES, Kafka, eventually, unique_name
from tests.support.members import CONSUMER, COOPERATIVE, Member, share_all_partitions
from tests.support.wait import TIMEOUT_SECONDS

pytestmark = [pytest.mark.broker, pytest.mark.cluster]


def await_commit(servers: str, group: str, member: Member) -> None:
    """Wait until the member has committed newer offsets for all partitions that it owns."""
    admin = AdminClient({"bootstrap.servers": servers})

    def committed() -> dict[tuple[str, int], int]:
        futures = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        places = futures[group].result(TIMEOUT_SECONDS).topic_partitions
        return {(place.topic, place.partition): place.offset for place in places}

    before = committed()
    owned = [(topic, partition) for topic, numbers in member.owned.items() for partition in numbers]
    assert owned
    eventually(lambda: all(committed().get(place, -1) > before.get(place, -1) for place in owned))


def end_two_members(servers: str, group: str, topic: str, config: dict[str, Any]) -> Member:
    """Let a member leave and then another one crash, each after a commit; return the member that stays."""
    stay = Member(servers, group, "stay", [topic], **config)
    eventually(lambda: share_all_partitions([stay], 6))
    leave = Member(servers, group, "leave", [topic], **config)
    eventually(lambda: share_all_partitions([stay, leave], 6))
    await_commit(servers, group, leave)
    leave.close()
    eventually(lambda: share_all_partitions([stay], 6))
    crash = Member(servers, group, "crash", [topic], **config)
    eventually(lambda: share_all_partitions([stay, crash], 6))
    await_commit(servers, group, crash)
    crash.crash()
    eventually(lambda: share_all_partitions([stay], 6))
    return stay


def kinds_of_evidence(views: Iterable[GroupObserved]) -> dict[str, set[str | None]]:
    """Return the kinds of the evidence in a group's snapshots that names a client, by client id."""
    clients: dict[str, str] = {}
    kinds: dict[str, set[str | None]] = defaultdict(set)
    for view in views:
        clients |= {member.member_id: member.client_id or "" for member in view.members}
        for item in view.evidence:
            for member_id in item.member_ids:
                kinds[clients[member_id]].add(item.kind)
    return kinds


def assert_log_names_causes(views: Iterable[GroupObserved]) -> None:
    """Check the evidence from the coordinator's log for the members of :func:`end_two_members`."""
    kinds = kinds_of_evidence(views)
    assert {"member.joined", "member.left"} <= kinds["leave"]
    assert {"member.joined", "member.fenced"} <= kinds["crash"]
    assert "member.fenced" not in kinds["leave"]


def test_causes_come_from_coordinator_log_and_commits(broker: Kafka, topic: str, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    classic, modern = unique_name("classic"), unique_name("consumer")
    with ExitStack() as stack:
        for group, config in ((classic, COOPERATIVE), (modern, CONSUMER)):
            stack.enter_context(end_two_members(servers, group, topic, config))
        (tmp_path / "server.log").write_text(broker.log_text())
        pattern = f"{classic}|{modern}"
        logged = stack.enter_context(
            CollectorProcess(servers, pattern, "--coordinator-log", str(tmp_path / "server.log"))
        )
        collector_without_log = stack.enter_context(CollectorProcess(servers, pattern))
        for collecting in (logged, collector_without_log):
            for group in (classic, modern):
                eventually(lambda: [*(collecting.members(group) or ())] == ["stay"])  # noqa: B023 - called at once

    for group in (classic, modern):
        assert_log_names_causes(logged.views(group))
    kinds = kinds_of_evidence(collector_without_log.views(classic))
    assert kinds == {"leave": {"member.left"}, "crash": {"member.fenced"}}
    # This broker allows sessions of 1 s, with heartbeats 15 s apart: commits prove nothing.
    kinds = kinds_of_evidence(collector_without_log.views(modern))
    assert kinds == {"leave": {"group.observed"}, "crash": {"group.observed"}}


def test_one_join_under_kip_848_is_three_rounds_of_one_rebalance(broker: Kafka, topic: str, tmp_path: Path) -> None:
    group, servers, log = unique_name("group"), broker.bootstrap_servers, tmp_path / "server.log"
    with Member(servers, group, "a", [topic], **CONSUMER) as a:
        eventually(lambda: share_all_partitions([a], 6))
        with Member(servers, group, "b", [topic], **CONSUMER) as b:
            eventually(lambda: share_all_partitions([a, b], 6))
            final = {member.name: member.owned for member in (a, b)}
            log.write_text(broker.log_text())
            with CollectorProcess(servers, group, "--coordinator-log", str(log)) as collecting:
                eventually(lambda: collecting.members(group) == final)
                assert collecting.stop() == 0

    views = collecting.views(group)
    epoch = views[-1].group_epoch
    steps = [view for view in views if view.group_epoch == epoch]
    assert all([item.kind for item in step.evidence] == ["member.joined"] for step in steps)
    rounds = [diff for diff in diffs(play(collecting.events(group))[1]) if diff.group_epoch == epoch]
    [leaving_member_id] = [member.member_id for member in views[-1].members if member.client_id == "b"]
    assert [(diff.round, diff.cause.kind, diff.cause.member_ids) for diff in rounds] == [
        (number, "member.joined", [leaving_member_id]) for number in (1, 2, 3)
    ]


def test_kip_848_leave_is_certain_where_sessions_are_bounded() -> None:
    group = unique_name("group")
    # Sessions are at least 3 s here, and heartbeats at most 500 ms apart.
    bounds = {"group.consumer.min.session.timeout.ms": "3000", "group.consumer.max.heartbeat.interval.ms": "500"}
    with ExitStack() as stack:
        servers = stack.enter_context(
            EmbeddedBroker(properties=PROPERTIES | LONG_BROKER_SESSION | bounds)
        ).bootstrap_servers
        topic = stack.enter_context(topic_with_writer(servers))
        collecting = stack.enter_context(CollectorProcess(servers, group))
        stay = stack.enter_context(Member(servers, group, "stay", [topic], **CONSUMER))
        eventually(lambda: share_all_partitions([stay], 6))
        leave = Member(servers, group, "leave", [topic], **CONSUMER)
        eventually(lambda: share_all_partitions([stay, leave], 6))
        eventually(lambda: len(collecting.members(group) or ()) == 2)
        await_commit(servers, group, leave)
        leave.close()
        eventually(lambda: share_all_partitions([stay], 6))
        crash = Member(servers, group, "crash", [topic], **CONSUMER)
        eventually(lambda: share_all_partitions([stay, crash], 6))
        await_commit(servers, group, crash)
        crash.crash()
        eventually(lambda: share_all_partitions([stay], 6))
        eventually(lambda: [*(collecting.members(group) or ())] == ["stay"])
        assert collecting.stop() == 0
        ends = [item for view in collecting.views(group) for item in view.evidence]

    assert [item.kind for item in ends] == ["member.left", "group.observed"]
    assert "can't have run out within 2500 ms" in ends[0].reason
