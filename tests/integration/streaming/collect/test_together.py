"""One scenario, followed by the collector by offsets and by polling: into one topic, and by polling alone."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import pytest

from streaming.collect.polling.group import LIMITS
from streaming.monitor.group import apply
from streaming.monitor.rendering import DiffOutput
from streaming.monitor.state import GroupState
from streaming.wire.events import Diff, Event, GroupObserved
from tests.integration.streaming.collect.collecting import Collecting
from tests.support.kafka import Kafka, eventually, unique
from tests.support.members import CONSUMER, COOPERATIVE, Member, Share, spread

pytestmark = pytest.mark.broker

View = dict[str, Share]


def view(data: GroupObserved) -> View:
    """Client id → what it owns."""
    return {
        one.client_id or "": {topic: numbers for topic, numbers in one.assigned.items() if numbers}
        for one in data.members
    }


def is_polled(event: Event) -> bool:
    return isinstance(event.data, GroupObserved) and event.data.polled


def at_rest(events: Iterable[Event]) -> list[View]:
    """What a group's members owned whenever it was at rest, repetitions left out."""
    found: list[View] = []
    for event in events:
        data = event.data
        if isinstance(data, GroupObserved) and (data.state or "Stable") in ("Stable", "Empty"):
            found += [view(data)] if found[-1:] != [view(data)] else []
    return found


def diffs(events: Iterable[Event]) -> list[Diff]:
    """What the stream makes of a group's events."""
    state: GroupState | None = None
    found: list[Diff] = []
    for event in events:
        state, outputs = apply(state, event)
        found += [one.diff for one in outputs if isinstance(one, DiffOutput)]
    return found


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(COOPERATIVE, id="cooperative"),
        pytest.param(CONSUMER, id="consumer", marks=pytest.mark.full),
    ],
)
def test_together_they_tell_what_the_one_by_offsets_tells_and_polling_agrees_on_what_it_saw(
    broker: Kafka, topic: str, config: dict[str, Any]
) -> None:
    group, servers = unique("group"), broker.bootstrap_servers
    offsets = Collecting(servers, group)
    beside = Collecting(servers, group, "--by", "polling", "--topic-prefix", offsets.settings.topics.prefix)
    beside.environment = {"REBALANCE_MONITOR_COLLECT__GROUP_ID": "beside"}
    alone = Collecting(servers, group, "--by", "polling")

    def agree(*members: Member) -> None:
        eventually(lambda: spread([*members], 6))
        owned = {one.name: one.owned for one in members}
        for one in (offsets, alone):
            eventually(lambda: one.members(group) == owned, timeout=60)  # noqa: B023 - called at once

    with ExitStack() as stack:
        for one in (offsets, beside, alone):
            stack.enter_context(one)
        with Member(servers, group, "a", [topic], **config) as a:
            agree(a)
            with Member(servers, group, "b", [topic], **config) as b:
                agree(a, b)
            agree(a)
            with Member(servers, group, "c", [topic], **config) as c:
                agree(a, c)
        for one in (offsets, alone):
            eventually(lambda: one.members(group) == {}, timeout=60)  # noqa: B023 - called at once
        assert [one.stop() for one in (offsets, beside, alone)] == [0, 0, 0]

    together, seen = offsets.events(group), alone.events(group)
    told = [event for event in together if not is_polled(event)]
    # Both may tell of a group that is new to them; from then on polling has nothing to add.
    assert len(together) - len(told) <= 1
    assert at_rest(together) == at_rest(told)
    assert [diff.members for diff in diffs(together)] == [diff.members for diff in diffs(told)]
    # Alone it tells no state that there was not, in their order, and what it can't tell.
    states = iter(at_rest(told))
    assert all(state in states for state in at_rest(seen))
    assert all(e.data.evidence[0].reason == LIMITS for e in seen if isinstance(e.data, GroupObserved))
