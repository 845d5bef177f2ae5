"""Kinds of group members: client library, protocol and settings."""

from dataclasses import dataclass
from typing import Any, Final

from tests.integration.streaming.protocols.java_members import java_config

#: Session timeout that a member on a busy machine does not exceed.
SESSION_MS: Final = 6000
#: max.poll.interval.ms of a member that is going to exceed it.
POLL_MS: Final = 6000


@dataclass(frozen=True)
class MemberKind:
    """A kind of member: ``client`` java, confluent or kafka-python; ``protocol`` eager, cooperative or consumer.

    ``assignors``: assignors of the classic protocol by preference. ``static``: each member has an instance id.
    ``has_listener``: members report themselves (Python clients). ``placed``: each process has a host of its own
    (kafka-python). ``racks``: the rack of each member by name (confluent).
    """

    client: str
    protocol: str
    assignors: tuple[str, ...] = ()
    static: bool = False
    has_listener: bool = False
    placed: bool = False
    racks: tuple[tuple[str, str], ...] = ()
    pattern: bool = False
    session_ms: int = SESSION_MS
    heartbeat_ms: int = 200
    poll_ms: int = 300_000

    def java_config(self, servers: str, group_id: str, name: str) -> dict[str, Any]:
        """Return the configuration of a Java consumer."""
        settings: dict[str, Any] = {"session_timeout_ms": self.session_ms, "heartbeat_interval_ms": self.heartbeat_ms}
        usual = "cooperative-sticky" if self.protocol == "cooperative" else "range"
        if self.protocol == "consumer":
            settings, usual = {"group_protocol": "consumer"}, "uniform"
        return java_config(
            servers,
            group_id,
            name,
            self.assignors or [usual],
            instance_id=name if self.static else None,
            allow_auto_create_topics=False,
            auto_commit_interval_ms=500,
            metadata_max_age_ms=500,
            max_poll_interval_ms=self.poll_ms,
            **settings,
        )
