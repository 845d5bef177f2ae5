"""Reasons that clients send with JoinGroup and LeaveGroup (KIP-800), and what each reason proves.

Brokers log them after ``client reason:`` since Kafka 3.2, or ``not provided`` if the client sends none. Of the usual
clients only Java's and franz-go send reasons. The libraries' own reasons are string literals of
``AbstractCoordinator``, ``ConsumerCoordinator``, ``ClassicKafkaConsumer``, ``DistributedHerder``,
``WorkerCoordinator``, ``WorkerGroupMember`` and ``StreamThread``, and of franz-go's ``consumer_group.go``. Every
other reason of a JoinGroup is the application's: ``Consumer.enforceRebalance(reason)``.
"""

import re
from collections.abc import Iterable
from typing import Final

from streaming.records.events import Evidence

_CLIENT_REASON: Final = re.compile(r"client reason: *(.*)$", re.DOTALL)
_EMPTY_REASONS: Final = ("", "not provided", "null", "none")
#: Beginnings of the reasons that client libraries send on their own.
_LIBRARY_REASONS: Final = (
    "need to re-join with the given member-id",
    "need to revoke partitions",
    "group is already rebalancing",
    "offset commit failed since group is already rebalancing",
    "received assignment does not match the current subscription",
    "cached metadata has changed",
    "subscription has changed",
    "rebalance failed due to",
    "encountered ",
    "consumer pro-actively leaving the group",
    "the consumer is being closed",
    "the consumer unsubscribed from all topics",
    "consumer poll timeout has expired",
    "worker poll timeout has expired",
    "taking too long to read the log",
    "connect worker requested rejoin",
    "triggered followup rebalance scheduled for",
    "active tasks corrupted",
    "shutdown requested",
    "beginning to manage the group lifecycle",
    "rejoining ",
    "rejoin from purge",
    "cooperative rejoin",
)
#: ``ClassicKafkaConsumer.DEFAULT_REASON``: ``enforceRebalance()`` without a reason.
ENFORCED: Final = "rebalance enforced by user"
#: Phrases of Kafka's clients and coordinators about a member that exceeded max.poll.interval.ms.
_POLL_TIMEOUT_REASONS: Final = (
    "poll timeout has expired",
    "max.poll.interval",
    "failed to transition from epoch",
    "did not join again in time",
)
#: Phrases of clients that are being closed.
_CLOSE_PREFIXES: Final = ("clos", "shut", "stop", "exit", "terminat", "client leaving group per normal operation")
#: Phrases of brokers about a leave; they prove that LeaveGroup was sent, but nothing about the client's process.
_BROKER_REASON: Final = re.compile(r"LeaveGroup|\bleft (?:the )?(?:\w+ )?group\b|\bhas left\b")
#: Why the end of a session proves no crash: Kafka Streams on the classic protocol never sends LeaveGroup.
STREAMS_STAYS_REASON: Final = "stopped or crashed: Kafka Streams does not leave the group"
#: Source of evidence that infers a departure from offset commits.
OFFSET_COMMITS: Final = "offset-commits"


def exceeds_poll_interval(reason: str) -> bool:
    """Return whether a reason says that a member exceeded max.poll.interval.ms."""
    return any(words in reason for words in _POLL_TIMEOUT_REASONS)


def client_reason(reason: str) -> str | None:
    """Return the reason that the client sent, from a logged reason; None if the client sent no reason."""
    match = _CLIENT_REASON.search(reason)
    if match is None:
        return None
    own = match[1].strip().rstrip(").")
    return None if own.lower() in _EMPTY_REASONS else own


def proves_client_close(item: Evidence) -> bool:
    """Return whether evidence of a leave proves that the client was closed.

    A LeaveGroup without a client reason proves nothing: after max.poll.interval.ms a client sends one as well.
    """
    if item.source == OFFSET_COMMITS:
        return False
    own = client_reason(item.reason)
    if own is not None:
        return any(words in own.lower() for words in _CLOSE_PREFIXES)
    # Applications and listeners report a leave with a reason of their own.
    return bool(item.reason) and _BROKER_REASON.search(item.reason) is None and "client reason" not in item.reason


def application_reasons(evidence: Iterable[Evidence]) -> list[str]:
    """Return the distinct reasons with which applications requested a rebalance, in the order of the evidence."""
    reasons: dict[str, None] = {}
    for item in evidence:
        own = client_reason(item.reason) if item.kind in (None, "member.joined") else None
        if own is not None and not own.lower().startswith(_LIBRARY_REASONS):
            reasons[own] = None
    return list(reasons)


def join_reasons(evidence: Iterable[Evidence]) -> list[str]:
    """Return the distinct client reasons of rejoins, also reasons of client libraries, in the order of the evidence."""
    reasons = (client_reason(item.reason) for item in evidence if item.kind in (None, "member.joined"))
    return list(dict.fromkeys(own for own in reasons if own is not None))
