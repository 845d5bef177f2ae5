"""A collector by offsets and one by polling publish a group into one topic; a third collector polls alone."""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from streaming.collect.polling.group import UNAVAILABLE_EVIDENCE
from streaming.freshness import decode_heartbeat
from streaming.records.events import Event, GroupObserved
from tests.integration.streaming.collect.collector_process import CollectorProcess
from tests.support.kafka import Kafka, eventually, unique_name
from tests.support.members import CONSUMER, COOPERATIVE, Member, Share, share_all_partitions

pytestmark = pytest.mark.broker

MemberShares = dict[str, Share]


def view(data: GroupObserved) -> MemberShares:
    """Return the partitions of each client in a snapshot, by client id."""
    return {
        member.client_id or "": {topic: numbers for topic, numbers in member.assigned.items() if numbers}
        for member in data.members
    }


def is_polled(event: Event) -> bool:
    return isinstance(event.data, GroupObserved) and event.data.polled


def at_rest(events: Iterable[Event]) -> list[MemberShares]:
    views: list[MemberShares] = []
    for event in events:
        data = event.data
        if isinstance(data, GroupObserved) and (data.state or "Stable") in ("Stable", "Empty"):
            views += [view(data)] if views[-1:] != [view(data)] else []
    return views


def last_polled_ms(collecting: CollectorProcess) -> int:
    records = collecting.read(collecting.settings.topics.signs)
    heartbeats = [decode_heartbeat(record.key(), record.value()) for record in records]
    return max((heartbeat.up_to for heartbeat in heartbeats if heartbeat.by == "polling"), default=0)


@pytest.mark.parametrize(
    "config",
    [pytest.param(COOPERATIVE, id="cooperative"), pytest.param(CONSUMER, id="consumer", marks=pytest.mark.full)],
)
def test_offsets_and_polling_collectors_publish_the_same_rounds(
    broker: Kafka, topic: str, config: dict[str, Any], tmp_path: Path
) -> None:
    group, servers = unique_name("group"), broker.bootstrap_servers
    offsets, first_polling = CollectorProcess(servers, group), CollectorProcess(servers, group, "--by", "polling")
    prefix = offsets.settings.topics.prefix
    second_polling = CollectorProcess(
        servers, group, "--by", "polling", "--topic-prefix", prefix, log=tmp_path / "beside"
    )
    second_polling.environment = {"REBALANCE_MONITOR_COLLECT__GROUP_ID": "beside"}

    def await_agreement(*members: Member) -> None:
        eventually(lambda: share_all_partitions([*members], 6))
        owned = {member.name: member.owned for member in members}
        for collector in (offsets, first_polling):
            eventually(lambda: collector.members(group) == owned)  # noqa: B023 - called at once

    with ExitStack() as stack:
        for collector in (offsets, first_polling):
            stack.enter_context(collector)
        with Member(servers, group, "a", [topic], **config) as a:
            await_agreement(a)
            # Both collectors may publish a new group; the polling collector stops once it has read the other
            # collector's event.
            stack.enter_context(second_polling)
            eventually(lambda: "polling groups" in second_polling.output())
            with Member(servers, group, "b", [topic], **config) as b:
                await_agreement(a, b)
            await_agreement(a)
            with Member(servers, group, "c", [topic], **config) as c:
                await_agreement(a, c)
        for collector in (offsets, first_polling):
            eventually(lambda: collector.members(group) == {})  # noqa: B023 - called at once
        last = offsets.views(group)[-1].timestamp
        eventually(lambda: last_polled_ms(offsets) > last)
        assert [collector.stop() for collector in (offsets, second_polling, first_polling)] == [0, 0, 0]

    events, polled_events = offsets.events(group), first_polling.events(group)
    assert [event for event in events if is_polled(event)] == [], second_polling.output()
    # Polling alone publishes only real states, in order, and reports what polling can't observe.
    states = iter(at_rest(events))
    assert all(state in states for state in at_rest(polled_events))
    assert all(
        e.data.evidence[0].reason == UNAVAILABLE_EVIDENCE for e in polled_events if isinstance(e.data, GroupObserved)
    )
