"""The polling collector: requests groups, publishes changes, and schedules the next requests.

Its only state is what it published.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from streaming.collect.lifecycle import BaseCollector
from streaming.collect.metrics import PollMetrics
from streaming.collect.polling.group import DEAD, OTHER_SECONDS, RESTS, UNKNOWN, Described, in_flux, is_news, poll
from streaming.collect.polling.requests import GroupRequests, Listed, Listing, Reply, Unanswered
from streaming.collect.polling.resume import OtherCollectors, known_by, read_published_state
from streaming.collect.polling.schedule import Pace, Schedule, wait
from streaming.collect.rebalances import REBALANCING_STATES, KnownGroup, ListedGroup, Rebalances, state_event
from streaming.kafka.access import NotAllowed, Permission, denied
from streaming.kafka.metadata import Contact
from streaming.records.events import Event, GroupObserved
from streaming.settings.config import Settings

_log = logging.getLogger(__name__)
#: Seconds until the next list request after a failed one.
_AGAIN_SECONDS: Final = 2.0
_DENIED: Final = "_AUTHORIZATION_FAILED"


class PollingCollector(BaseCollector):
    """Collects from one cluster through the Admin API."""

    by = "polling"

    def __init__(self, settings: Settings, stop: threading.Event, metrics: PollMetrics | None = None) -> None:
        super().__init__(settings, stop)
        self._metrics = metrics or PollMetrics()
        self._pace = Pace(
            quick=settings.collect.poll_quick_ms / 1000,
            slow=settings.collect.poll_interval_ms / 1000,
            requests=settings.collect.poll_requests_per_second,
        )

    def _collect(self) -> None:
        self._source = f"kafka://{self._cluster}/groups"
        # From now on: what was before is read next.
        with OtherCollectors(self._settings, self._source, self._wanted) as others:
            self._follow(others)

    def _follow(self, others: OtherCollectors) -> None:
        settings = self._settings
        published, self._known = read_published_state(settings, self._counts_source, self._wanted)
        self._count(published)
        self._rebalances, self._described = Rebalances(published.rebalances), dict[str, frozenset[str]]()
        self._requests = GroupRequests(settings.kafka)
        self._brokers = self._requests.brokers(settings.topics.membership)
        self._schedule = Schedule(self._pace, time.monotonic())
        self._list_due = time.monotonic()
        self._there: dict[str, Listed] = {}
        self._listed_at = 0
        self._contact, self._unanswered = Contact(), set[str]()
        self._held: dict[str, float] = {}
        # Groups of which something was learned after the list, or the answer about them, was asked for.
        self._newer_than_list, self._newer_than_answer = set[str](), set[str]()
        self._away = self._complete = False
        _log.info("asking about groups, %g requests a second at most", self._pace.requests)
        while self._goes_on():
            for event in others.poll():
                self._take_other(event)
            self._ask()
            now = time.monotonic()
            replies = self._requests.replies(wait(min(self._list_due - now, self._schedule.pause(now))))
            events = [event for reply in replies for event in self._take(reply)]
            self._publish([*events, *self._changed_rebalances(events)])
            self._heartbeats.write(up_to=time.time() if self._complete and not self._away else None)
        if self._stop.is_set():
            self._heartbeats.write_last()

    def _ask(self) -> None:
        now = time.monotonic()
        if now >= self._list_due and not self._requests.listing:
            self._schedule.spend(self._brokers, now)
            self._list_due = now + self._pace.between_lists(self._brokers)
            self._newer_than_list.clear()
            self._requests.list()
        self._requests.describe(self._schedule.take(now))

    def _take(self, reply: Reply) -> Iterable[Event]:
        match reply:
            case Described():
                return self._answered(reply)
            case Listing():
                self._listed(reply)
            case Unanswered():
                self._failed(reply)
        return ()

    def _answered(self, answer: Described) -> Iterable[Event]:
        group_id, now = answer.group_id, time.monotonic()
        self._answers_again(group_id)
        self._metrics.descriptions.inc()
        if answer.state not in RESTS:
            self._described[group_id] = frozenset(member.member_id for member in answer.members)
        if group_id in self._newer_than_answer:
            self._newer_than_answer.discard(group_id)
            self._schedule.answered(group_id, "flux", now)
            return ()
        self._newer_than_list.add(group_id)
        before = self._known.get(group_id, UNKNOWN)
        known, event = poll(before, answer, int(time.time() * 1000), self._source)
        if event is None:
            self._held.pop(group_id, None)
        elif before.is_from_other_collector and self._is_held(group_id, now):
            self._schedule.answered(group_id, "flux", now)
            return ()
        if known is UNKNOWN:
            self._known.pop(group_id, None)
            self._schedule.remove(group_id)
        else:
            self._known[group_id] = known
            calm = answer.state in RESTS and (event is None or before.view is None)
            self._schedule.answered(group_id, "rest" if calm else "flux", now)
        return () if event is None else (event,)

    def _changed_rebalances(self, events: list[Event]) -> Iterator[Event]:
        """Yield the rebalances that changed; of a group that another collector follows, that one publishes them."""
        for event in events:
            self._rebalances.observed(event.data)
        for data in self._rebalances.events(self._known_group, time.time_ns() // 1_000_000):
            if not self._known.get(data.group_id, UNKNOWN).is_from_other_collector:
                yield state_event(self._source, data)

    def _known_group(self, group_id: str) -> KnownGroup | None:
        view = self._known.get(group_id, UNKNOWN).view
        return None if view is None else KnownGroup(view)

    def _take_other(self, event: Event) -> None:
        """Take another collector's event of a group: later answers are compared with it.

        An answer to an earlier request may be older: a rebalance that has ended would look like another one.
        """
        group_id, known = event.data.group_id, known_by(event)
        self._held.pop(group_id, None)
        self._newer_than_list.add(group_id)
        self._rebalances.observed(event.data)
        if self._requests.describes(group_id):
            self._newer_than_answer.add(group_id)
        if known is None or known is UNKNOWN:
            self._known.pop(group_id, None)
        else:
            self._known[group_id] = known

    def _is_held(self, group_id: str, now: float) -> bool:
        """True if a change is left to the collector that published the group's last event."""
        if now - self._held.setdefault(group_id, now) < OTHER_SECONDS:
            return True
        del self._held[group_id]
        _log.info("group %s: nobody else tells of its changes any more: told from here", group_id)
        return False

    def _listed(self, listing: Listing) -> None:
        now, moment = time.monotonic(), int(time.time() * 1000)
        self._log_contact(listing.trouble[0].str() if listing.trouble else None)
        there = {one.group_id: one for one in listing.groups if one.state != DEAD and self._wanted(one.group_id)}
        for group_id, one in there.items():
            self._schedule.add(group_id, one.cost, now)
            if one.state is None:
                continue
            known = self._known.get(group_id, UNKNOWN)
            if one.state not in RESTS and group_id not in self._newer_than_list:
                before = self._listed_at if group_id in self._there else None
                known = self._known[group_id] = in_flux(known, one.state, moment, before)
            if is_news(known, one.state):
                self._schedule.hurry(group_id, now)
        rebalancing = {
            group_id: ListedGroup(_kafka_state(one.state), self._described.get(group_id))
            for group_id, one in there.items()
            if one.state is not None and one.state not in RESTS
        }
        self._described = {group_id: ids for group_id, ids in self._described.items() if group_id in rebalancing}
        self._rebalances.listed(rebalancing, moment, complete=not listing.trouble)
        if not listing.trouble:
            self._look_for((self._known.keys() | self._there.keys()) - there.keys(), now)
            self._log_visibility(len(there))
        self._there, self._listed_at = there, moment
        self._metrics.groups.set(len(self._schedule))
        self._metrics.overdue.set(self._schedule.overdue(now))

    def _look_for(self, groups: Iterable[str], now: float) -> None:
        """Groups that no broker lists: whether one is gone, only its coordinator knows."""
        for group_id in groups:
            known = self._known.get(group_id, UNKNOWN)
            if known.id:
                self._schedule.add(group_id, 2, now)
                self._schedule.hurry(group_id, now)
            else:  # never published from here; the number of one that the stream knows is kept
                self._schedule.remove(group_id)
                if known.view is None:
                    self._known.pop(group_id, None)

    def _failed(self, reply: Unanswered) -> None:
        if reply.error.name().endswith(_DENIED):
            raise self._denied(reply)
        now = time.monotonic()
        if reply.group_id is None:
            self._log_contact(reply.error.str())
            self._list_due = now + _AGAIN_SECONDS
            return
        self._newer_than_answer.discard(reply.group_id)
        self._schedule.answered(reply.group_id, "nothing", now)
        if not self._unanswered and not self._away:
            _log.warning(
                "group %s: its coordinator gives no answer of use (%s): waiting for one",
                *(reply.group_id, reply.error.str()),
            )
        self._unanswered.add(reply.group_id)
        self._metrics.unanswered.set(len(self._unanswered))

    def _answers_again(self, group_id: str) -> None:
        if group_id not in self._unanswered:
            return
        self._unanswered.discard(group_id)
        self._metrics.unanswered.set(len(self._unanswered))
        if not self._unanswered:
            _log.info("all coordinators answer again")

    def _log_contact(self, trouble: str | None) -> None:
        if self._away and trouble is None:
            self._schedule.retry(time.monotonic())
        self._away = trouble is not None
        news = self._contact.news(trouble)
        if news is not None:
            _log.warning("%s", news)

    def _denied(self, reply: Unanswered) -> NotAllowed:
        group_id = reply.group_id or "*"
        topics = reply.error.name().startswith("TOPIC")
        permission = Permission("Describe", "*", "topic") if topics else Permission("Describe", group_id, "group")
        why = f"which collect --by polling must for group {group_id}; or leave it out with --exclude-group"
        return NotAllowed(denied(self._settings.kafka, permission, why))

    def _log_visibility(self, groups: int) -> None:
        if self._complete:
            return
        self._complete = True
        if not groups:
            _log.warning(
                "no group can be seen: there is none that --include-group and --exclude-group leave, or %s",
                denied(self._settings.kafka, Permission("Describe", "*", "group"), "which hides groups"),
            )
        seconds = self._schedule.cost / self._pace.requests
        if seconds > self._pace.slow:
            _log.warning(
                "%d groups: to ask about each takes %.0f s at %g requests a second, which "
                "collect.poll_requests_per_second allows; a rebalance that no list shows is seen that late",
                *(groups, seconds, self._pace.requests),
            )

    def _publish(self, events: list[Event]) -> None:
        items = self._counts_publisher.with_counts(events, self._snapshots if self._complete else None, away=self._away)
        if items:
            self._metrics.published(self._publisher.publish(items, None))

    def _snapshots(self) -> Mapping[str, GroupObserved]:
        return {group_id: known.view for group_id, known in self._known.items() if known.view is not None}


def _kafka_state(state: str) -> str:
    """Return Kafka's name of a listed state; the client has none for those of groups with epochs."""
    return state if state in REBALANCING_STATES else REBALANCING_STATES[-1]
