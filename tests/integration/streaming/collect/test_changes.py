"""Groups told by what changed, on a real broker: put together they are what the callbacks of consumers report."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from streaming.wire import codec
from streaming.wire.events import Event, GroupAsked, GroupChanged, GroupObserved
from streaming.wire.followed import Followed
from tests.integration.streaming.collect.collecting import Collecting, owned_by
from tests.support.kafka import Kafka, eventually, unique
from tests.support.members import CONSUMER, Member, spread

pytestmark = [pytest.mark.broker, pytest.mark.cluster]


def views(collecting: Collecting, group: str) -> list[GroupObserved]:
    """Every view in full; each change follows from the view before."""
    followed, found = Followed(), []
    for event in collecting.events(group):
        whole = followed.whole(event)
        assert whole is not None, event
        if isinstance(whole.data, GroupObserved):
            found.append(whole.data)
    return found


def changes(collecting: Collecting, group: str) -> list[GroupChanged]:
    return [event.data for event in collecting.events(group) if isinstance(event.data, GroupChanged)]


def test_changes_of_real_members_a_restart_and_a_question(
    broker: Kafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REBALANCE_MONITOR_COLLECT__CHANGES_FROM", "2")
    group, servers = unique("group"), broker.bootstrap_servers
    collecting = Collecting(servers, group)

    def member(name: str) -> Member:
        return Member(servers, group, name, [topic], **CONSUMER)

    def told(*members: Member) -> bool:
        seen = views(collecting, group)
        shares = {one.name: one.owned for one in members}
        return bool(seen) and shares == {
            one.client_id: owned_by(seen[-1], one.client_id) for one in seen[-1].members
        }

    with member("a") as a, member("b") as b:
        with collecting:
            eventually(lambda: spread([a, b], 6))
            with member("c") as c:
                eventually(lambda: spread([a, b, c], 6))
                eventually(lambda: told(a, b, c))
                assert changes(collecting, group)
            eventually(lambda: spread([a, b], 6))
            eventually(lambda: told(a, b))
            before = len(views(collecting, group))
            asked = GroupAsked(group_id=group, timestamp=1, after="0:0")
            key, value, headers = codec.encode_event(Event("a reader", "1", asked))
            producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
            producer.produce(collecting.settings.topics.membership, value, key, headers=headers)
            assert producer.flush(30) == 0
            eventually(
                lambda: len(views(collecting, group)) == before + 1 or not _is_change(collecting, group)
            )
            assert collecting.stop() == 0
        with collecting, member("d") as d:
            eventually(lambda: spread([a, b, d], 6))
            eventually(lambda: told(a, b, d))
            assert collecting.stop() == 0


def _is_change(collecting: Collecting, group: str) -> bool:
    """Whether the last view that was told was a change: only then a question is answered."""
    told = [e for e in collecting.events(group) if isinstance(e.data, GroupObserved | GroupChanged)]
    return isinstance(told[-1].data, GroupChanged)
