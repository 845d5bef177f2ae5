"""The base class of both collectors, which selects groups, and waits for the cluster when it does not answer."""

import logging
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import cache
from typing import Literal

from confluent_kafka import KafkaException

from streaming.collect.cluster import ClusterTopics
from streaming.collect.cluster_view import ClusterView
from streaming.collect.counts import CountsPublisher, PublishedState
from streaming.collect.publisher import Publisher, output_topics
from streaming.kafka.access import refusal, require_permissions
from streaming.kafka.clients import ClusterUnavailable, is_temporary, wait_until_reachable
from streaming.kafka.heartbeats import HeartbeatWriter
from streaming.kafka.metadata import IdentityWatch, request_identities
from streaming.kafka.security import CredentialRenewal
from streaming.kafka.topics import ensure_topics
from streaming.records.events import Event, GroupProgress, GroupRebalancing
from streaming.settings.config import Settings

_log = logging.getLogger(__name__)


def group_filter(include: Iterable[str], exclude: Iterable[str]) -> Callable[[str], bool]:
    """Return a filter that accepts group ids that match a pattern in ``include`` and no pattern in ``exclude``."""
    # DOTALL: group ids may contain line breaks.
    included, excluded = ([re.compile(pattern, re.DOTALL) for pattern in patterns] for patterns in (include, exclude))

    @cache
    def is_wanted(group_id: str) -> bool:
        return any(pattern.fullmatch(group_id) for pattern in included) and not any(
            pattern.fullmatch(group_id) for pattern in excluded
        )

    return is_wanted


def state_event(source: str, data: GroupRebalancing | GroupProgress) -> Event:
    """Return an event about a rebalance in progress or about progress; its id has the group, the time and the type."""
    kind = "progress" if isinstance(data, GroupProgress) else "rebalancing"
    return Event(source, f"{data.group_id}@{data.timestamp}/{kind}", data)


class MembershipTopicWatch:
    """Detects that the membership topic was deleted and created again, so that its readers have lost all state."""

    def __init__(self, settings: Settings) -> None:
        self._topic = settings.topics.membership
        self._first_identity = request_identities(settings.kafka, [self._topic])[self._topic]
        interval_s = settings.collect.metadata_interval_ms / 1000
        self._watch = IdentityWatch(settings.kafka, [self._topic], interval_s=interval_s)

    def is_recreated(self, now: float) -> bool:
        """True if the membership topic now has another topic id; False while the topic is deleted."""
        identity = (self._watch.poll(now) or {}).get(self._topic)
        if identity is None or self._first_identity is None or identity.topic_id == self._first_identity.topic_id:
            return False
        _log.warning("topic %s was created again: its groups get new partition counts", self._topic)
        return True


class BaseCollector(ABC):
    """Base class of the collectors of one cluster."""

    #: The source of the collector's groups, for its heartbeats.
    by: Literal["offsets", "polling"]

    def __init__(self, settings: Settings, stop: threading.Event) -> None:
        self._settings, self._stop = settings, stop
        self._has_begun = False
        self._credential_renewal = CredentialRenewal(settings.kafka)
        self._is_wanted_group = group_filter(settings.collect.include_groups, settings.collect.exclude_groups)

    def run(self) -> None:
        """Collect until ``stop`` is set; wait if the cluster stops answering after the start.

        Raises NoPermission if the cluster refuses a request, and ClusterUnavailable if it does not answer at the start.
        """
        while not self._stop.is_set():
            try:
                self._collect_until_stopped()
            except (KafkaException, ClusterUnavailable) as error:
                problem = self._permanent_error(error)
                if problem is not None:
                    raise problem from error
                _log.warning("the cluster does not answer (%s): waiting, then going on from what was published", error)
                wait_until_reachable(self._settings.kafka, self._stop)
        _log.info("stopped")

    def _permanent_error(self, error: KafkaException | ClusterUnavailable) -> Exception | None:
        """Return the error that must end the collector; None if waiting for the cluster may help."""
        if isinstance(error, ClusterUnavailable):
            return None if self._has_begun else error
        problem = error.args[0]
        refused = refusal(problem, self._settings, "collect")
        if refused is None and self._has_begun and is_temporary(problem):
            return None
        return refused or ClusterUnavailable(
            f"bootstrap_servers {self._settings.kafka.bootstrap_servers}: {problem.str()}; "
            "started again, the collector goes on where it stopped"
        )

    def _collect_until_stopped(self) -> None:
        """Collect until ``stop`` is set, or secrets, certificates or the membership topic are replaced."""
        settings = self._settings
        self._cluster = require_permissions(settings, "collect")
        ensure_topics(settings, output_topics(settings.topics))
        self._topics = ClusterTopics(settings.kafka, self._stop)
        self._publisher = Publisher(settings, settings.collector_id, self._stop.is_set)
        self._membership = MembershipTopicWatch(settings)
        self._heartbeats = HeartbeatWriter(settings, "collector", settings.collector_id, by=self.by)
        self._counts_source = f"kafka://{self._cluster}/metadata"
        self._collect()

    def _count(self, published: PublishedState) -> None:
        """Create the publisher of partition counts and cluster changes; it continues from the last published state."""
        view = ClusterView(f"kafka://{self._cluster}/cluster", published.brokers)
        interval_s = self._settings.collect.metadata_interval_ms / 1000
        self._counts_publisher = CountsPublisher(self._topics, self._counts_source, published.counts, view, interval_s)

    def _should_continue(self) -> bool:
        self._has_begun = True
        now = time.monotonic()
        return not (self._stop.is_set() or self._credential_renewal.renewed(now) or self._membership.is_recreated(now))

    @abstractmethod
    def _collect(self) -> None:
        """Collect and publish events while :meth:`_should_continue` returns True."""
