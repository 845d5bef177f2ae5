"""Tests of both collectors and the log reader with older Kafka releases; other tests use the newest release."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from streaming.kafka.broker import EmbeddedBroker
from tests.integration.streaming.collect.collector_process import CollectorProcess, topic_with_writer
from tests.integration.streaming.collect.test_evidence import assert_log_names_causes, end_two_members
from tests.support.kafka import PROPERTIES, eventually, unique_name
from tests.support.members import CONSUMER, COOPERATIVE

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
            stack.enter_context(end_two_members(servers, group, topic, config))
        log.write_text(broker.log_path.read_text())
        logged = stack.enter_context(CollectorProcess(servers, pattern, "--coordinator-log", str(log)))
        for collector in (logged, polling):
            for group in groups:
                eventually(lambda: [*(collector.members(group) or ())] == ["stay"])  # noqa: B023 - called at once
        assert [collector.stop() for collector in (logged, polling)] == [0, 0]
        snapshots_by_group = {group: (logged.views(group), polling.views(group)) for group in groups}

    for group, (views, polled) in snapshots_by_group.items():
        assert_log_names_causes(views)
        shares = [{member.client_id: member.assigned for member in view.members} for view in views]
        stable_shares = [
            {member.client_id: member.assigned for member in view.members}
            for view in polled
            if view.state in ("Stable", "Empty")
        ]
        assert [share for share in stable_shares if share not in shares] == [], group
