"""A restart in a group of hundreds, from the coordinator's records to diffs: as many rounds as in a small group."""

from __future__ import annotations

from random import Random

import pytest

from streaming.collect.fold import Fold, Found, Row
from streaming.wire.diffs import Diff
from streaming.wire.events import Event
from tests.support.coordinated import Coordinated, topic_ids
from tests.support.histories import Log, diffs, holds, play

#: Partitions of each member, one of each topic.
SHARE = 10


def restarted(members: int) -> list[Diff]:
    """The diffs of a group that is seen whole, and then one of its members restarts."""
    ids = topic_ids(SHARE, Random(7))
    names = {one: f"topic-{number}" for number, one in enumerate(ids)}
    group = Coordinated("g", members, dict.fromkeys(ids, members), names)
    fold = Fold("collector", 0, names.__getitem__)
    events: list[Event] = [Log("g").topics(**dict.fromkeys(names.values(), members))]
    offset = 0
    for timestamp, write in enumerate([group.start(), *group.bounce(3, others=5)], 1_700_000_000_000):
        for key, value in write:
            offset += 1
            events += [
                one.event for one in fold.add(Row(0, offset, timestamp, key, value)) if isinstance(one, Found)
            ]
    events += [one.event for one in fold.settle() if isinstance(one, Found)]
    return diffs(play(events)[1])


@pytest.mark.parametrize("members", [30, 300])
def test_a_restart_is_as_many_rounds_whatever_the_size_of_the_group(members: int) -> None:
    first, *rounds = restarted(members)
    assert (len(first.members), first.unassigned) == (members, {})
    moved = [
        sum(len(numbers) for numbers in one.assigned.values())
        for diff in rounds
        for one in diff.members.values()
    ]
    assert sum(moved) == 2 * SHARE  # to those that take over, and to the one that comes back
    assert len(rounds) <= 2 + 2 * SHARE + 1
    last = rounds[-1]
    assert last.unassigned == {}
    assert [len(share) for share in holds(last).values()] == [SHARE] * members
