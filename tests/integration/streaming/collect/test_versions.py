"""Tests of both collectors and the log reader with older Kafka releases; other tests use the newest release."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from streaming.kafka.broker import EmbeddedBroker
from tests.integration.streaming.collect.collector_process import CollectorProcess, topic_with_writer
from tests.integration.streaming.collect.test_evidence import await_commit
from tests.support.kafka import PROPERTIES, eventually, unique_name
from tests.support.members import CONSUMER, COOPERATIVE, Member, share_all_partitions

pytestmark = [pytest.mark.broker, pytest.mark.full]


@pytest.mark.parametrize(
    ("version", "configs"),
    [
        *((version, [COOPERATIVE]) for version in ("3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.1")),
        *((version, [COOPERATIVE, CONSUMER]) for version in ("4.0.2", "4.1.1", "4.2.0")),
    ],
    ids=lambda parameter: parameter if isinstance(parameter, str) else "",
)
def test_each_kafka_gives_the_members_shares(tmp_path: Path, version: str, configs: list[dict[str, Any]]) -> None:
    groups = [unique_name("group") for _ in configs]
    pattern, log = "|".join(groups), tmp_path / "server.log"
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(version=version, properties=PROPERTIES))
        servers = broker.bootstrap_servers
        topic = stack.enter_context(topic_with_writer(servers))
        polling = stack.enter_context(CollectorProcess(servers, pattern, "--by", "polling"))
        for group, config in zip(groups, configs, strict=True):
            stay = stack.enter_context(Member(servers, group, "stay", [topic], **config))
            eventually(lambda: share_all_partitions([stay], 6))  # noqa: B023 - called at once
            leave = Member(servers, group, "leave", [topic], **config)
            eventually(lambda: share_all_partitions([stay, leave], 6))  # noqa: B023 - called at once
            await_commit(servers, group, leave)
            leave.close()
            eventually(lambda: share_all_partitions([stay], 6))  # noqa: B023 - called at once
            crash = stack.enter_context(Member(servers, group, "crash", [topic], **config))
            eventually(lambda: share_all_partitions([stay, crash], 6))  # noqa: B023 - called at once
            await_commit(servers, group, crash)
            crash.crash()
            eventually(lambda: share_all_partitions([stay], 6))  # noqa: B023 - called at once
        log.write_text(broker.log_path.read_text())
        logged = stack.enter_context(CollectorProcess(servers, pattern, "--coordinator-log", str(log)))
        for collector in (logged, polling):
            for group in groups:
                eventually(lambda: [*(collector.members(group) or ())] == ["stay"])  # noqa: B023 - called at once
        assert [collector.stop() for collector in (logged, polling)] == [0, 0]
        snapshots_by_group = {group: (logged.views(group), polling.views(group)) for group in groups}

    for group, (views, polled) in snapshots_by_group.items():
        reasons: dict[str, set[str | None]] = {}
        clients: dict[str, str | None] = {}
        for view in views:
            clients |= {member.member_id: member.client_id for member in view.members}
            for item in view.evidence:
                for member_id in item.member_ids:
                    reasons.setdefault(clients[member_id] or "", set()).add(item.kind)
        assert {"member.joined", "member.left"} <= reasons["leave"], group
        assert {"member.joined", "member.fenced"} <= reasons["crash"], group
        assert "member.fenced" not in reasons["leave"], group
        shares = [{member.client_id: member.assigned for member in view.members} for view in views]
        stable_shares = [
            {member.client_id: member.assigned for member in view.members}
            for view in polled
            if view.state in ("Stable", "Empty")
        ]
        assert [share for share in stable_shares if share not in shares] == [], group
