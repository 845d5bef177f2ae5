"""State machine of the consumer protocol; members behave as in ``ConsumerMembershipManager``."""

from collections.abc import Mapping, Sequence

from assignors.assignment import common
from assignors.model import Topic, TopicPartitions
from streaming.protocols import vocabulary
from streaming.protocols.consumer import coordinator, migration
from streaming.protocols.consumer import step as consumer
from streaming.protocols.machine import StateMachine
from streaming.protocols.vocabulary import Stage, Table, rows


def _heartbeat_answered(step: consumer.ConsumerStep, event: consumer.HeartbeatAnswered) -> None:
    names = step.waiting(event, (Stage.STABLE,))
    shares: dict[str, TopicPartitions] = {}
    for name in names:
        member = step.members[name]
        share = member.current.assigned
        if member.current.state is consumer.Reconciliation.UNREVOKED:
            share = common(member.owned, share)  # it gets new partitions after it has reported these
        if share != member.owned:
            shares[name] = share
            step.quiet([name])
            step.update(name, owned=share, beat_from=step.at)
    step.consume(shares)
    # A classic member only reports that it gave up partitions. If the coordinator revoked partitions before the
    # member received them, the member's partitions stay the same, but the coordinator still needs the report.
    awaited = [name for name in names if step.members[name].current.state is consumer.Reconciliation.UNREVOKED]
    changed = [name for name in shares if not step.members[name].is_classic]
    reporting_members = list(dict.fromkeys((*changed, *awaited)))
    if reporting_members:
        step.send_heartbeats(reporting_members)


def topics_changed(step: consumer.ConsumerStep, event: vocabulary.TopicsChanged) -> None:
    """Apply new partition counts of topics, which the coordinator detects by itself."""
    step.set_fields(topics={**step.group.topics, **event.topics})
    step.later(consumer.MetadataChanged(step.network(), tuple(event.topics)))


def coordinator_fails(step: consumer.ConsumerStep, event: vocabulary.CoordinatorFails) -> None:
    """Let the next coordinator restore the whole group; members find the new coordinator."""
    del event
    step.send(step.first_request, sum(member.stage is Stage.STABLE for member in step.members.values()))


_EMPTY, _ASSIGNING, _RECONCILING, _STABLE = consumer.ConsumerPhase
_ACTIVE_PHASES = (_ASSIGNING, _RECONCILING, _STABLE)
_ALL_PHASES = tuple(consumer.ConsumerPhase)
#: The coordinator: ``ConsumerGroup.ConsumerGroupState``.
COORDINATOR: Table = {
    **rows((_EMPTY,), consumer.Heartbeat, coordinator.heartbeat, _ALL_PHASES, "epoch 0: join"),
    **rows((_ASSIGNING,), consumer.Heartbeat, coordinator.heartbeat, _ACTIVE_PHASES, "target computed"),
    **rows((_RECONCILING,), consumer.Heartbeat, coordinator.heartbeat, _ACTIVE_PHASES, "revoked, released"),
    **rows((_STABLE,), consumer.Heartbeat, coordinator.heartbeat, _ACTIVE_PHASES, "join, subscription, metadata"),
    **rows(_ACTIVE_PHASES, consumer.Goodbye, coordinator.send_leave_requests, _ALL_PHASES, "epoch −1"),
    **rows((_EMPTY,), consumer.Goodbye, coordinator.send_leave_requests),
    **rows(_ACTIVE_PHASES, consumer.Expired, coordinator.fence_expired, _ALL_PHASES, "fenced"),
    **rows((_EMPTY,), consumer.Expired, coordinator.fence_expired),
    **rows(_ALL_PHASES, consumer.HeartbeatAnswered, _heartbeat_answered),
    **rows(_ALL_PHASES, vocabulary.TopicsChanged, topics_changed),
    **rows(_ALL_PHASES, consumer.MetadataChanged, coordinator.metadata_changed),
    **rows(_ALL_PHASES, vocabulary.CoordinatorFails, coordinator_fails),
}
#: Number of distinct moments of a heartbeat interval; with more of them, large groups would need an event per member.
_HEARTBEAT_PHASES = 8


class Consumer(StateMachine[consumer.ConsumerState, consumer.ConsumerMember]):
    """State machine of the consumer protocol (KIP-848)."""

    group = consumer.ConsumerState

    def __init__(self, setup: vocabulary.Setup) -> None:
        super().__init__("consumer", setup, COORDINATOR)
        self.inner = migration.classic_state_machine(setup)

    def resume(
        self, topics: Mapping[str, Topic], held: Sequence[vocabulary.Owner], number: int
    ) -> consumer.ConsumerState:
        """Return a group in which all members have reached the target, or a classic group if all members are classic.

        Heartbeats of this protocol are not synchronized, so members begin at moments spread over the interval.
        """
        if all(client.group_protocol == "classic" for client, *_ in held):
            return consumer.ConsumerState(topics=topics, classic=self.inner.resume(topics, held, number))
        targets = {client.name: share for client, share, _ in held}
        phases = min(len(held), _HEARTBEAT_PHASES)
        interval_ms = self.setup.timing.consumer_heartbeat_ms
        members = {}
        for name, fields in self.state_at_rest(held).items():
            current = consumer.CurrentAssignment(consumer.Reconciliation.STABLE, number, fields["owned"])
            fields["beat_from"] = -(fields["place"] % phases) * interval_ms // phases
            members[name] = consumer.ConsumerMember(**fields, current=current)
        epochs = {"group_epoch": number, "target_epoch": number}
        return self.group_at_rest(members, topics, targets=targets, held=targets, **epochs)

    def phase_of(self, group: consumer.ConsumerState) -> consumer.ConsumerPhase:
        """Return the phase of the group (``ConsumerGroup.maybeUpdateGroupState``)."""
        members = group.members.values()
        if not any(member.is_member for member in members):
            return _EMPTY
        epoch = group.target_epoch
        if group.group_epoch > epoch:
            return _ASSIGNING
        for member in members:
            current = member.current
            if member.is_member and (current.epoch != epoch or current.state is not consumer.Reconciliation.STABLE):
                return _RECONCILING
        return _STABLE

    def step(self, group: consumer.ConsumerState, at: int) -> consumer.ConsumerStep:
        """Return a new step, in which one event is applied to a KIP-848 group that may have classic members."""
        return consumer.ConsumerStep(group, at, self.setup)

    def apply(
        self, group: consumer.ConsumerState, event: vocabulary.GroupEvent
    ) -> tuple[consumer.ConsumerState, tuple[vocabulary.MachineOutput, ...]]:
        """Apply an event; if all members are classic, the state machine of the classic protocol applies it."""
        split_events = migration.split_event(group, event)
        if split_events is not None:
            between, first = self.apply(group, split_events[0])
            after, second = self.apply(between, split_events[1])
            return after, first + second
        migration_step = migration.route_event(self.inner, group, event)
        return super().apply(group, event) if migration_step is None else migration_step

    def owned(self, group: consumer.ConsumerState) -> dict[str, TopicPartitions]:
        """Return the partitions that each process consumes now."""
        owned = {} if group.classic is None else self.inner.owned(group.classic)
        return owned | super().owned(group)

    def heartbeats(self, group: consumer.ConsumerState, until: int) -> list[vocabulary.RequestCount]:
        """Return the heartbeats that members sent up to ``until`` since the last event, as counts of requests."""
        sent = [] if group.classic is None else self.inner.heartbeats(group.classic, until)
        return sent + super().heartbeats(group, until)
