"""The monitor shows real groups as stable after a change, stuck in a rebalance, or without the members of a host."""

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from streaming.episodes.incidents import LIMITS
from streaming.records.episodes import Incident
from streaming.records.events import CLUSTER
from tests.integration.streaming.collect.collector_process import CollectorProcess
from tests.integration.streaming.collect.test_rebalances_in_progress import start_idle_poller
from tests.support.kafka import Kafka, eventually, unique_name
from tests.support.live_stream import LiveStream
from tests.support.members import CONSUMER, COOPERATIVE, EAGER, Member, share_all_partitions

pytestmark = [pytest.mark.broker, pytest.mark.full]

Record = Callable[[str, object], None]
#: Seconds within which readers must see the begin and the end of a problem.
_MAX_NOTICE_SECONDS = 3.0
#: Seconds within which a healthy group is stable after its last round.
_STABLE_SECONDS = 2.0
_GROUPS = 10
_HOSTS = ("127.0.0.2", "127.0.0.3")


#: Changes of each protocol whose time to stable is measured.
_CHANGE_COUNT = 6


def newest(view: LiveStream, group: str) -> Incident | None:
    return next(iter(view.incidents(group)), None)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_rebalance_past_the_threshold_opens_and_closes(
    broker: Kafka, topic: str, protocol: str, record_property: Record
) -> None:
    group, servers = unique_name("group"), broker.bootstrap_servers
    collecting = CollectorProcess(servers, group)
    with (
        LiveStream(collecting.settings) as view,
        collecting,
        start_idle_poller(servers, group, topic, group_protocol=protocol) as slow,
    ):
        slow.poll_until_assigned()
        eventually(lambda: collecting.views(group))
        with start_idle_poller(servers, group, topic, group_protocol=protocol) as new:
            new.consumer.poll(0)
            began = time.time()
            eventually(lambda: newest(view, group))
            opened = time.time() - began
            incident = newest(view, group)
            assert incident is not None
            assert (incident.kind, incident.member_ids) == ("rebalance-stuck", [slow.member_id])

            def is_assigned() -> bool:
                slow.consumer.poll(0.1)
                new.consumer.poll(0.1)
                return bool(slow.consumer.assignment() and new.consumer.assignment())

            eventually(is_assigned)
            ended = time.time()

            def is_closed() -> bool:
                is_assigned()
                closed = newest(view, group)
                return closed is not None and closed.status == "closed"

            eventually(is_closed)
            record_property("seconds from the join to the incident", round(opened, 1))
            record_property("seconds from the last assignment to its end", round(time.time() - ended, 1))
            assert time.time() - ended < _MAX_NOTICE_SECONDS
            assert abs(opened - LIMITS.rebalance_stuck_ms / 1000) < _MAX_NOTICE_SECONDS


def test_killed_host_of_ten_groups_is_one_mass_restart(broker: Kafka, topic: str, record_property: Record) -> None:
    prefix, servers = unique_name("fleet"), broker.bootstrap_servers
    groups = [f"{prefix}-{number}" for number in range(_GROUPS)]
    collecting = CollectorProcess(servers, f"{prefix}-.*")
    with LiveStream(collecting.settings) as view, collecting, ExitStack() as stack:
        members = {
            (group, host): stack.enter_context(
                Member(servers, group, f"app-{host}", [topic], client="kafka-python", host=host)
            )
            for group in groups
            for host in _HOSTS
        }
        eventually(lambda: all(member.owned for member in members.values()))
        eventually(lambda: all(len(collecting.members(group)) == len(_HOSTS) for group in groups))
        began = time.time()
        for group in groups:
            members[group, _HOSTS[0]].crash()
        eventually(lambda: view.incidents(CLUSTER))
        record_property("seconds from the kills to the incident", round(time.time() - began, 1))
        eventually(
            lambda: all(m.owned == {topic: [*range(6)]} for (_, host), m in members.items() if host == _HOSTS[1])
        )
        [incident] = view.incidents(CLUSTER)
        record_property("story", incident.story)
        assert (incident.kind, sorted(incident.groups)) == ("mass-restart", groups)
        assert _HOSTS[0] in incident.story


@pytest.mark.parametrize("options", [EAGER, COOPERATIVE, CONSUMER], ids=["eager", "cooperative", "consumer"])
def test_healthy_change_is_stable_after_its_last_round(
    broker: Kafka, topic: str, options: dict[str, Any], record_property: Record
) -> None:
    group, servers = unique_name("group"), broker.bootstrap_servers
    collecting = CollectorProcess(servers, group)
    delays: list[float] = []

    def is_stable() -> bool:
        episode = view.episodes(group)[-1]
        return episode.rebalancing is None and not episode.waiting_for

    with LiveStream(collecting.settings) as view, collecting, Member(servers, group, "a", [topic], **options) as stay:
        eventually(lambda: share_all_partitions([stay], 6) and view.episodes(group))
        for number in range(_CHANGE_COUNT // 2):
            with Member(servers, group, f"b{number}", [topic], **options) as new:
                delays.append(
                    seconds_to_stable(view, group, lambda new=new: share_all_partitions([stay, new], 6), is_stable)
                )
            delays.append(seconds_to_stable(view, group, lambda: share_all_partitions([stay], 6), is_stable))
    record_property("seconds from the last round to stable", [round(delay, 2) for delay in delays])
    assert statistics.median(delays) < _STABLE_SECONDS


def seconds_to_stable(
    view: LiveStream, group: str, is_whole: Callable[[], bool], is_stable: Callable[[], bool]
) -> float:
    """Wait until the members have their partitions and the group is stable; return the time from its last round."""
    eventually(is_whole)
    eventually(lambda: len(view.current_partitions(group)) and is_stable() and shares_agree(view, group))
    return time.time() - view.rounds(group)[-1].timestamp / 1000


def shares_agree(view: LiveStream, group: str) -> bool:
    """Return true if the latest assignment has all six partitions."""
    return sum(len(numbers) for share in view.current_partitions(group).values() for numbers in share.values()) == 6
