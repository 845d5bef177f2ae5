"""Kinds of group members: client library, protocol and settings."""

from dataclasses import dataclass
from typing import Any, Final

#: Session timeout that a member on a busy machine does not exceed.
SESSION_MS: Final = 6000
#: max.poll.interval.ms of a member that is going to exceed it.
POLL_MS: Final = 6000
_JAVA: Final = "org.apache.kafka.clients.consumer."
_ASSIGNORS: Final = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


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
        config: dict[str, Any] = {
            "bootstrap.servers": servers,
            "group.id": group_id,
            "client.id": name,
            "allow.auto.create.topics": False,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
            "metadata.max.age.ms": 500,
            "max.poll.interval.ms": self.poll_ms,
        }
        if self.static:
            config["group.instance.id"] = name
        if self.protocol == "consumer":
            return config | {
                "group.protocol": "consumer",
                "group.remote.assignor": self.assignors[0] if self.assignors else "uniform",
            }
        usual = "cooperative-sticky" if self.protocol == "cooperative" else "range"
        assignors = [_JAVA + _ASSIGNORS[assignor] for assignor in self.assignors or (usual,)]
        return config | {
            "session.timeout.ms": self.session_ms,
            "heartbeat.interval.ms": self.heartbeat_ms,
            "partition.assignment.strategy": ",".join(assignors),
        }
