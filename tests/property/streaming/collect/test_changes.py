"""What changed and full views, put together, are the views that there would be of every step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, structs

from streaming.collect.coordinator.groups import GONE, apply
from streaming.collect.coordinator.parts import GroupPart
from streaming.collect.coordinator.records import decode
from streaming.collect.fold import Fold, Found, Row, _Known
from streaming.collect.source import _Partition
from streaming.monitor import group as monitor
from streaming.monitor.rendering import AssignmentOutput, Output
from streaming.monitor.state import GroupState
from streaming.wire import codec
from streaming.wire.events import Event, GroupChanged, GroupDeleted, GroupObserved, PartitionsStopped
from tests.support.epoch_log import EpochLog, life
from tests.support.offsets_topic import KINDS, captured, captured_kind

SOURCE = "kafka://c/__consumer_offsets"
NAMES = ["a", "b", "c", "d", "e", "f", "s1", "s2"]


class Plain(Fold):
    """Looks at every member of a group in every step."""

    def _publish(self, group_id: str, row: Row) -> None:
        known: _Known = self._known[group_id]
        if known.standing is not None:
            known.seen, known.standing = known.view, None
        super()._publish(group_id, row)


def folded(rows: list[Row], fold: Fold) -> list[Event]:
    found = [item for row in rows for item in fold.add(row)] + fold.settle()
    return [item.event for item in found if isinstance(item, Found)]


def whole(events: list[Event]) -> Iterator[Event]:
    """All views in full, as a reader puts them together; each change follows from the view before."""
    before: Event | None = None
    for event in events:
        data = event.data
        if isinstance(data, GroupChanged):
            assert before is not None
            assert data.since == before.id
            assert isinstance(before.data, GroupObserved)
            assert before.data.followed is True
            before = Event(event.source, event.id, data.view(before.data.members))
        elif isinstance(data, GroupObserved | GroupDeleted):
            before = event
        yield event if isinstance(data, PartitionsStopped) else before or event


def bare(event: Event) -> Event:
    """Without the word that changes may follow, and which members are at the group's epoch in its place.

    To reach it is no change of a member where few are behind.
    """
    data = event.data
    if not isinstance(data, GroupObserved):
        return event
    late = [one.member_id for one in data.members if (one.member_epoch or 0) < (data.group_epoch or 0)]
    members = [structs.replace(one, member_epoch=None, previous_member_epoch=None) for one in data.members]
    behind = late if data.behind is UNSET and data.counts_epochs else data.behind
    return structs.replace(event, data=structs.replace(data, followed=UNSET, members=members, behind=behind))


def outputs(events: list[Event]) -> list[bytes]:
    """What the stream makes of them."""
    state: GroupState | None = None
    written: list[bytes] = []
    for one in events:
        key, value, headers = codec.encode_event(one)
        event = codec.decode_event(key, value, codec.ce_attributes(headers))
        # Of groups that are told by changes diffs leave out who kept everything, unless they are to name all; and
        # an assignor starts from the target that members had reached.
        state, made = monitor.apply(state, event, naming="all", most=0)
        written += map(_bytes, made)
    return written


def _bytes(output: Output) -> bytes:
    if isinstance(output, AssignmentOutput):
        return b"%b %b" % (output.id.encode(), output.value or b"")
    return codec.encode(output.diff)


seeds, least = st.integers(0, 10**9), st.integers(1, 7)


@given(seeds, least)
def test_put_together_they_are_the_views_of_every_step(seed: int, changes_from: int) -> None:
    log = EpochLog({"t": 12, "u": 7})
    rows = list(life(Random(seed), log, NAMES, 80))
    name = log.names.__getitem__
    every = folded(rows, Plain(SOURCE, 0, name))

    assert folded(rows, Fold(SOURCE, 0, name)) == every
    changes = folded(rows, Fold(SOURCE, 0, name, changes_from=changes_from))
    assert [bare(event) for event in whole(changes)] == [bare(event) for event in every]
    assert outputs(changes) == outputs(every)


@given(seeds, least, st.data())
def test_wherever_reading_began_again_it_begins_with_a_full_view(
    seed: int, changes_from: int, data: st.DataObject
) -> None:
    log = EpochLog({"t": 12, "u": 7})
    rows = list(life(Random(seed), log, NAMES, 60))
    name = log.names.__getitem__
    every = folded(rows, Plain(SOURCE, 0, name))
    cut = data.draw(st.integers(0, len(rows)))
    first = Fold(SOURCE, 0, name, changes_from=changes_from)
    published = [item.event for row in rows[:cut] for item in first.add(row) if isinstance(item, Found)]
    place = cut if first.open_offset is None else first.open_offset
    second = Fold(SOURCE, 0, name, changes_from=changes_from)
    _Partition(second, place)
    published += folded(rows, second)

    assert [bare(event) for event in whole(published)] == [bare(event) for event in every]
    assert outputs(published) == outputs(every)


@given(seeds)
def test_what_is_counted_is_what_counting_anew_gives(seed: int) -> None:
    log = EpochLog({"t": 5})
    group = GONE
    for row in life(Random(seed), log, NAMES, 60):
        record = decode(row.key, row.value)
        if not isinstance(record, GroupPart):
            continue
        group = apply(group, record)
        parted = group.consumer
        if parted is not None:
            assert parted == replace(parted)
            assert parted.at_rest == replace(parted).at_rest


@pytest.mark.parametrize("kind", ["consumer", *KINDS])
def test_real_groups_of_every_kind(kind: str) -> None:
    rows = captured()[4] if kind == "consumer" else captured_kind(kind)
    every = folded(rows, Plain(SOURCE, 0, str))
    changes = folded(rows, Fold(SOURCE, 0, str, changes_from=1))
    by_group = {
        event.data.group_id: [one for one in changes if one.data.group_id == event.data.group_id]
        for event in every
    }

    assert folded(rows, Fold(SOURCE, 0, str)) == every
    for group_id, found in by_group.items():
        assert [bare(event) for event in whole(found)] == [
            bare(one) for one in every if one.data.group_id == group_id
        ]
    told = [event.data for event in changes if isinstance(event.data, GroupChanged)]
    assert bool(told) is (kind in ("consumer", "streams", "share"))


@pytest.mark.parametrize(("seed", "changes_from"), [(1, 1), (2, 3), (3, 5)])
def test_all_full_views_but_the_first_have_no_more_bytes_than_all_changes(
    seed: int, changes_from: int
) -> None:
    log = EpochLog({"t": 12, "u": 7})
    names = NAMES[:6]
    rows = log.join(*names)
    chance = Random(seed)
    for _ in range(40):
        name = chance.choice(names)
        rows += log.leave(name)
        rows += [row for one in sorted(log.members) for row in log.beat(one)]
        rows += log.join(name)
        rows += log.settle()
    events = folded(rows, Fold(SOURCE, 0, log.names.__getitem__, changes_from=changes_from))
    spent, last = 0, 0
    for event in events:
        size = len(codec.encode(event.data))
        if isinstance(event.data, GroupChanged):
            spent += size
            assert spent <= last
        else:
            spent, last = 0, size
