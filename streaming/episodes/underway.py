"""The record of a large group's episode while it goes on: written with each step, so it does not list them all.

Thousands of steps of a rolling restart would each write again everybody who has restarted by then. Counts, kind and
story are those of the whole episode; rounds and who came and went are listed once it is over or stuck.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import structs

from assignors.diff import size
from streaming.wire.diffs import FEW
from streaming.wire.episodes import Episode, EpisodeMembers, Waiting
from streaming.wire.events import Holding

#: Members that are listed of each sort, and rounds, the newest.
MOST_LISTED: Final = 8
MOST_ROUNDS: Final = 16


def underway(whole: Episode) -> Episode:
    """The record without most of its rounds, members, and partitions that are waited for."""
    waits = [_few(one) for one in whole.waiting_for]
    return structs.replace(
        whole, rounds=whole.rounds[-MOST_ROUNDS:], members=_some(whole, waits), waiting_for=waits
    )


def _some(whole: Episode, waits: Iterable[Waiting]) -> EpisodeMembers:
    members = whole.members
    sorts = {sort: getattr(members, sort) for sort in ("joined", "left", "lost", "gone", "replaced")}
    listed = {sort: some[:MOST_LISTED] for sort, some in sorts.items()}
    wanted = {one for sort, some in listed.items() if sort != "replaced" for one in some}
    wanted.update(one for pair in listed["replaced"] for one in (pair.left, pair.joined))
    wanted.update(one.member_id for one in waits if one.member_id is not None)
    if whole.repeated is not None:
        wanted.add(whole.repeated.member_id)
    return structs.replace(
        members,
        **listed,
        names={one: members.names[one] for one in members.names if one in wanted},
        omitted=members.omitted + sum(len(sorts[sort]) - len(listed[sort]) for sort in sorts),
    )


def _few(one: Waiting) -> Waiting:
    """What is waited for, with the first of its partitions."""
    more = size(one.partitions) - FEW
    if more <= 0:
        return one
    left, some = FEW, Holding()
    for topic, numbers in one.partitions.items():
        some[topic] = numbers[:left]
        left -= len(some[topic])
        if not left:
            break
    return structs.replace(one, partitions=some, omitted=more)
