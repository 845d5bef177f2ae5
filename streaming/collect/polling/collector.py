"""The polling collector: requests groups, publishes changes, and schedules the next requests.

After a restart the collector resumes from the events that it and other collectors published.
"""

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping

from streaming.collect.lifecycle import BaseCollector, state_event
from streaming.collect.metrics import PollMetrics
from streaming.collect.polling.group import OTHER_COLLECTOR_SECONDS, UNKNOWN, PolledGroup, poll, resumed, shows_change
from streaming.collect.polling.requests import GroupListing, GroupRequests, ListedState, NoAnswer, Reply
from streaming.collect.polling.resume import OtherCollectors, read_published_state
from streaming.collect.polling.schedule import RequestLimits, RequestSchedule
from streaming.collect.rebalances import REBALANCING_STATES, STABLE_STATES, KnownGroup, ListedGroup, Rebalances
from streaming.kafka.access import NoPermission, Permission, denial
from streaming.kafka.metadata import ContactState
from streaming.records.events import Event, GroupObserved
from streaming.settings.config import Settings

_log = logging.getLogger(__name__)


class PollingCollector(BaseCollector):
    """Collects the groups of one cluster through the Admin API."""

    by = "polling"

    def __init__(self, settings: Settings, stop: threading.Event, metrics: PollMetrics | None = None) -> None:
        super().__init__(settings, stop)
        self._metrics = metrics or PollMetrics()
        self._request_limits = RequestLimits(
            min_interval_s=settings.collect.poll_quick_ms / 1000,
            max_interval_s=settings.collect.poll_interval_ms / 1000,
            requests=settings.collect.poll_requests_per_second,
        )

    def _collect(self) -> None:
        self._source = f"kafka://{self._cluster}/groups"
        # This reader starts before the published state is read, so that no event in between is missed.
        with OtherCollectors(self._settings, self._source, self._is_wanted_group) as collectors:
            self._follow_groups(collectors)

    def _follow_groups(self, collectors: OtherCollectors) -> None:
        settings = self._settings
        published, self._groups = read_published_state(settings, self._counts_source, self._is_wanted_group)
        self._count(published)
        self._rebalances, self._member_ids = Rebalances(published.rebalances), dict[str, frozenset[str]]()
        self._requests = GroupRequests(settings.kafka)
        self._brokers = self._requests.brokers(settings.topics.membership)
        self._schedule = RequestSchedule(self._request_limits, time.monotonic())
        self._list_due_at = time.monotonic()
        self._listed_groups: dict[str, ListedState] = {}
        self._listed_at_ms = 0
        self._contact, self._unanswered_groups = ContactState(), set[str]()
        self._deferred_until: dict[str, float] = {}
        # Groups with another event since the last ListGroups request, or since the request for their description.
        self._newer_groups_in_list, self._newer_groups_in_answers = set[str](), set[str]()
        self._is_unreachable = self._is_list_complete = False
        _log.info("polling groups with at most %g requests per second", self._request_limits.requests)
        while self._should_continue():
            for published_event in collectors.poll():
                self._add_other_event(published_event)
            self._request()
            replies = self._requests.replies(self._schedule.pause(time.monotonic(), self._list_due_at))
            events = [event for reply in replies if (event := self._apply_reply(reply)) is not None]
            self._metrics.unanswered_groups.set(len(self._unanswered_groups))
            events += self._rebalance_events(events)
            groups = self._snapshots if self._is_list_complete else None
            items = self._counts_publisher.add_counts(events, groups, away=self._is_unreachable)
            if items:
                self._metrics.published(self._publisher.publish(items, None))
            self._heartbeats.write(up_to=time.time() if self._is_list_complete and not self._is_unreachable else None)
        if self._stop.is_set():
            self._heartbeats.write_last()

    def _request(self) -> None:
        now = time.monotonic()
        if now >= self._list_due_at and not self._requests.is_pending(None):
            self._schedule.deduct_requests(self._brokers, now)
            self._list_due_at = now + self._request_limits.list_interval(self._brokers)
            self._newer_groups_in_list.clear()
            self._requests.list()
        self._requests.describe(self._schedule.take(now))

    def _apply_reply(self, reply: Reply) -> Event | None:
        match reply:
            case GroupObserved():
                return self._apply_description(reply)
            case GroupListing():
                self._apply_list(reply)
            case NoAnswer():
                self._handle_failure(reply)
        return None

    def _apply_description(self, answer: GroupObserved) -> Event | None:
        group_id, now = answer.group_id, time.monotonic()
        if group_id in self._unanswered_groups:
            self._unanswered_groups.discard(group_id)
            if not self._unanswered_groups:
                _log.info("all coordinators answer again")
        self._metrics.descriptions.inc()
        if answer.state not in STABLE_STATES:
            self._member_ids[group_id] = frozenset(member.member_id for member in answer.members)
        if group_id in self._newer_groups_in_answers:
            self._newer_groups_in_answers.discard(group_id)
            self._schedule.record_answer(group_id, "flux", now)
            return None
        self._newer_groups_in_list.add(group_id)
        before = self._group(group_id)
        group, event = poll(before, answer, int(time.time() * 1000), self._source)
        if event is None:
            self._deferred_until.pop(group_id, None)
        elif before.is_from_other_collector and self._must_wait(group_id, now):
            self._schedule.record_answer(group_id, "flux", now)
            return None
        self._groups[group_id] = group
        if group is UNKNOWN:
            self._schedule.remove(group_id)
        else:
            is_stable = answer.state in STABLE_STATES and (event is None or before.view is None)
            self._schedule.record_answer(group_id, "rest" if is_stable else "flux", now)
        return event

    def _rebalance_events(self, events: list[Event]) -> Iterator[Event]:
        """Yield events of changed rebalances, except for groups whose events another collector publishes."""

        def known_group(group_id: str) -> KnownGroup | None:
            view = self._group(group_id).view
            return None if view is None else KnownGroup(view)

        for event in events:
            self._rebalances.apply_event(event.data)
        for data in self._rebalances.events(known_group, time.time_ns() // 1_000_000):
            if not self._group(data.group_id).is_from_other_collector:
                yield state_event(self._source, data)

    def _group(self, group_id: str) -> PolledGroup:
        return self._groups.get(group_id, UNKNOWN)

    def _add_other_event(self, event: Event) -> None:
        """Take another collector's event as the group's last event, with which later answers are compared.

        An answer to an earlier request may be older than the event: an ended rebalance would look like a new one.
        """
        group_id = event.data.group_id
        self._deferred_until.pop(group_id, None)
        self._newer_groups_in_list.add(group_id)
        self._rebalances.apply_event(event.data)
        if self._requests.is_pending(group_id):
            self._newer_groups_in_answers.add(group_id)
        self._groups[group_id] = resumed(event)

    def _must_wait(self, group: str, now: float) -> bool:
        """Return True for ``OTHER_COLLECTOR_SECONDS`` after a change, so that another collector can publish it."""
        if now - self._deferred_until.setdefault(group, now) < OTHER_COLLECTOR_SECONDS:
            return True
        del self._deferred_until[group]
        _log.info("group %s: no other collector publishes its changes any more: this collector publishes them", group)
        return False

    def _apply_list(self, listing: GroupListing) -> None:
        now, moment = time.monotonic(), int(time.time() * 1000)
        self._log_contact(listing.trouble[0].str() if listing.trouble else None)
        listed = {item.group_id: item for item in listing.groups if self._is_wanted_group(item.group_id)}
        rebalancing: dict[str, ListedGroup] = {}
        for group_id, item in listed.items():
            self._schedule.add(group_id, item.cost, now)
            if item.state is None:
                continue
            group = self._group(group_id)
            if item.state not in STABLE_STATES:
                # confluent-kafka has no names for the states of groups with epochs.
                state = item.state if item.state in REBALANCING_STATES else REBALANCING_STATES[-1]
                rebalancing[group_id] = ListedGroup(state, self._member_ids.get(group_id))
                if group_id not in self._newer_groups_in_list:
                    before = self._listed_at_ms if group_id in self._listed_groups else None
                    group = self._groups[group_id] = group.with_rebalance(item.state, moment, before)
            if shows_change(group, item.state):
                self._schedule.make_due(group_id, now)
        self._member_ids = {group_id: ids for group_id, ids in self._member_ids.items() if group_id in rebalancing}
        self._rebalances.apply_list(rebalancing, moment, complete=not listing.trouble)
        if not listing.trouble:
            self._request_unlisted((self._groups.keys() | self._listed_groups.keys()) - listed.keys(), now)
            self._log_visibility(len(listed))
        self._listed_groups, self._listed_at_ms = listed, moment
        self._metrics.groups.set(len(self._schedule))
        self._metrics.overdue.set(self._schedule.overdue(now))

    def _request_unlisted(self, groups: Iterable[str], now: float) -> None:
        """Request descriptions of groups that no broker lists: only its coordinator can report a group as deleted."""
        for group_id in groups:
            group = self._group(group_id)
            if group.id:
                self._schedule.add(group_id, 2, now)
                self._schedule.make_due(group_id, now)
            else:  # this collector never published the group; the number of a group that the stream has is kept
                self._schedule.remove(group_id)
                if group.view is None:
                    self._groups.pop(group_id, None)

    def _handle_failure(self, reply: NoAnswer) -> None:
        group_id, error, now = reply.group_id, reply.error.str(), time.monotonic()
        if (name := reply.error.name()).endswith("_AUTHORIZATION_FAILED"):
            topics, group = Permission("Describe", "*", "topic"), Permission("Describe", group_id or "*", "group")
            why = f"which collect --by polling must for group {group_id or '*'}; or leave it out with --exclude-group"
            raise NoPermission(denial(self._settings.kafka, topics if name.startswith("TOPIC") else group, why))
        if group_id is None:
            self._log_contact(error)
            self._list_due_at = now + 2.0
            return
        self._newer_groups_in_answers.discard(group_id)
        self._schedule.record_answer(group_id, "nothing", now)
        if not self._unanswered_groups and not self._is_unreachable:
            _log.warning("group %s: its coordinator does not answer (%s): waiting for an answer", group_id, error)
        self._unanswered_groups.add(group_id)

    def _log_contact(self, trouble: str | None) -> None:
        if self._is_unreachable and trouble is None:
            self._schedule.retry(time.monotonic())
        self._is_unreachable = trouble is not None
        if (news := self._contact.news(trouble)) is not None:
            _log.warning("%s", news)

    def _log_visibility(self, groups: int) -> None:
        if self._is_list_complete:
            return
        self._is_list_complete = True
        if not groups:
            _log.warning(
                "no group can be seen: there is none that --include-group and --exclude-group leave, or %s",
                denial(self._settings.kafka, Permission("Describe", "*", "group"), "which hides groups"),
            )
        seconds = self._schedule.cost / self._request_limits.requests
        if seconds > self._request_limits.max_interval_s:
            _log.warning(
                "%d groups: to describe all of them takes %.0f s at %g requests a second, which "
                "collect.poll_requests_per_second allows; a rebalance that no list shows is seen that late",
                groups,
                seconds,
                self._request_limits.requests,
            )

    def _snapshots(self) -> Mapping[str, GroupObserved]:
        return {group_id: group.view for group_id, group in self._groups.items() if group.view is not None}
