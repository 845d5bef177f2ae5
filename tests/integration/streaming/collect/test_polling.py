"""The polling collector on a real broker: its snapshots of a stable group agree with the consumers' callbacks."""

import itertools
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from streaming.collect.polling.group import UNAVAILABLE_EVIDENCE
from streaming.records.events import GroupDeleted, GroupObserved
from tests.integration.streaming.collect.collector_process import CollectorProcess
from tests.support.kafka import Kafka, eventually, unique_name
from tests.support.members import CONSUMER, COOPERATIVE, EAGER, Member, share_all_partitions

pytestmark = [pytest.mark.broker, pytest.mark.cluster]


def number(view: GroupObserved) -> int:
    number = view.group_epoch if view.group_protocol == "consumer" else view.generation
    assert number is not None
    return number


@pytest.mark.parametrize(
    ("config", "static"),
    [
        pytest.param(COOPERATIVE, False, id="cooperative"),
        pytest.param(CONSUMER, False, id="consumer"),
        pytest.param(EAGER, True, id="static", marks=pytest.mark.full),
        pytest.param(CONSUMER, True, id="consumer-static", marks=pytest.mark.full),
    ],
)
def test_members_join_and_leave_and_restart_repeats_no_event(
    broker: Kafka, topic: str, config: dict[str, Any], static: bool
) -> None:
    group, servers = unique_name("group"), broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    collecting = CollectorProcess(servers, group, "--by", "polling")
    collecting.environment = {"REBALANCE_MONITOR_COLLECT__POLL_QUICK_MS": "100"}

    def member(name: str) -> Member:
        instance = f"{group}-{name}" if static else None
        return Member(servers, group, name, [topic], **config, instance_id=instance)

    def await_agreement(*members: Member) -> None:
        """Wait until the members' partitions equal those in the published snapshot."""
        eventually(lambda: share_all_partitions([*members], 6))
        eventually(lambda: collecting.members(group) == {member.name: member.owned for member in members})

    with collecting, member("a") as a:
        await_agreement(a)
        b = member("b")
        await_agreement(a, b)
        b.close()
        if static:
            b = member("b")
            await_agreement(a, b)
        else:
            await_agreement(a)
        assert collecting.stop() == 0
        before = collecting.events(group)
        collecting.start()
        with member("c") as c:
            await_agreement(a, *([b] if static else []), c)
            if static:
                b.close()
            assert collecting.stop() == 0

        events = collecting.events(group)
        assert events[: len(before)] == before
        assert len({event.id for event in events}) == len(events)
        views = [event.data for event in events if isinstance(event.data, GroupObserved)]
        numbers = [number(view) for view in views]
        assert numbers == sorted(numbers)
        assert all(view.evidence[0].reason == UNAVAILABLE_EVIDENCE for view in views)
        assert all(step - last in (0, 1) for last, step in itertools.pairwise(numbers))
        # No event is published twice, even after a restart.
        states = [(number(view), view.state, view.members) for view in views]
        assert all(before != after for before, after in itertools.pairwise(states))
    if static:
        return  # the members' sessions end later
    with collecting:
        eventually(lambda: collecting.members(group) == {})
        admin.delete_consumer_groups([group])[group].result()
        eventually(lambda: isinstance(collecting.events(group)[-1].data, GroupDeleted))
        assert collecting.stop() == 0
