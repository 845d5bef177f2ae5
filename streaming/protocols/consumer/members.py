"""The members of the consumer protocol (``ConsumerMembershipManager``): what they are told."""

from __future__ import annotations

from assignors.model import Share
from assignors.shares import common
from streaming.protocols.consumer.group import HeartbeatAnswered, MetadataChanged
from streaming.protocols.consumer.reconcile import Reconciliation
from streaming.protocols.consumer.step import ConsumerStep
from streaming.protocols.group import Stage
from streaming.protocols.vocabulary import CoordinatorFails, TopicsChanged


def heartbeat_answered(step: ConsumerStep, event: HeartbeatAnswered) -> None:
    """Members give up what they have to, then take what they may, and say so at once."""
    names = step.waiting(event, (Stage.STABLE,))
    shares: dict[str, Share] = {}
    for name in names:
        member = step.members[name]
        share = member.current.assigned
        if member.current.state is Reconciliation.UNREVOKED:
            share = common(member.owned, share)  # first give up, nothing new before that is known
        if share != member.owned:
            shares[name] = share
            step.quiet([name])
            step.update(name, owned=share, beat_from=step.at)
    step.consume(shares)
    # A classic member has nothing to report but that it gave something up. Where the coordinator took back what
    # it had given before anyone heard of that, nothing changes here, and the coordinator still has to be told.
    waited_for = [name for name in names if step.members[name].current.state is Reconciliation.UNREVOKED]
    changed = [name for name in shares if not step.members[name].classic]
    told = list(dict.fromkeys((*changed, *waited_for)))
    if told:
        step.beat(told)


def topics_changed(step: ConsumerStep, event: TopicsChanged) -> None:
    """The coordinator follows the cluster's metadata by itself."""
    step.set(topics={**step.group.topics, **event.topics})
    step.later(MetadataChanged(step.network(), tuple(event.topics)))


def coordinator_fails(step: ConsumerStep, event: CoordinatorFails) -> None:
    """The next coordinator reads everything back; members find it."""
    del event
    step.send(step.hello, sum(member.stage is Stage.STABLE for member in step.members.values()))
