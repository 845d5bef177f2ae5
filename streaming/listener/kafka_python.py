"""Reports consumers of kafka-python, from their rebalance listeners and group metadata."""

import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener, ConsumerRebalanceListener
from kafka.coordinator.base import MemberState

from streaming.listener.listener import MembershipReporter, ReportingMixin, reporter
from streaming.listener.membership import join_template
from streaming.records.events import MemberJoined


class KafkaPythonReporting(ReportingMixin):
    """Mixin for kafka-python's consumer classes: reports assignments, revocations and leaves."""

    config: dict[str, Any]

    def __init__(self, *topics: str, **configs: Any) -> None:
        super().__init__(**configs)
        self._reporter = reporter(
            self._outbox, lambda: read_configuration(self.config), self._read_member, self._read_stable_member
        )
        if topics:
            self.subscribe(topics)

    def subscribe(self, topics: Sequence[str] = (), pattern: str | None = None, listener: Any = None) -> None:
        """Subscribe to topics, with a rebalance listener that also reports to the monitor."""
        # The client refuses a listener of any other class.
        if self._reporter is not None and isinstance(listener, ConsumerRebalanceListener | None):
            listener = _ReportingListener(listener, self._reporter)
        elif self._reporter is not None and isinstance(listener, AsyncConsumerRebalanceListener):
            listener = _AsyncReportingListener(listener, self._reporter)
        super().subscribe(topics, pattern, listener)  # type: ignore[misc] # of the class that comes after this one
        if self._reporter is not None:
            self._reporter.subscribed(topics if pattern is None else ())

    def _read_member(self) -> tuple[str, int]:
        group = self._group_metadata()
        return group.member_id, group.generation_id

    def _read_stable_member(self) -> tuple[str, int] | None:
        group = self._group_metadata()
        is_stable = group.state is MemberState.STABLE and group.generation_id > 0
        return (group.member_id, group.generation_id) if is_stable and group.member_id else None

    def _group_metadata(self) -> Any:
        return super().group_metadata()  # type: ignore[misc] # as above


class _ReportingListener(ConsumerRebalanceListener):
    def __init__(self, own: Any, reporter: MembershipReporter) -> None:
        self._application_listener = own
        self._reporter = reporter

    def _call(self, what: str, partitions: Iterable[Any]) -> None:
        try:
            if self._application_listener is not None:
                getattr(self._application_listener, f"on_partitions_{what}")(partitions)
        finally:
            getattr(self._reporter, what)(partitions)

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._call("assigned", assigned)

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._call("revoked", revoked)

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self._call("lost", lost)


class _AsyncReportingListener(AsyncConsumerRebalanceListener):
    def __init__(self, own: Any, reporter: MembershipReporter) -> None:
        self._application_listener = own
        self._reporter = reporter

    async def _call(self, what: str, partitions: Iterable[Any]) -> None:
        try:
            await getattr(self._application_listener, f"on_partitions_{what}")(partitions)
        finally:
            getattr(self._reporter, what)(partitions)

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        await self._call("assigned", assigned)

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        await self._call("revoked", revoked)

    async def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        await self._call("lost", lost)


def read_configuration(config: Mapping[str, Any]) -> MemberJoined | None:
    """Return a consumer's configuration with the client's defaults; None if the consumer has no group."""
    if config["group_id"] is None:
        return None
    return join_template(
        config["group_id"],
        client_id=config["client_id"],
        client_host=socket.gethostname(),
        group_instance_id=config.get("group_instance_id"),
        rack_id=config.get("client_rack") or None,
        assignors=[assignor.name for assignor in config["partition_assignment_strategy"]],
        session_timeout_ms=config["session_timeout_ms"],
        rebalance_timeout_ms=config["max_poll_interval_ms"],
    )
