"""The collector on a real broker: the published events agree with the consumers' own callbacks."""

from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from streaming.records.events import GroupDeleted, PartitionsChanged
from tests.integration.streaming.collect.collector_process import (
    CollectorProcess,
    share_of_client,
    snapshot_generations,
)
from tests.support.kafka import Kafka, eventually, unique_name
from tests.support.members import CONSUMER, COOPERATIVE, EAGER, Member, Share, share_all_partitions
from tests.support.topics import grow_topic

pytestmark = [pytest.mark.broker, pytest.mark.cluster]

ASSIGNORS = {"eager": "range", "cooperative": "cooperative-sticky"}


def has_reports_in_order(expected: list[Share], reports: list[Share]) -> bool:
    """Return true if ``reports`` contains the expected assignments in this order, possibly with others between them."""
    left = iter(reports)
    return all(state in left for state in expected)


def distinct(states: list[Share | None]) -> list[Share]:
    """Return the list without None and without consecutive repeats."""
    shares: list[Share] = []
    for state in states:
        if state is not None and (not shares or shares[-1] != state):
            shares.append(state)
    return shares


@pytest.mark.parametrize(
    ("config", "static"),
    [
        pytest.param(EAGER, False, id="eager"),
        pytest.param(COOPERATIVE, False, id="cooperative", marks=pytest.mark.full),
        pytest.param(COOPERATIVE, True, id="static"),
        pytest.param(CONSUMER, False, id="consumer"),
        pytest.param(CONSUMER, True, id="consumer-static", marks=pytest.mark.full),
    ],
)
def test_collected_rounds_equal_the_callbacks(broker: Kafka, topic: str, config: dict[str, Any], static: bool) -> None:
    group, servers = unique_name("group"), broker.bootstrap_servers

    def member(name: str) -> Member:
        instance = f"{group}-{name}" if static else None
        return Member(servers, group, name, [topic], **config, instance_id=instance)

    with CollectorProcess(servers, group) as collecting:
        with member("a") as a:
            eventually(lambda: share_all_partitions([a], 6))
            b = member("b")
            eventually(lambda: share_all_partitions([a, b], 6))
            c = member("c")
            eventually(lambda: share_all_partitions([a, b, c], 6))
            b.close()
            if static:
                b = member("b")
                eventually(lambda: share_all_partitions([a, b, c], 6))
            else:
                eventually(lambda: share_all_partitions([a, c], 6))
            final = {member.name: member.owned for member in ([a, b, c] if static else [a, c])}
            eventually(lambda: collecting.members(group) == final)
            views = collecting.views(group)
            if static:
                b.close()
            c.close()
        assert collecting.stop() == 0

    for remaining_member in (a, c):
        assert has_reports_in_order(
            distinct([share_of_client(view, remaining_member.name) for view in views]), [{}, *remaining_member.reports]
        )
    ids = [event.id for event in collecting.events(group)]
    assert len(ids) == len(set(ids))
    if config is not CONSUMER:
        generations = snapshot_generations(views)
        # When a static member rejoins, the same generation is written again.
        assert sorted(set(generations)) == list(range(1, max(generations) + 1))
        assert static or len(generations) == len(set(generations))
        assert {view.protocol for view in views} == {ASSIGNORS[config["protocol"]]}
    else:
        assert [view.group_epoch for view in views] == sorted(view.group_epoch or 0 for view in views)


def test_collected_shares_equal_those_of_kafka_python_members(broker: Kafka, topic: str) -> None:
    group, servers = unique_name("group"), broker.bootstrap_servers
    config = {"client": "kafka-python"}
    with CollectorProcess(servers, group) as collecting:
        with Member(servers, group, "a", [topic], **config) as a:
            eventually(lambda: any(map(len, a.generations.values())))
            with Member(servers, group, "b", [topic], **config) as b:
                eventually(lambda: any(map(len, b.generations.values())))
            eventually(lambda: sum(map(len, a.generations[max(a.generations)].values())) == 6)
            last = max(a.generations)
            eventually(lambda: last in snapshot_generations(collecting.views(group)))
        assert collecting.stop() == 0

    views = {view.generation: view for view in collecting.views(group)}
    for member in (a, b):
        collected_shares = {number: share_of_client(views[number], member.name) for number in member.generations}
        assert collected_shares == member.generations


def test_added_partitions_and_deleted_group_give_events(broker: Kafka, topic: str) -> None:
    group, servers = unique_name("group"), broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    with CollectorProcess(servers, group) as collecting:
        with Member(servers, group, "a", [topic], **COOPERATIVE) as a:
            eventually(lambda: share_all_partitions([a], 6) and collecting.members(group))
            grow_topic(servers, topic, 8)
            eventually(lambda: share_all_partitions([a], 8))
        eventually(lambda: collecting.members(group) == {})
        admin.delete_consumer_groups([group])[group].result()
        eventually(lambda: isinstance(collecting.events(group)[-1].data, GroupDeleted))
        assert collecting.stop() == 0

    events = collecting.events(group)
    counts = [e.data.topics[topic].partitions for e in events if isinstance(e.data, PartitionsChanged)]
    assert counts == [6, 8]
    assert isinstance(events[0].data, PartitionsChanged)
    assert events[0].data.topics[topic].topic_id
