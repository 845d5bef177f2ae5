"""Requests to the Admin API and their answers; nothing blocks.

A description of a classic group is two requests to brokers from 4.0 on, as the client asks for a consumer group of
that name first; that of a consumer group is one, and the list of all groups one a broker.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import admin as kafka_admin

from streaming.collect.coordinator.schema import MalformedRecord
from streaming.collect.polling.group import DEAD, Described
from streaming.kafka.clients import answer_of, confluent_config
from streaming.records.events import ObservedMember, Partitions
from streaming.settings.connection import KafkaSettings

#: Seconds that brokers have for an answer.
ANSWER_SECONDS = 10.0
#: Seconds that a coordinator has at first: a client that asks the wrong one is replaced after that.
_FIRST_SECONDS = 2.5
#: Longer than any coordinator has. When librdkafka (2.16) itself gives up a question that still waits for its
#: coordinator, and the coordinator comes back, it uses freed memory: "Assertion `eonce->refcnt > 0' failed".
_NEVER_SECONDS = 3600.0
#: The client's names of states → Kafka's.
_STATES = {
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "ASSIGNING": "Assigning",
    "RECONCILING": "Reconciling",
    "STABLE": "Stable",
    "EMPTY": "Empty",
    "DEAD": DEAD,
}
#: The states of consumer groups that the client has no names for: an epoch is not over.
_BETWEEN = "Assigning or Reconciling"


@dataclass(frozen=True, slots=True)
class Listed:
    """A group in the list: its state (None: the brokers don't tell), and what a description of it costs."""

    group_id: str
    state: str | None
    cost: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The groups that this user may see; ``trouble``: brokers that could not list theirs."""

    groups: tuple[Listed, ...]
    trouble: tuple[KafkaError, ...] = ()


@dataclass(frozen=True, slots=True)
class Unanswered:
    """There is no answer about a group, or (None) no list."""

    group_id: str | None
    error: KafkaError


Reply = Described | Listing | Unanswered


class GroupRequests:
    """Requests to one cluster, each answered or timed out.

    A client that leaves a question about a group open may never answer another one. librdkafka drops a broker that
    all connections lost, or that metadata did not name for a moment, and connects to it again; but its cache of
    coordinators keeps the dropped connection, and each question waits until that one comes up. Or no broker is left
    (librdkafka issue 5301). So the next client asks, also what had no answer yet. It has twice the time, until the
    group has answered for which it was made: a cluster may just be slow.
    """

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._replies: queue.SimpleQueue[tuple[int, str | None, Future[Any]]] = queue.SimpleQueue()
        #: When each question is given up, by the monotonic clock.
        self._pending: dict[str | None, float] = {}
        self._seconds = _FIRST_SECONDS
        self._made_for: str | None = None
        self._client = 0
        self._admin = self._connect()

    def _connect(self) -> kafka_admin.AdminClient:
        return kafka_admin.AdminClient(confluent_config(self._kafka))

    @property
    def listing(self) -> bool:
        """True if a list request is pending."""
        return None in self._pending

    def describes(self, group_id: str) -> bool:
        """True if a description request is pending."""
        return group_id in self._pending

    def brokers(self, topic: str) -> int:
        """Return the number of brokers, which all receive a list request; ``topic`` keeps the answer short. Blocks."""
        return len(self._admin.list_topics(topic, timeout=ANSWER_SECONDS).brokers)

    def list(self) -> None:
        """Ask for the list of all groups."""
        asked = self._admin.list_consumer_groups(request_timeout=ANSWER_SECONDS)
        self._ask(None, asked, 2 * ANSWER_SECONDS)  # by then it tells which brokers it could not ask

    def describe(self, groups: Iterable[str]) -> None:
        """Ask about groups, each by itself: a coordinator that is away holds up its own groups only."""
        for group_id in groups:
            asked = self._admin.describe_consumer_groups([group_id], request_timeout=_NEVER_SECONDS)
            self._ask(group_id, asked[group_id], self._seconds)

    def replies(self, wait: float) -> Iterator[Reply]:
        """Yield answers, waiting up to ``wait`` seconds for the first, and requests without one."""
        replies = [*self._arrived(wait), *self._given_up()]
        lost = [_about(reply) for reply in replies if _is_lost(reply)]
        if lost:
            self._renew(lost[-1])
        elif self._made_for in map(_about, replies):
            self._seconds = _FIRST_SECONDS
        yield from replies

    def _arrived(self, wait: float) -> Iterator[Reply]:
        try:
            done = [self._replies.get(timeout=wait)]
        except queue.Empty:
            return
        while not self._replies.empty():
            done.append(self._replies.get())
        for client, about, future in done:
            if client == self._client:  # one that was replaced answers nothing any more
                self._pending.pop(about, None)
                yield _reply(about, future)

    def _given_up(self) -> Iterator[Reply]:
        now = time.monotonic()
        for about in [about for about, by in self._pending.items() if by <= now]:
            del self._pending[about]
            yield Unanswered(about, KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - librdkafka's own codes are spelled so

    def _renew(self, about: str | None) -> None:
        """Ask by a new client from now on, because of a question that the one before lost."""
        pending, self._pending = self._pending, {}
        self._client += 1
        self._admin = self._connect()
        self._made_for, self._seconds = about, min(2 * self._seconds, ANSWER_SECONDS)
        if None in pending:
            self.list()
        self.describe(group_id for group_id in pending if group_id is not None)

    def _ask(self, about: str | None, future: Future[Any], seconds: float) -> None:
        self._pending[about] = time.monotonic() + seconds
        future.add_done_callback(partial(self._done, self._client, about))

    def _done(self, client: int, about: str | None, future: Future[Any]) -> None:
        self._replies.put((client, about, future))


def _about(reply: Reply) -> str | None:
    return None if isinstance(reply, Listing) else reply.group_id


def _is_lost(reply: Reply) -> bool:
    """True if the client has no answer, and no broker refused one."""
    errors = reply.trouble if isinstance(reply, Listing) else ()
    return any(error.code() < 0 for error in ((reply.error,) if isinstance(reply, Unanswered) else errors))


def _reply(about: str | None, future: Future[Any]) -> Reply:
    try:
        found = answer_of(future)
        return listing(found) if about is None else answer(found)
    except KafkaException as error:
        problem: KafkaError = error.args[0]
        if problem.code() == KafkaError._DESTROY:  # noqa: SLF001 - its word for an answer that it can't read
            problem = KafkaError(KafkaError.INVALID_RECORD, "a member's assignment can't be read")
        return Unanswered(about, problem)
    except MalformedRecord as error:
        return Unanswered(about, KafkaError(KafkaError.INVALID_RECORD, str(error)))


def listing(found: Any) -> Listing:
    """Convert a ``ListConsumerGroupsResult``, without groups that only have offsets."""
    groups = (
        Listed(one.group_id, *_listed(one.state.name, consumer=one.type.name == "CONSUMER"))
        for one in found.valid
        if not one.is_simple_consumer_group
    )
    return Listing(tuple(groups), tuple(found.errors))


def _listed(state: str, *, consumer: bool) -> tuple[str | None, int]:
    return (_STATES.get(state, _BETWEEN), 1) if consumer else (_STATES.get(state), 2)


def answer(found: Any) -> Described:
    """Convert a ``ConsumerGroupDescription``; a group that never had members is dead.

    Raises:
        MalformedRecord: a member's assignment, which its leader wrote, holds what no topic or partition can be.
    """
    consumer = found.type.name == "CONSUMER"
    members = tuple(_member(member, consumer=consumer) for member in found.members)
    state = _STATES.get(found.state.name)
    if state is None:
        state = _unnamed(members) if consumer else "Unknown"
    return Described(
        group_id=found.group_id,
        protocol="consumer" if consumer else "classic",
        state=DEAD if found.is_simple_consumer_group else state,
        assignor=found.partition_assignor or None,
        members=members,
    )


def _unnamed(members: Iterable[ObservedMember]) -> str:
    """The likelier of the two: while members are on their way, or before they are told where to go."""
    return "Reconciling" if any(one.assigned != one.target for one in members) else "Assigning"


def _member(found: Any, *, consumer: bool) -> ObservedMember:
    target = found.target_assignment
    return ObservedMember(
        member_id=found.member_id,
        topics=[],
        assigned=_partitions(found.assignment),
        target=_partitions(target) if consumer and target is not None else None,
        group_instance_id=found.group_instance_id or None,
        client_id=found.client_id,
        client_host=found.host,
    )


def _partitions(assignment: Any) -> Partitions:
    found: dict[str, set[int]] = {}
    for one in assignment.topic_partitions:
        if one.partition < 0:
            raise MalformedRecord(f"an assignment: {one.partition} is no partition")
        try:
            found.setdefault(one.topic, set()).add(one.partition)
        except UnicodeDecodeError as error:  # the client decodes it only now
            raise MalformedRecord("an assignment: the name of a topic is not UTF-8") from error
    return {topic: sorted(numbers) for topic, numbers in sorted(found.items())}
