"""Full views one after the other, each played on the members that are not told as they were.

A full view repeats every member, and most of them byte for byte. While a batch has views of one group that follow
each other, what the last one gave is at hand (:class:`Repeatable`). Members that the next one tells as they were
own what they owned, so the rules that play a round are given the others, and
:class:`~streaming.monitor.rounds.Untouched` for these, as in :mod:`~streaming.monitor.steps`. Where the diff names
everybody, what it says of somebody who keeps everything is written once.

All of it is made of the group's state and of the view that it comes from, and is gone with the batch. Where it
would not decide the same the view is played whole, as :func:`streaming.monitor.group.apply` does; a property test
compares the two.

========================================  ============================================================
played whole                              why
========================================  ============================================================
whatever else a batch has of the group    its state is another one then
eager protocols                           everybody stops, and gets back what it had
a number below the group's                it may be a new life of the group
no round, and members are other ones      what rounds know of them is older than the view then
a member with an instance id comes, goes  it may be a static member under a new id
a member comes that claims partitions     who owns them is asked of all members
other topics are read, or somebody gets   see :mod:`~streaming.monitor.steps`
what is not free
========================================  ============================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Raw, structs

from streaming.monitor import applied, brief, expected, observed, steps
from streaming.monitor.brief import Naming
from streaming.monitor.playing import show
from streaming.monitor.rendering import AssignmentOutput, DiffOutput, Output
from streaming.monitor.rounds import Untouched
from streaming.monitor.state import NOTHING, GroupState, MemberState
from streaming.monitor.steps import Part, Reads
from streaming.wire import repeated
from streaming.wire.codec import encode
from streaming.wire.diffs import MemberDiff
from streaming.wire.events import Event, GroupObserved, Holding
from streaming.wire.repeated import RepeatedView, ToldView


class Repeatable(NamedTuple):
    """A group after a view of it that shows what its last round gave, which broke no rule.

    Attributes:
        told: the view.
        state: the group, its members in the order of the view.
        free: partitions that nobody owns.
        subscriptions: topics, as a member lists them → how many members do; empty: not counted yet.
        kept: of each member what a diff says in which it keeps everything; None: not written yet; empty where
            diffs leave such members out.
    """

    told: ToldView
    state: GroupState
    free: Holding
    subscriptions: Mapping[Reads, int]
    kept: Sequence[bytes | None]


class RepeatedRound(NamedTuple):
    """What a view gave that was played on a part of its group.

    Attributes:
        part: what it was played on; the group after it, but of the members those of the part.
        found: what it gave, in which the diff has at most those of the part.
        whole: the same to write: with everybody, unless diffs leave members out.
        standing: what the next view may be played on.
    """

    part: Part
    after: GroupState
    found: tuple[Output, ...]
    whole: tuple[Output, ...]
    standing: Repeatable


def standing(
    value: bytes | None, event: Event, state: GroupState | None, outputs: Sequence[Output]
) -> Repeatable | None:
    """What the view after this one may be played on; None: the whole group."""
    data = event.data
    if state is None or not isinstance(data, GroupObserved) or not outputs or not _plain(state):
        return None
    diff = outputs[0]
    if not isinstance(diff, DiffOutput) or diff.changes.violations:
        return None
    if len({member.member_id for member in state.members}) != len(data.members):
        return None
    view = repeated.told(value, data)
    if view is None:
        return None
    return Repeatable(view, state, diff.changes.unassigned, {}, [])


def _plain(state: GroupState) -> bool:
    """Whether consumers are seen in it, never all stop, and none has to be named by the next diff."""
    seen = state.observed and not state.counted and state.reports is None
    eager = state.protocol == "classic" and state.assignor != "cooperative-sticky"
    kind = state.kind == "consumer" and state.protocol in ("classic", "consumer")
    said = state.said is None or not (state.said.called or state.said.renamed)
    return seen and kind and not eager and state.view is None and said


def step(before: Repeatable, view: RepeatedView, most: int, naming: Naming) -> RepeatedRound | None:
    """A view, played on the members that it does not repeat; None: it is to be played on the whole group.

    ``most``, ``naming``: see :func:`streaming.monitor.group.apply`.
    """
    before = _counted(before)
    mark = applied.fingerprint(view.event.source, view.event.id)
    part = None if applied.contains(before.state.applied, mark) else _part(before, view, most)
    if part is None:
        return None
    after, found = show(part.event, part.view, part.seen, most, part.others)
    after = structs.replace(after, applied=applied.remember(after.applied, mark))
    after, found = brief.shorten(part.before, after, found, naming, part.others.size)
    changed = iter(after.members)
    known = before.state.members
    members = tuple([known[place] if place >= 0 else next(changed) for place in view.places])
    state = structs.replace(after, members=members)
    kept = [] if naming == "changed" else _kept(before, view)
    whole = [_whole(one, view.event, state, kept) for one in found]
    reads = steps.reading(before.subscriptions, part.before.members, after.members)
    standing = Repeatable(view.told, state, part.others.free, reads, kept)
    return RepeatedRound(part, after, found, tuple(whole), standing)


def _kept(before: Repeatable, view: RepeatedView) -> list[bytes | None]:
    """Of each member of the view what a diff says in which it keeps everything; None: it is not repeated."""
    members = before.state.members
    known = before.kept or [None] * len(members)
    return [_keeping(members[place], known[place]) if place >= 0 else None for place in view.places]


def _whole(
    output: Output, event: Event, state: GroupState, kept: Sequence[bytes | None]
) -> AssignmentOutput | DiffOutput:
    """What a part gave, as the whole group gives it."""
    if isinstance(output, AssignmentOutput):
        return structs.replace(output, event=event, state=state)
    return _named(output, kept) if kept else output


def _counted(before: Repeatable) -> Repeatable:
    if before.subscriptions:
        return before
    return before._replace(subscriptions=Counter(tuple(one.topics) for one in before.state.members))


def _part(before: Repeatable, view: RepeatedView, most: int) -> Part | None:
    """The part of a group that a view does not repeat."""
    state, data = before.state, view.data
    if not _follows(state, data) or not _may_come(before, view):
        return None
    there = {*range(len(state.members))}.difference(view.places)
    past = structs.replace(state, members=tuple([state.members[place] for place in sorted(there)]))
    told = structs.replace(
        data, members=[one for one, place in zip(data.members, view.places, strict=True) if place < 0]
    )
    event = Event(view.event.source, view.event.id, told)
    size = len(state.members) - len(past.members)
    seen = observed.observe(past, told)
    if seen.round is None:
        quiet = not seen.latest and seen.state is past and _same(before, view)
        return Part(past, event, told, seen, Untouched(size, before.free, data), {}) if quiet else None
    members = seen.round.members
    reads = steps.reading(before.subscriptions, past.members, members)
    counts = steps.counts(state.topics, before.subscriptions, reads)
    free = None if counts is None else steps.free_after(before.free, past.members, members, counts)
    if counts is None or free is None or not _calls(seen, data, told):
        return None
    verdict = (
        expected.expected(state, data, most)
        if sum(counts.values()) <= most
        else expected.too_many(past, told, most)
    )
    seen = seen._replace(round=seen.round._replace(expected=verdict))
    return Part(past, event, told, seen, Untouched(size, free, data), {})


def _same(before: Repeatable, view: RepeatedView) -> bool:
    """Whether a view has the members that rounds know, in their order: epochs and the like may be others."""
    known, seen = before.state.members, view.data.members
    return len(known) == len(seen) and all(
        place == at or (place < 0 and observed.seen_as(seen[at], known[at]) is known[at])
        for at, place in enumerate(view.places)
    )


def _follows(state: GroupState, data: GroupObserved) -> bool:
    """Whether a view goes on as the group did, to a number of its own or a step of the same epoch."""
    same = data.group_protocol == state.protocol and data.protocol == state.assignor
    if not same or data.polled or data.followed is True:
        return False
    number = data.group_epoch if data.counts_epochs else data.generation
    return number is not None and number >= state.generation


def _may_come(before: Repeatable, view: RepeatedView) -> bool:
    """Whether members that come and go are surely other ones, some stay, and nobody is told twice."""
    ids = [one.member_id for one in view.data.members]
    now = {*ids}
    if len(now) != len(ids) or max(view.places, default=-1) < 0:
        return False
    known = {one.member_id for one in before.state.members}
    gone = (one for one in before.state.members if one.member_id not in now)
    come = (one for one in view.data.members if one.member_id not in known)
    return all(one.instance_id is None for one in gone) and all(
        one.group_instance_id is None and not one.owned for one in come
    )


def _calls(seen: observed.Seen, data: GroupObserved, told: GroupObserved) -> bool:
    """Whether the members that a cause names, and episodes call by name, are those of the part."""
    if seen.round is None or seen.round.number > 1 or not seen.round.cause.member_ids:
        return True
    others = {one.member_id for one in data.members}.difference(one.member_id for one in told.members)
    return others.isdisjoint(seen.round.cause.member_ids)


def _keeping(member: MemberState, written: bytes | None) -> bytes:
    """What a diff says of a member that keeps everything, with its id before it."""
    if written is not None:
        return written
    same = MemberDiff(
        owned=member.owned,
        revoked=NOTHING,
        assigned=NOTHING,
        kept=member.owned,
        present=True,
        client_id=member.client_id,
        client_host=member.client_host,
        group_instance_id=member.instance_id,
    )
    return _entry(member.member_id, same)


def _entry(member_id: str, change: MemberDiff) -> bytes:
    return encode({member_id: change})[1:-1]


def _named(diff: DiffOutput, kept: Sequence[bytes | None]) -> DiffOutput:
    """The diff of a part with everybody: members of the view in its order, then those that are gone."""
    changed = diff.changes.members
    if isinstance(changed, Raw):
        return diff
    entries = iter([_entry(member_id, change) for member_id, change in changed.items()])
    here = [one if one is not None else next(entries) for one in kept]
    members = Raw(b"{%b}" % b",".join([*here, *entries]))
    return structs.replace(diff, changes=diff.changes._replace(members=members))
