"""A collector that is killed, replaced by another collector, or left without its broker."""

import os
import threading
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from streaming.kafka.broker import EmbeddedBroker
from streaming.records.events import GroupObserved, PartitionsChanged
from tests.integration.streaming.collect.collector_process import (
    CollectorProcess,
    snapshot_generations,
    topic_with_writer,
)
from tests.support.command import RunningCommand
from tests.support.kafka import PROPERTIES, Kafka, eventually, unique_name
from tests.support.members import CONSUMER, COOPERATIVE, EAGER, Member, share_all_partitions

pytestmark = pytest.mark.broker

KILL_COUNT = int(os.environ.get("COLLECT_KILLS", "2"))


@pytest.mark.long
def test_killed_collector_publishes_the_same_as_undisturbed_one(broker: Kafka, topic: str) -> None:
    servers, groups = broker.bootstrap_servers, [unique_name("classic"), unique_name("consumer")]
    done = threading.Event()

    def join_and_leave(group: str, config: dict[str, Any]) -> None:
        with Member(servers, group, "stay", [topic], **config) as stay:
            for _ in range(2 * KILL_COUNT):
                with Member(servers, group, "visitor", [topic], **config) as visiting_member:
                    eventually(lambda: share_all_partitions([stay, visiting_member], 6))
                eventually(lambda: share_all_partitions([stay], 6))

    membership_threads = [
        threading.Thread(target=join_and_leave, args=pair) for pair in zip(groups, (COOPERATIVE, CONSUMER), strict=True)
    ]
    pattern = "|".join(groups)
    with CollectorProcess(servers, pattern) as collecting:
        for thread in membership_threads:
            thread.start()
        for seconds in islice(cycle((2.9, 0.7, 4.0, 3.5, 4.2, 3.6)), KILL_COUNT):
            done.wait(seconds)  # the kill may happen at any moment
            collecting.kill()
            collecting.start()
        for thread in membership_threads:
            thread.join()
        with CollectorProcess(servers, pattern) as undisturbed_collector:
            for group in groups:
                eventually(lambda: undisturbed_collector.members(group) == {})  # noqa: B023 - called at once
                eventually(lambda: collecting.members(group) == {})  # noqa: B023 - called at once
            assert undisturbed_collector.stop() == 0
        assert collecting.stop() == 0

    for group in groups:
        wanted = [event for event in undisturbed_collector.events(group) if isinstance(event.data, GroupObserved)]
        assert [event for event in collecting.events(group) if isinstance(event.data, GroupObserved)] == wanted
        assert len(wanted) > 4 * KILL_COUNT
    changes = [event.data for event in collecting.events() if isinstance(event.data, PartitionsChanged)]
    assert sorted(data.group_id for data in changes) == sorted(groups)
    contents: dict[bytes, set[bytes]] = {}
    for message in collecting.read(isolation_level="read_uncommitted"):
        contents.setdefault(dict(message.headers())["ce_id"], set()).add(message.value())
    assert {ce_id: len(values) for ce_id, values in contents.items() if len(values) > 1} == {}


def test_a_second_collector_takes_over_and_the_first_ends(broker: Kafka, topic: str, tmp_path: Path) -> None:
    group, servers = unique_name("group"), broker.bootstrap_servers
    with CollectorProcess(servers, group) as first, Member(servers, group, "a", [topic], **EAGER) as a:
        eventually(lambda: share_all_partitions([a], 6) and first.views(group))
        with RunningCommand(log=tmp_path / "second.log") as second:
            second.command = first.command
            second.start()
            eventually(lambda: "following" in second.output())
            with Member(servers, group, "b", [topic], **EAGER):
                eventually(lambda: len(first.members(group) or ()) == 2)
                assert first.ended() == 3
            assert second.stop() == 0


def test_both_collectors_wait_for_a_restarting_broker() -> None:
    group = unique_name("group")
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(properties=PROPERTIES))
        servers = broker.bootstrap_servers
        topic = stack.enter_context(topic_with_writer(servers))
        collecting = stack.enter_context(CollectorProcess(servers, group))
        polling = stack.enter_context(CollectorProcess(servers, group, "--by", "polling"))

        def await_agreement(members: int) -> None:
            """Wait until both collectors have published the same assignment for this many members."""
            eventually(lambda: len(collecting.members(group) or ()) == members)
            eventually(lambda: polling.members(group) == collecting.members(group))

        stack.enter_context(Member(servers, group, "a", [topic], **EAGER))
        await_agreement(1)
        broker.restart()
        with Member(servers, group, "b", [topic], **EAGER):
            await_agreement(2)
            broker.kill()
            broker.start()
        await_agreement(1)
        generations, counted = (snapshot_generations(collector.views(group)) for collector in (collecting, polling))
        kinds = {event.type for event in polling.events(group)}
        assert (collecting.stop(), polling.stop()) == (0, 0)

    assert generations == sorted(set(generations))
    assert counted == sorted(set(counted))
    assert counted[-1] <= generations[-1]
    assert kinds - {"group.rebalancing"} == {"group.observed", "topic.partitions_changed"}
