"""Compares predictions of ``what-if`` with the results of a scenario's events on real groups."""

from streaming.simulation.live_group import LiveGroup, MembershipLog
from streaming.simulation.scenario import ScenarioEvent
from streaming.simulation.what_if import GroupChange, apply_change, preview
from tests.integration.streaming.collect.collector_process import CollectorProcess
from tests.integration.streaming.protocols.real_groups import BrokerScenario
from tests.support.members import Share
from tests.support.wait import eventually


class SimulatedRounds:
    """Predicts the result of each event of a scenario from the events that a collector published for the group.

    Attributes:
        kept: number of predictions that came true.
        open: number of events without a prediction, or with a prediction that is marked as uncertain.
    """

    def __init__(self, collector: CollectorProcess, play: BrokerScenario) -> None:
        self._collector = collector
        self._played_group = play
        self._expected_shares: dict[str, Share] | None = None
        self.kept = self.open = 0

    def before(self, event: ScenarioEvent) -> None:
        """Predict the result of the scenario's next event, if ``what-if`` supports this kind of change."""
        self._expected_shares = None
        changes = self._changes(event)
        if changes is None:
            self.open += 1
            return
        group = eventually(self._group)
        change = apply_change(group, changes)
        own = change.own
        assert own is not None
        new_members = [member for member in change.after.members if member.member_id in change.new]
        has_same_topics = all(sorted(member.topics) == sorted(event.topics or ()) for member in new_members)
        result = preview(change, own)
        if result.inexact or group.unknown or not has_same_topics:
            self.open += 1
            return
        names = {
            member.member_id: (member.names.group_instance_id or member.names.client_id or "").removeprefix("i-")
            for member in change.after.members
        }
        self._expected_shares = {
            names[member]: {topic: list(share[topic]) for topic in sorted(share) if share[topic]}
            for member, share in result.assignment.items()
        }

    def after(self, event: ScenarioEvent) -> None:
        """Assert that the prediction equals the group's assignment; the group has settled after the event."""
        if self._expected_shares is not None:
            assert self._played_group.log.newest == self._expected_shares, f"{event} of {self._played_group.group}"
            self.kept += 1

    def _changes(self, event: ScenarioEvent) -> GroupChange | None:
        if not self._played_group.live:
            return None
        static = bool(self._played_group.instances)
        name = f"i-{event.member}" if static else event.member
        match event.kind:
            case "join" if event.group_protocol is None and event.member not in self._played_group.starts:
                return GroupChange(add=(name,))
            case "leave" | "crash":
                return GroupChange(remove=(name,))
            case "partitions":
                return GroupChange(partitions=event.partitions)
            case _:
                return None

    def _group(self) -> LiveGroup | None:
        """Return the group once the collector has read as many of its records as the test has; None until then."""
        log = MembershipLog(self._played_group.group_id)
        events = self._collector.events(self._played_group.group_id)
        for event in events:
            log.feed(event)
        if not events:
            return None
        group = log.group(None)
        has_reached_the_end = group.number == self._played_group.real_rounds()[-1][0] and len(group.members) == len(
            self._played_group.live
        )
        is_complete = all(
            topic in group.topics and group.topics[topic].partitions == self._played_group.counts[topic]
            for topics in self._played_group.live.values()
            for topic in topics
        )
        return group if has_reached_the_end and is_complete else None
