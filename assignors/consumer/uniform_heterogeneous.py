"""``uniform`` when subscriptions differ (UniformHeterogeneousAssignmentBuilder, 4.3.1).

Goals, in order:
1. balance: at most one partition between any two subscribers of a topic, as far as 16 passes bring it;
2. stickiness: what a member has and still subscribes to stays, unless balance takes it.

Members are numbered in the order of the coordinator's HashMap. Topics go by partitions a subscriber (descending),
subscribers, Uuid. Free partitions go to the least loaded subscribers, level by level; then passes over the topics
move the last partition of the most loaded subscriber to the least loaded (``balancer``).
O(subscriptions × log members) a pass; whole levels are dealt as strided slices, not one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from assignors.consumer.balancer import Load, balance
from assignors.consumer.group import Group, empty, free, taken
from assignors.model import Assignment, Member


def assign(group: Group, members: Sequence[Member]) -> Assignment:
    """The new target; ``members`` give the order of the answer.

    Raises:
        InvalidGroup: an owned partition does not exist, or two members own it.
    """
    owned = taken(group)
    load = Load([{} for _ in members])
    for index, member in enumerate(group.members):
        _keep(group, load, index, member, owned)
    names = sorted(load.subscribers, key=lambda name: _topic_order(group, load, name))
    for name in names:
        runs = free(owned.get(name), group.topics[name].partitions)
        if runs:
            load.deal(name, runs[0] if len(runs) == 1 else list(chain.from_iterable(runs)))
    balance(load, [name for name in names if len(load.subscribers[name]) > 1])
    answer = empty(members)
    for index, member in enumerate(group.members):
        answer[member.member_id] = load.shares[index]
    return answer


def _keep(group: Group, load: Load, index: int, member: Member, owned: dict[str, bytearray]) -> None:
    """What a member owns and still subscribes to stays; the rest is free again."""
    subscribed = group.subscribed(member)
    for name in subscribed:
        load.subscribers.setdefault(name, []).append(index)
    share = load.shares[index]
    for name, partitions in member.owned.items():
        if not partitions or name not in group.topics:
            continue
        if name in subscribed:
            share[name] = partitions if isinstance(partitions, range) else sorted(partitions)
            load.sizes[index] += len(partitions)
        else:
            for partition in partitions:
                owned[name][partition] = 0


def _topic_order(group: Group, load: Load, name: str) -> tuple[float, int, tuple[int, int]]:
    subscribers = len(load.subscribers[name])
    return -(group.topics[name].partitions / subscribers), subscribers, group.ids[name]
