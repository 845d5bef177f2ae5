"""A step of some members of a large group, played on their part of it.

A ``group.changed`` does not touch most members: who they are and what they own is as before, and a round's rules
look at them only by what the group adds up to. So the rules that play a round of a whole group
(:mod:`~streaming.monitor.observed`, :mod:`~streaming.monitor.rounds`) are given the part that the step touches, and
:class:`~streaming.monitor.rounds.Untouched` for the rest. Where that would not decide the same, there is no step
and the group is played whole, as :func:`streaming.monitor.group.apply` does; a property test compares the two.

========================================  ============================================================
played whole                              why
========================================  ============================================================
a number below the group's                it may be a new life of the group
a member with an instance id comes        it may be a static member under a new id, which all must know
other topics are read                     which partitions nobody owns is another question then
few partitions                            the assignor is asked what it makes of all members
nothing was told of the group             its first diff names everybody
somebody gets what is not free            it breaks a rule, and violations name all that do
the cause names others                    episodes call them by name
========================================  ============================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from msgspec import UNSET, structs

from streaming.episodes.waiting import MOST_WAITS
from streaming.monitor import applied, brief, expected, observed
from streaming.monitor.brief import Naming
from streaming.monitor.pages import Entry, plain
from streaming.monitor.playing import show
from streaming.monitor.rendering import Output
from streaming.monitor.roster import Roster
from streaming.monitor.rounds import Untouched
from streaming.monitor.state import GroupState, LastView, MemberState, TopicState
from streaming.wire.events import POLLING, Event, GroupChanged, GroupObserved, Holding, ObservedMember

#: Topics as a member lists them.
Reads = tuple[str, ...]


class Part(NamedTuple):
    """What a step is played on.

    Attributes:
        before: the group with the members that the step touches and no others.
        event, view: the view of them.
        seen: what it says, its round with the verdict on it.
        others: the members that it does not touch, after it.
        entries: those that it does, after it; None: one is gone.
    """

    before: GroupState
    event: Event
    view: GroupObserved
    seen: observed.Seen
    others: Untouched
    entries: Mapping[str, Entry | None]


def part(head: GroupState, roster: Roster, event: Event, most: int) -> Part | None:
    """The part of a group that a change touches; None: it is to be played on the whole group.

    Args:
        head: the group without its members, which are in ``roster``.
        roster: is not changed.
        event: a change that follows from the group's view, and was not applied before.
        most: observed rounds of more partitions are not computed again; 0: none is.
    """
    data = event.data
    if not isinstance(data, GroupChanged) or not _fits(head, data):
        return None
    there = {one: roster.get(one) for one in sorted(_touched(head, roster, data))}
    before = structs.replace(head, members=tuple([one.member for one in there.values() if one]), view=None)
    view = data.view([one.view for one in there.values() if one])
    size = roster.count - len(before.members)
    if not _may_come(there, data) or not size + len(view.members):
        return None
    seen = observed.observe(before, view)
    members = seen.state.members if seen.round is None else seen.round.members
    reads = reading(roster.subscriptions, before.members, members)
    there_are = counts(head.topics, roster.subscriptions, reads)
    if there_are is None or 0 < most >= sum(there_are.values()):
        return None
    free = free_after(roster.free, before.members, members, there_are)
    if free is None or not _calls(seen, there, roster):
        return None
    if seen.round is not None:
        seen = seen._replace(round=seen.round._replace(expected=expected.too_many(before, view, most)))
    now: dict[str, Entry | None] = dict.fromkeys(there)
    now.update(
        (one.member_id, Entry.of(one, known)) for one, known in zip(view.members, members, strict=True)
    )
    others = Untouched(size, free, data.view(_waited_for(roster, data)))
    return Part(before, Event(event.source, event.id, view), view, seen, others, now)


def play(part: Part, most: int, naming: Naming) -> tuple[GroupState, tuple[Output, ...]]:
    """The part after the step, and what to write; see :func:`streaming.monitor.group.apply`."""
    event = part.event
    after, outputs = show(event, part.view, part.seen, most, part.others)
    mark = applied.fingerprint(event.source, event.id)
    view = LastView(event.source, event.id)
    after = structs.replace(after, applied=applied.remember(after.applied, mark), view=view)
    return brief.shorten(part.before, after, outputs, naming, part.others.size)


def _fits(head: GroupState, data: GroupChanged) -> bool:
    kind = data.group_protocol == "consumer" and data.kind in (UNSET, "consumer")
    polled = any(item.source == POLLING for item in data.evidence)
    return kind and not polled and data.group_epoch >= head.generation and head.said is not None


def _touched(head: GroupState, roster: Roster, data: GroupChanged) -> set[str]:
    """Who changes, who has since the last round, and whom the next diff names whatever it changes."""
    named = {*data.gone, *(one.member_id for one in data.members), *roster.ahead}
    return named if head.said is None else named.union(head.said.called, head.said.renamed.values())


def _may_come(there: Mapping[str, Entry | None], data: GroupChanged) -> bool:
    """Whether members that come are surely new, those that go were there, and entries hold all that is said."""
    come = [one for one in data.members if there[one.member_id] is None]
    known = all(there[one] is not None for one in data.gone)
    return known and all(one.group_instance_id is None for one in come) and all(map(plain, data.members))


def reading(
    subscriptions: Mapping[Reads, int], before: Iterable[MemberState], after: Iterable[MemberState]
) -> Mapping[Reads, int]:
    """Subscriptions, and how many members have each, after some members became others."""
    before, after = list(before), list(after)
    if [one.topics for one in before] == [one.topics for one in after]:
        return subscriptions
    moved = Counter(tuple(one.topics) for one in after)
    moved.subtract(tuple(one.topics) for one in before)
    left = {topics: subscriptions.get(topics, 0) + by for topics, by in moved.items() if by}
    return (
        {topics: count for topics, count in {**subscriptions, **left}.items() if count}
        if left
        else subscriptions
    )


def counts(
    topics: Mapping[str, TopicState], before: Mapping[Reads, int], after: Mapping[Reads, int]
) -> dict[str, int] | None:
    """The partition counts of the topics that a group reads; None: after the step these are others."""
    read = {topic for one in before for topic in one}
    if after is not before and read != {topic for one in after for topic in one}:
        return None
    return {name: topic.partitions for name, topic in topics.items() if name in read}


def free_after(
    free: Holding, before: Iterable[MemberState], after: Iterable[MemberState], counts: Mapping[str, int]
) -> Holding | None:
    """What nobody owns after a step; None: somebody has what is not free for it, or does not read."""
    left: dict[str, set[int]] = {}
    for member in before:
        for topic, numbers in member.owned.items():
            left.setdefault(topic, {*free.get(topic, ())}).update(numbers)
    for member in after:
        for topic, numbers in member.owned.items():
            if topic not in member.topics and member.topics:
                return None
            there = left.setdefault(topic, {*free.get(topic, ())})
            if not there.issuperset(numbers):
                return None
            there.difference_update(numbers)
    now = {**free, **{topic: sorted(numbers) for topic, numbers in left.items() if counts.get(topic)}}
    return {topic: now[topic] for topic in sorted(now) if now[topic]}


def _calls(seen: observed.Seen, there: Mapping[str, object], roster: Roster) -> bool:
    """Whether the members that a cause names, and episodes call by name, are those that the step touches."""
    if seen.round is None or seen.round.number > 1:
        return True
    return all(one in there or roster.get(one) is None for one in seen.round.cause.member_ids)


def _waited_for(roster: Roster, data: GroupChanged) -> list[ObservedMember]:
    """Members that a change does not have and that the group may wait for, in the order of their ids."""
    told = {*data.gone, *(one.member_id for one in data.members)}
    found = {one: roster.get(one) for one in roster.unsettled - told}
    if data.behind is not UNSET:
        found.update((one, roster.get(one)) for one in data.behind or () if one not in told)
    elif data.state != "Stable":
        behind = (one for one in roster.behind(data.group_epoch) if one.member_id not in told and one.settled)
        found.update((one.member_id, one) for one in islice(behind, MOST_WAITS + 1))
    return [one.view for _, one in sorted(found.items()) if one is not None]
