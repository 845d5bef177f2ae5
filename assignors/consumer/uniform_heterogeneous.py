"""``uniform`` when subscriptions differ (UniformHeterogeneousAssignmentBuilder, 4.3.1).

Goals, in order:
1. balance: at most one partition between any two subscribers of a topic, as far as 16 passes bring it;
2. stickiness: what a member has and still subscribes to stays, unless balance takes it.

Members are numbered in the order of the coordinator's HashMap. Topics go by partitions a subscriber (descending),
subscribers, Uuid. Free partitions go to the least loaded subscribers, level by level; then passes over the topics
move the last partition of the most loaded subscriber to the least loaded (``balancer``).
O(topics × subscribers) comparisons at C speed and O(shares given out) steps; a level is dealt as strided slices,
not one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from assignors.consumer.audience import Audience, subscriptions
from assignors.consumer.balancer import Load, balance
from assignors.consumer.claims import kept, unowned
from assignors.consumer.group import ServerGroup, empty
from assignors.model import Assignment, Member


def assign(group: ServerGroup, members: Sequence[Member]) -> Assignment:
    """The new target; ``members`` give the order of the answer.

    Raises:
        InvalidGroup: an owned partition does not exist, or two members own it.
    """
    known = subscriptions(group, group.members)
    left_over = unowned(group, known.of_member)
    load = Load(
        [
            kept(member.owned, subscribed)
            for member, subscribed in zip(group.members, known.of_member, strict=True)
        ]
    )
    topics = [(name, audience) for audience in known.audiences for name in audience.topics]
    topics.sort(key=lambda topic: _order(group, *topic))
    for name, audience in topics:
        runs = left_over.get(name)
        if runs is None:
            load.deal(name, audience, range(group.topics[name].partitions))
        elif runs:
            load.deal(name, audience, runs[0] if len(runs) == 1 else list(chain.from_iterable(runs)))
    load.settle()
    balance(load, topics)
    answer = empty(members)
    for index, member in enumerate(group.members):
        answer[member.member_id] = load.shares[index]
    return answer


def _order(group: ServerGroup, name: str, audience: Audience) -> tuple[float, int, tuple[int, int]]:
    subscribers = len(audience.members)
    return -(group.topics[name].partitions / subscribers), subscribers, group.ids[name]
