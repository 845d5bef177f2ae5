"""Sends requests to the Admin API and returns their answers; only :meth:`GroupRequests.brokers` blocks.

From Kafka 4.0 on, the description of a classic group costs two requests, as the client requests a consumer group of
that name first. The description of a consumer group costs one request, and the list of all groups one request per
broker.
"""

import queue
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import admin as kafka_admin

from streaming.collect.coordinator.schema import MalformedRecord, merged
from streaming.collect.polling.group import DEAD_STATE
from streaming.kafka.clients import confluent_config, result_of
from streaming.records.events import GroupObserved, ObservedMember, Partitions
from streaming.settings.connection import KafkaSettings

#: Seconds that brokers have for an answer.
REQUEST_TIMEOUT_SECONDS = 10.0
#: The first timeout of a request to a coordinator (s), after which the client is replaced.
_FIRST_TIMEOUT_SECONDS = 2.5
#: A timeout that is never reached (s). When librdkafka (2.16) itself gives up a request that still waits for its
#: coordinator, and the coordinator comes back, it uses freed memory: "Assertion `eonce->refcnt > 0' failed".
_UNREACHED_TIMEOUT_SECONDS = 3600.0
#: confluent-kafka's state name → Kafka's state name.
_STATE_NAMES = {
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "ASSIGNING": "Assigning",
    "RECONCILING": "Reconciling",
    "STABLE": "Stable",
    "EMPTY": "Empty",
    "DEAD": DEAD_STATE,
}
#: The states of consumer groups for which confluent-kafka has no name: the group is rebalancing.
_UNKNOWN_STATE_NAMES = "Assigning or Reconciling"


class ListedState(NamedTuple):
    """A group in a broker's list: its state (None: unknown), and the number of requests that describe it."""

    group_id: str
    state: str | None
    cost: int


class GroupListing(NamedTuple):
    """The groups that this user may see; ``trouble`` has the errors of brokers that could not list their groups."""

    groups: tuple[ListedState, ...]
    trouble: tuple[KafkaError, ...] = ()


class NoAnswer(NamedTuple):
    """A failed request: for the description of a group, or (``group_id`` None) for the list of groups."""

    group_id: str | None
    error: KafkaError


Reply = GroupObserved | GroupListing | NoAnswer


class GroupRequests:
    """Requests groups from one cluster; each request is answered or times out.

    A client that leaves a request about a group unanswered may never answer another request about it. librdkafka drops
    a broker that all connections lost, or that metadata did not contain for a moment, and connects to it again; but its
    cache of coordinators keeps the dropped connection, and each request waits for that connection. Or no broker is left
    (librdkafka issue 5301). So a new client repeats all open requests. Timeouts are doubled until there is an answer
    about the group whose request was lost, because the cluster may just be slow.
    """

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._completed_requests: queue.SimpleQueue[tuple[int, str | None, Future[Any]]] = queue.SimpleQueue()
        #: When each request times out, by the monotonic clock.
        self._deadlines: dict[str | None, float] = {}
        self._timeout_s = _FIRST_TIMEOUT_SECONDS
        self._group_of_renewal: str | None = None
        self._client = 0
        self._admin = kafka_admin.AdminClient(confluent_config(kafka))

    def is_pending(self, group_id: str | None) -> bool:
        """True if a request for the group's description (None: for the list of groups) is pending."""
        return group_id in self._deadlines

    def brokers(self, topic: str) -> int:
        """Return the number of brokers, which each receive a list request; ``topic`` shortens the answer. Blocks."""
        return len(self._admin.list_topics(topic, timeout=REQUEST_TIMEOUT_SECONDS).brokers)

    def list(self) -> None:
        """Send ListGroups requests for all groups."""
        future = self._admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_SECONDS)
        self._add_pending(
            None, future, 2 * REQUEST_TIMEOUT_SECONDS
        )  # by then the client reports the brokers that did not answer

    def describe(self, groups: Iterable[str]) -> None:
        """Request each group's description separately, so that a hanging coordinator delays only its own groups."""
        for group_id in groups:
            futures = self._admin.describe_consumer_groups([group_id], request_timeout=_UNREACHED_TIMEOUT_SECONDS)
            self._add_pending(group_id, futures[group_id], self._timeout_s)

    def replies(self, wait: float) -> Iterator[Reply]:
        """Yield answers, and requests that timed out; wait up to ``wait`` seconds for the first answer."""
        replies = [*self._received_replies(wait), *self._timed_out_requests()]
        results = {None if isinstance(reply, GroupListing) else reply.group_id: reply for reply in replies}
        lost = [group_id for group_id, reply in results.items() if any(error.code() < 0 for error in _errors_in(reply))]
        if lost:  # the client itself reported an error, not a broker
            self._renew_client(lost[-1])
        elif self._group_of_renewal in results:
            self._timeout_s = _FIRST_TIMEOUT_SECONDS
        yield from replies

    def _received_replies(self, wait: float) -> Iterator[Reply]:
        try:
            done = [self._completed_requests.get(timeout=wait)]
        except queue.Empty:
            return
        while not self._completed_requests.empty():
            done.append(self._completed_requests.get())
        for client, group_id, future in done:
            if client == self._client:  # answers of a replaced client do not count
                self._deadlines.pop(group_id, None)
                yield _reply(group_id, future)

    def _timed_out_requests(self) -> Iterator[Reply]:
        now = time.monotonic()
        for group_id in [group_id for group_id, by in self._deadlines.items() if by <= now]:
            del self._deadlines[group_id]
            yield NoAnswer(group_id, KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - librdkafka's own codes are spelled so

    def _renew_client(self, group_id: str | None) -> None:
        """Replace the client, which lost a request, by a new one, and send the pending requests again."""
        pending, self._deadlines = self._deadlines, {}
        self._client += 1
        self._admin = kafka_admin.AdminClient(confluent_config(self._kafka))
        self._group_of_renewal, self._timeout_s = group_id, min(2 * self._timeout_s, REQUEST_TIMEOUT_SECONDS)
        if None in pending:
            self.list()
        self.describe(group_id for group_id in pending if group_id is not None)

    def _add_pending(self, group_id: str | None, future: Future[Any], seconds: float) -> None:
        self._deadlines[group_id] = time.monotonic() + seconds
        replies, client = self._completed_requests, self._client
        future.add_done_callback(lambda done: replies.put((client, group_id, done)))


def _errors_in(reply: Reply) -> tuple[KafkaError, ...]:
    return (reply.error,) if isinstance(reply, NoAnswer) else reply.trouble if isinstance(reply, GroupListing) else ()


def _reply(group_id: str | None, future: Future[Any]) -> Reply:
    try:
        result = result_of(future)
        return listing(result) if group_id is None else answer(result)
    except KafkaException as error:
        problem: KafkaError = error.args[0]
        if problem.code() == KafkaError._DESTROY:  # noqa: SLF001 - its word for an answer that it can't read
            problem = KafkaError(KafkaError.INVALID_RECORD, "a member's assignment can't be read")
        return NoAnswer(group_id, problem)
    except MalformedRecord as error:
        return NoAnswer(group_id, KafkaError(KafkaError.INVALID_RECORD, str(error)))


def listing(result: Any) -> GroupListing:
    """Convert a ``ListConsumerGroupsResult``, without dead groups and groups that only have offsets."""
    groups = []
    for group in result.valid:
        is_consumer = group.type.name == "CONSUMER"
        state = _STATE_NAMES.get(group.state.name, _UNKNOWN_STATE_NAMES if is_consumer else None)
        if not group.is_simple_consumer_group and state != DEAD_STATE:
            groups.append(ListedState(group.group_id, state, cost=1 if is_consumer else 2))
    return GroupListing(tuple(groups), tuple(result.errors))


def answer(description: Any) -> GroupObserved:
    """Convert a ``ConsumerGroupDescription`` into a snapshot; a group that never had members is reported as dead.

    Raises:
        MalformedRecord: a member's assignment, which its leader wrote, has an impossible topic or partition.
    """
    is_consumer = description.type.name == "CONSUMER"
    members = [
        ObservedMember(
            member_id=member.member_id,
            topics=[],
            assigned=_partitions(member.assignment),
            target=_partitions(member.target_assignment) if is_consumer and member.target_assignment else None,
            group_instance_id=member.group_instance_id or None,
            client_id=member.client_id,
            client_host=member.host,
        )
        for member in description.members
    ]
    # The likelier of the two unnamed states: Reconciling if members still move partitions, Assigning if there is no new
    # target.
    between = "Reconciling" if any(member.assigned != member.target for member in members) else "Assigning"
    state = _STATE_NAMES.get(description.state.name, between if is_consumer else "Unknown")
    return GroupObserved(
        group_id=description.group_id,
        timestamp=0,
        members=members,
        group_protocol="consumer" if is_consumer else "classic",
        protocol=description.partition_assignor or None,
        state=DEAD_STATE if description.is_simple_consumer_group else state,
    )


def _partitions(assignment: Any) -> Partitions:
    pairs = []
    for place in assignment.topic_partitions:
        if place.partition < 0:
            raise MalformedRecord(f"an assignment: {place.partition} is not a partition number")
        try:
            pairs.append((place.topic, (place.partition,)))
        except UnicodeDecodeError as error:  # confluent-kafka decodes the topic name only now
            raise MalformedRecord("an assignment: the name of a topic is not UTF-8") from error
    return merged(pairs)
