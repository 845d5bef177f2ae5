"""Reports consumers of confluent-kafka, from their rebalance callbacks and group metadata."""

import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any

from streaming.listener.listener import ReportingMixin, reporter
from streaming.listener.membership import join_template
from streaming.records.events import MemberJoined

_Callback = Callable[[Any, list[Any]], object]


class ConfluentReporting(ReportingMixin):
    """Mixin for confluent-kafka's consumer classes: reports assignments, revocations and leaves."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reporter = reporter(
            self._outbox, lambda: read_configuration({**(args[0] if args else {}), **kwargs}), self._read_member
        )

    def subscribe(
        self,
        topics: list[str],
        on_assign: _Callback | None = None,
        on_revoke: _Callback | None = None,
        on_lost: _Callback | None = None,
    ) -> None:
        """Subscribe to topics, with callbacks that also report to the monitor."""
        if self._reporter is not None:
            on_lost = _chain_callbacks(on_lost or on_revoke, self._reporter.lost)  # else the client calls on_revoke
            on_assign = _chain_callbacks(on_assign, self._reporter.assigned)
            on_revoke = _chain_callbacks(on_revoke, self._reporter.revoked)
        callbacks = {"on_assign": on_assign, "on_revoke": on_revoke, "on_lost": on_lost}
        callbacks = {name: callback for name, callback in callbacks.items() if callback is not None}
        super().subscribe(topics, **callbacks)  # type: ignore[misc] # of the class that comes after this one
        if self._reporter is not None:
            # The client does not return the topics that a pattern matches.
            self._reporter.subscribed([] if any(name.startswith("^") for name in topics) else topics)

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_member(self) -> tuple[str, int]:
        client: Any = self
        return client.memberid() or "", librdkafka_generation(client.consumer_group_metadata() or b"")


def _chain_callbacks(own: _Callback | None, report: Callable[[list[Any]], None]) -> _Callback:
    """Return a callback that calls the application's callback, if any, and then ``report``, even after an error."""

    def call_both(consumer: Any, partitions: list[Any]) -> None:
        try:
            if own is not None:
                own(consumer, partitions)
        finally:
            report(partitions)

    return call_both


def read_configuration(config: Mapping[str, Any]) -> MemberJoined | None:
    """Return a consumer's configuration with librdkafka's defaults; None if the consumer has no group."""
    if not config.get("group.id"):
        return None
    modern = config.get("group.protocol") == "consumer"
    assignors = str(config.get("partition.assignment.strategy") or "range,roundrobin").split(",")
    if modern:
        assignors = [str(config["group.remote.assignor"])] if config.get("group.remote.assignor") else []
    return join_template(
        str(config["group.id"]),
        client_id=str(config.get("client.id", "rdkafka")),
        client_host=socket.gethostname(),
        group_instance_id=config.get("group.instance.id") or None,
        rack_id=config.get("client.rack") or None,
        group_protocol="consumer" if modern else "classic",
        assignors=[name.strip() for name in assignors],
        session_timeout_ms=int(config.get("session.timeout.ms", 45_000)),
        rebalance_timeout_ms=int(config.get("max.poll.interval.ms", 300_000)),
    )


def librdkafka_generation(metadata: bytes) -> int:
    """Return the generation in librdkafka's serialised group metadata (magic ``CGMDv2:``, then int32, host order)."""
    metadata_magic = b"CGMDv2:"
    if not metadata.startswith(metadata_magic):
        return -1
    (generation,) = struct.unpack_from("=i", metadata, len(metadata_magic))
    return int(generation)
