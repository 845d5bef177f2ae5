"""The members of the JoinGroup protocols (``AbstractCoordinator``, ``ConsumerCoordinator``): what they are told."""

from __future__ import annotations

from msgspec import structs

from assignors.model import Share
from streaming.protocols.classic.coordinator import announce, prepare
from streaming.protocols.classic.group import (
    Assigned,
    ClassicPhase,
    DelayOver,
    MetadataSeen,
    RebalanceInProgress,
)
from streaming.protocols.classic.step import ClassicStep, forgotten
from streaming.protocols.group import LIVE, Stage
from streaming.protocols.vocabulary import NOTHING, CoordinatorFails, TopicsChanged


def topics_changed(step: ClassicStep, event: TopicsChanged) -> None:
    """Topics have other partition counts; clients see that when their metadata are refreshed."""
    step.set(topics={**step.group.topics, **event.topics})
    step.subscriptions()
    step.later(MetadataSeen(step.at + step.timing.metadata_age_ms))


def metadata_seen(step: ClassicStep, event: MetadataSeen) -> None:
    """Metadata are not those of the assignment: the leader joins again; in version 1 the coordinator acts."""
    del event
    if step.rules.coordinator_assigns:
        if step.group.phase is ClassicPhase.STABLE and _changed(step):
            step.caused("topic.partitions_changed")
            prepare(step)
        return
    leader = step.members.get(step.group.leader)
    if leader is None or leader.stage is not Stage.STABLE or not _outdated(step):
        return
    if _changed(step):
        step.caused("topic.partitions_changed")
    step.set(snapshot=None)
    step.join([leader.client.name])


def _outdated(step: ClassicStep) -> bool:
    """Whether the leader's metadata, once refreshed, differ from those that it assigned with."""
    snapshot = step.group.snapshot
    return _changed(step) or (snapshot is not None and snapshot != step.said())


def _changed(step: ClassicStep) -> bool:
    """Whether topics that members subscribe to have changed since the assignment."""
    then, now = step.group.assigned_with, step.group.topics
    if then is now:
        return False
    topics = step.said() if step.rules.subscribes else {*then, *now}
    return any(then.get(topic) != now.get(topic) for topic in topics)


def rebalance_in_progress(step: ClassicStep, event: RebalanceInProgress) -> None:
    """Members join again: a heartbeat or a SyncGroup was answered with REBALANCE_IN_PROGRESS."""
    names = step.waiting(event, (Stage.STABLE, Stage.SYNCING))
    step.join(name for name in names if step.members[name].known)


def assigned(step: ClassicStep, event: Assigned) -> None:
    """Members learn their shares: they stop what moved, start what is new, and join again if the rules say so."""
    names = step.waiting(event, (Stage.SYNCING,))
    if event.generation != step.group.generation:
        return  # a later generation is on its way; these members hear of it
    again: list[str] = []
    shares: dict[str, Share] = {}
    for name in names:
        member = step.members[name]
        share, owned = member.assigned, member.owned
        if step.rules.rejoins(step, member, share) or (
            step.rules.subscribes and member.said != member.client.topics
        ):
            again.append(name)
        if share is not owned:
            shares[name] = share
        step.members[name] = structs.replace(
            member,
            stage=Stage.STABLE,
            owned=share,
            last=share,
            generation=event.generation,
            beat_from=step.at,
            heard=step.at,
        )
    step.consume(shares)
    if names:
        announce(step)
    if step.group.leader in names and _outdated(step):
        step.later(MetadataSeen(step.at + step.timing.metadata_age_ms))
    if again and step.group.phase is not ClassicPhase.EMPTY:
        step.join(again)


def delay_over(step: ClassicStep, event: DelayOver) -> None:
    """A scheduled rebalance (Connect): every worker joins again."""
    if event.generation == step.group.generation:
        step.join(name for name, member in step.members.items() if member.stage is Stage.STABLE)


def coordinator_fails(step: ClassicStep, event: CoordinatorFails) -> None:
    """The next coordinator reads the group back; in the first version it knows nobody, and all join again."""
    del event
    live = [name for name, member in step.members.items() if member.stage in LIVE]
    step.send(step.hello, len(live))
    if not step.rules.coordinator_assigns or not live:
        return
    step.quiet(live)
    step.consume(dict.fromkeys(live, NOTHING))
    for name, member in list(step.members.items()):
        if name in live:
            step.begin_anew(name)
        elif member.stage is Stage.FROZEN:
            step.members[name] = structs.replace(forgotten(member), call=member.call + 1)
        else:
            del step.members[name]
    step.set(phase=ClassicPhase.EMPTY, leader="", initial=False, attempt=step.group.attempt + 1)
    step.knock(live)
