"""``uniform`` (UniformAssignor, the broker's default): balanced first, sticky second.

Members that all subscribe to the same names are assigned here (UniformHomogeneousAssignmentBuilder, 4.3.1).
Others are assigned in ``uniform_heterogeneous``. A name without metadata counts for that choice alone
(``ModernGroup.subscriptionType``). Goals for equal subscriptions, in order:
1. balance: every member gets floor(partitions / members), some one more;
2. stickiness: up to its quota a member keeps what it has.

Members are visited in the order of the coordinator's HashMap. A member above its quota gives up what comes last
in the HashSet order of its topics and partitions; one below it returns its right to one more unless the members
left need it (KAFKA-18688). Then the members with room take the free partitions in blocks, topics in HashSet<Uuid>
order, partitions ascending, what was given up last.
O(members log members + runs of owned partitions): a block is a ``range``, not its partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignors.consumer import uniform_heterogeneous
from assignors.consumer.group import ServerGroup, empty, kept, resolve, unowned
from assignors.java import hash_order, hash_set_copy_capacity
from assignors.model import Assignment, Member, Topic

_Share = dict[str, Sequence[int]]
_Run = tuple[str, Sequence[int]]


def assign(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
    """Return each member's new target assignment."""
    group = resolve(topics, members)
    build = assign_homogeneous if _have_equal_topics(members) else uniform_heterogeneous.assign
    return build(group, members)


def _have_equal_topics(members: Sequence[Member]) -> bool:
    first = members[0].topics if members else ()
    names = set(first)
    return all(member.topics is first or member.topics == first or set(member.topics) == names for member in members)


def assign_homogeneous(group: ServerGroup, members: Sequence[Member]) -> Assignment:
    """The new target; ``members`` give the order of the answer."""
    answer = empty(members)
    if not members:
        return answer
    names = group.in_topic_id_order(group.members[0])
    subscribed = dict.fromkeys(names)
    left_over = unowned(group, [subscribed] * len(members))
    waiting: list[_Run] = []
    total = 0
    for name in names:
        size = group.topics[name].partitions
        total += size
        waiting += [(name, run) for run in left_over.get(name, (range(size),))]
    least, extras = divmod(total, len(members))
    unfilled: list[tuple[_Share, int]] = []
    for left, member in zip(range(len(members), 0, -1), group.members, strict=True):
        one_more = extras > 0
        quota = least + one_more
        share: _Share = {}
        if member.owned:
            share = kept(member.owned, subscribed)
            quota -= sum(map(len, share.values()))
        if quota < 0:
            share, surplus = _cut(group, member, share, least + one_more)
            waiting += surplus
        elif quota and one_more and left > extras:
            quota -= 1
            one_more = False
        if quota > 0:
            unfilled.append((share, quota))
        extras -= one_more
        answer[member.member_id] = share
    _fill(unfilled, waiting)
    return answer


def _cut(group: ServerGroup, member: Member, share: _Share, quota: int) -> tuple[_Share, list[_Run]]:
    """The first ``quota`` partitions in Java's order, and the rest in that order.

    The topics are keys of a HashMap that was filled in the order of ``owned``, each with a HashSet of Integers.
    """
    kept: _Share = {}
    surplus: list[_Run] = []
    for name in group.in_uuid_order([name for name in member.owned if name in group.ids]):
        partitions = share.get(name)
        if partitions is None:
            continue
        if len(partitions) <= quota:
            kept[name] = partitions
            quota -= len(partitions)
            continue
        owned = member.owned[name]
        in_order = [owned[at] for at in hash_order(owned, capacity=hash_set_copy_capacity(len(owned)))]
        if quota:
            kept[name] = sorted(in_order[:quota])
        surplus.append((name, in_order[quota:]))
        quota = 0
    return kept, surplus


def _fill(unfilled: Sequence[tuple[_Share, int]], waiting: Sequence[_Run]) -> None:
    """Gives each member its ``quota`` of the waiting partitions, one block after the other."""
    runs = iter(waiting)
    name, run = next(runs, ("", ()))
    at = 0
    for share, wanted in unfilled:
        quota = wanted
        while quota and run:
            block = run[at : at + quota]
            at += quota
            quota -= len(block)
            before = share.get(name)
            if before is not None:
                block = sorted([*before, *block])
            elif not isinstance(block, range):
                block = sorted(block)
            share[name] = block
            if at >= len(run):
                name, run = next(runs, ("", ()))
                at = 0
