"""A restart in a group of hundreds, from the coordinator's records to diffs: as many rounds as in a small group."""

from __future__ import annotations

from random import Random

import pytest

from streaming.collect.fold import Fold, Found, Row
from streaming.wire.diffs import Diff
from streaming.wire.events import Event
from tests.support.coordinated import Coordinated, Write, topic_ids
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


def test_members_of_a_topic_without_a_name_are_made_again_once_it_has_one() -> None:
    ids = topic_ids(SHARE, Random(7))
    names: dict[str, str] = {}
    asked: list[str] = []

    def name(topic_id: str) -> str:
        asked.append(topic_id)
        return names.get(topic_id, topic_id)

    group = Coordinated("g", 300, dict.fromkeys(ids, 300), {one: one for one in ids})
    fold = Fold("collector", 0, name, changes_from=100)

    def seen(write: Write, timestamp: int) -> list[str]:
        rows = [Row(0, timestamp * 10_000 + place, timestamp, *one) for place, one in enumerate(write)]
        found = [one for row in rows for one in fold.add(row)] + fold.settle()
        return [one.event.type for one in found if isinstance(one, Found)]

    assert seen(group.start(), 1) == ["group.observed"]
    steps = group.bounce(3, others=5)
    asked.clear()
    assert seen(next(steps), 2) == ["group.changed"]
    assert len(asked) < 500  # of some 20 members, not of 300
    names |= {one: f"topic-{number}" for number, one in enumerate(ids)}
    assert seen(next(steps), 3) == ["group.changed"]
    ((_, known),) = fold._known.items()
    assert known.standing is not None
    assert {topic for one in known.standing.members.values() for topic in one.assigned} == set(names.values())
