"""The in-memory admin client: topics, configurations, and groups as their coordinators describe them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError, KafkaException, TopicPartition, admin

if TYPE_CHECKING:
    from tests.support.memory_kafka.cluster import MemoryKafka


GroupDescriptions = Mapping[str, admin.ConsumerGroupDescription]


def answered(make: Callable[[], Any], future: Future[Any] | None = None) -> Future[Any]:
    """Return a completed future that holds the result of ``make()`` or the raised error."""
    future = future or Future()
    try:
        future.set_result(make())
    except KafkaException as error:
        future.set_exception(error.with_traceback(None))  # as if from another thread
    return future


def group(
    name: str,
    state: ConsumerGroupState = ConsumerGroupState.STABLE,
    shares: Mapping[str, Iterable[tuple[str, int]]] | None = None,
    *,
    kind: ConsumerGroupType = ConsumerGroupType.CLASSIC,
    target: Mapping[str, Iterable[tuple[str, int]]] | None = None,
) -> admin.ConsumerGroupDescription:
    """Return a group's description: the members with their partitions and, for consumer groups, their targets."""

    def places(share: Iterable[tuple[str, int]]) -> admin.MemberAssignment:
        return admin.MemberAssignment([TopicPartition(*place) for place in share])

    consumer = kind == ConsumerGroupType.CONSUMER
    shares = shares or {}
    members = [
        admin.MemberDescription(
            member_id=member,
            client_id=member,
            host="/127.0.0.1",
            assignment=places(share),
            target_assignment=places((target or shares)[member]) if consumer else None,
        )
        for member, share in shares.items()
    ]
    simple = state == ConsumerGroupState.DEAD
    assignor = "range" if members or consumer else ""
    return admin.ConsumerGroupDescription(name, simple, members, assignor, state, None, type=kind)


class MemoryAdmin:
    """In-memory AdminClient, whose futures are complete at once unless a test delays them."""

    def __init__(self, kafka: "MemoryKafka", config: dict[str, Any]) -> None:
        self._kafka = kafka
        self.config = config
        kafka.admins.append(self)

    def __len__(self) -> int:
        return 0  # how many requests are waiting, as in the real client: an idle client is false

    def poll(self, timeout: float = 0) -> int:
        del timeout
        return 0

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> SimpleNamespace:
        del timeout
        return self._kafka.metadata(topic)

    def describe_topics(
        self, names: Any, *, include_authorized_operations: bool = False, request_timeout: float
    ) -> dict[str, Future[Any]]:
        del request_timeout

        def describe(name: str) -> SimpleNamespace:
            self._kafka.receive("describe_topics")
            denied_operations = self._kafka.denied_operations.get(name, set())
            if "DESCRIBE" in denied_operations:
                raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not allowed"))
            if name not in self._kafka.topics:
                raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "unknown topic"))
            topic = self._kafka.topics[name]
            racks = topic.racks or [[] for _ in topic.logs]
            operations = [operation for operation in admin.AclOperation if operation.name not in denied_operations]
            return SimpleNamespace(
                topic_id=topic.id,
                partitions=[
                    SimpleNamespace(
                        id=number,
                        leader=SimpleNamespace(id=-1 if number in topic.offline else 1),
                        replicas=[SimpleNamespace(rack=rack) for rack in racks[number]],
                    )
                    for number in reversed(range(len(topic.logs)))
                ],
                authorized_operations=operations if include_authorized_operations else None,
            )

        return {name: answered(partial(describe, name)) for name in names.topic_names}

    def describe_consumer_groups(
        self, names: Sequence[str], *, include_authorized_operations: bool = False, request_timeout: float
    ) -> dict[str, Future[Any]]:
        del include_authorized_operations, request_timeout
        if self._kafka.is_silent or self in self._kafka.stale:
            return {name: Future() for name in names}

        def describe(name: str, groups: GroupDescriptions) -> admin.ConsumerGroupDescription:
            self._kafka.receive(f"describe {name}")
            denied_operations = self._kafka.denied_operations.get(name, set())
            if "DESCRIBE" in denied_operations:
                raise KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED, "not allowed"))
            description = groups.get(name) or group(name, ConsumerGroupState.DEAD)
            description.authorized_operations = [
                operation for operation in admin.AclOperation if operation.name not in denied_operations
            ]
            return description

        return {name: self._complete_group_request(f"describe {name}", partial(describe, name)) for name in names}

    def list_consumer_groups(self, *, request_timeout: float) -> Future[admin.ListConsumerGroupsResult]:
        del request_timeout
        if self._kafka.is_silent:
            return Future()

        def listed(groups: GroupDescriptions) -> admin.ListConsumerGroupsResult:
            self._kafka.receive("list_consumer_groups")
            listings = [
                admin.ConsumerGroupListing(
                    name, description.is_simple_consumer_group, description.state, description.type
                )
                for name, description in groups.items()
                if name not in self._kafka.unlisted_groups
            ]
            return admin.ListConsumerGroupsResult(listings, list(self._kafka.list_errors))

        return self._complete_group_request("list_consumer_groups", listed)

    def _complete_group_request(self, request: str, make: Callable[[GroupDescriptions], Any]) -> Future[Any]:
        """Complete a request about groups at once, or in :meth:`MemoryKafka.answer` if its name is in ``slow``."""
        if request not in self._kafka.slow:
            return answered(partial(make, self._kafka.groups))
        late: Future[Any] = Future()
        self._kafka.late.append((late, make))
        return late

    def describe_configs(self, resources: Sequence[Any], request_timeout: float = -1) -> dict[Any, Future[Any]]:
        del request_timeout
        brokers = [resource for resource in resources if resource.restype == admin.ConfigResource.Type.BROKER]
        if len(brokers) > 1:  # rd_kafka_DescribeConfigs: each broker has its own configuration
            raise KafkaException(KafkaError(KafkaError._CONFLICT, "Only one ConfigResource of type BROKER"))

        def describe(resource: Any) -> dict[str, Any]:
            self._kafka.receive("describe_configs")
            if "DESCRIBE_CONFIGS" in self._kafka.denied_operations.get(resource.name, set()):
                raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not allowed"))
            if resource.restype == admin.ConfigResource.Type.BROKER:
                config = self._kafka.brokers[int(resource.name)]
            else:
                config = self._kafka.topics[resource.name].config
            return {key: SimpleNamespace(value=value) for key, value in config.items()}

        return {resource: answered(partial(describe, resource)) for resource in resources}

    def create_topics(self, new: Sequence[Any], **_: Any) -> dict[str, Future[Any]]:
        def create(topic: Any) -> None:
            self._kafka.receive("create_topics")
            if topic.topic in self._kafka.topics:
                raise KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS, "exists"))
            config = {key.replace(".", "_"): value for key, value in topic.config.items()}
            self._kafka.create(topic.topic, topic.num_partitions, **config)

        return {topic.topic: answered(partial(create, topic)) for topic in new}

    def list_offsets(self, specs: dict[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Future[Any]]:
        def offset(place: TopicPartition, spec: Any) -> SimpleNamespace:
            self._kafka.receive("list_offsets")
            if place.topic not in self._kafka.topics:
                raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "unknown topic"))
            log = self._kafka.topics[place.topic].logs[place.partition]
            if "Timestamp" in type(spec).__name__:
                records = [entry for entry in log.entries[log.begins :] if entry is not None]
                late = (record.offset() for record in records if record.timestamp()[1] >= spec.timestamp)
                return SimpleNamespace(offset=next(late, -1))
            return SimpleNamespace(offset=log.begins if "Earliest" in type(spec).__name__ else log.end)

        return {place: answered(partial(offset, place, spec)) for place, spec in specs.items()}
