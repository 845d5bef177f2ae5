import asyncio
import subprocess
import sys
from typing import Any
from unittest.mock import AsyncMock, Mock

import confluent_kafka
import kafka
import pytest

from assignors.errors import BadInput
from streaming.listener import Listener
from streaming.listener import confluent as confluent_module
from streaming.listener import kafka_python as kafka_module
from streaming.listener.membership import join_template

UNREACHABLE_ADDRESS = "127.0.0.1:1"


def called(mock: Mock) -> list[str]:
    """Return the names of the mock's methods that were called, in order."""
    return [name for name, *_ in mock.method_calls]


def test_importing_the_listener_loads_no_client_and_no_spark() -> None:
    modules = "{'confluent_kafka', 'kafka', 'pydantic', 'pyspark', 'pandas', 'numpy'}"
    code = f"import sys; from streaming.listener import Listener; print(sorted({modules} & sys.modules.keys()))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


def test_wrapped_confluent_consumer_keeps_its_type() -> None:
    listener = Listener(UNREACHABLE_ADDRESS)
    wrapped_class = listener.wrap(confluent_kafka.Consumer)
    assert issubclass(wrapped_class, confluent_kafka.Consumer)
    assert (wrapped_class.__name__, wrapped_class.poll) == ("Consumer", confluent_kafka.Consumer.poll)
    consumer = wrapped_class({"bootstrap.servers": UNREACHABLE_ADDRESS, "group.id": "g", "log_level": 0})
    consumer.subscribe(["t"], on_assign=lambda *_: None)
    assert consumer.poll(0.01) is None
    consumer.unsubscribe()
    consumer.close()
    listener.close(0)


def test_consumer_without_a_group_gets_no_listener() -> None:
    listener = Listener(UNREACHABLE_ADDRESS)
    with pytest.raises(ValueError, match=r"group\.id"):  # the client's own value
        listener.wrap(confluent_kafka.Consumer)({"bootstrap.servers": UNREACHABLE_ADDRESS})
    assert confluent_module.read_configuration({}) is None
    listener.close(0)


def test_wrapped_object_that_is_not_a_consumer_is_refused() -> None:
    with pytest.raises(BadInput, match="dict is not a consumer"):
        Listener(UNREACHABLE_ADDRESS).wrap(dict)


def test_failing_application_callback_fails_and_is_reported() -> None:
    reporter = Mock()
    with pytest.raises(KeyError, match="mine"):
        confluent_module._chain_callbacks(Mock(side_effect=KeyError("mine")), reporter.assigned)(None, [])
    confluent_module._chain_callbacks(None, reporter.lost)(None, [])
    assert called(reporter) == ["assigned", "lost"]


def test_librdkafka_configuration_is_read() -> None:
    client_description: Any = confluent_module.read_configuration(
        {
            "group.id": "g",
            "client.id": "app",
            "group.instance.id": "i",
            "client.rack": "r",
            "session.timeout.ms": "9000",
            "partition.assignment.strategy": "cooperative-sticky",
        }
    )
    assert client_description == join_template(
        "g",
        client_id="app",
        client_host=client_description.client_host,
        group_instance_id="i",
        rack_id="r",
        assignors=["cooperative-sticky"],
        session_timeout_ms=9000,
        rebalance_timeout_ms=300_000,
    )
    modern: Any = confluent_module.read_configuration({"group.id": "g", "group.protocol": "consumer"})
    assert (modern.group_protocol, modern.assignors) == ("consumer", [])


def test_regex_subscription_reports_no_topics() -> None:
    subscribed: list[list[str]] = []

    class Client:
        def subscribe(self, _: list[str], **callbacks: Any) -> None:
            assert callbacks.keys() == {"on_assign", "on_revoke", "on_lost"}

    class WrappedConsumer(confluent_module.ConfluentReporting, Client):
        def __init__(self) -> None:
            self._reporter: Any = Mock(subscribed=subscribed.append)

    for topics in (["a", "^b.*"], ["a", "b"]):
        WrappedConsumer().subscribe(topics)
    assert subscribed == [[], ["a", "b"]]


def test_generation_is_read_from_librdkafka_group_metadata() -> None:
    assert confluent_module.librdkafka_generation(b"CGMDv2:" + (7).to_bytes(4, sys.byteorder) + b"x") == 7
    assert confluent_module.librdkafka_generation(b"other") == -1


def test_kafka_python_configuration_is_read() -> None:
    config = kafka.KafkaConsumer.DEFAULT_CONFIG | {"group_id": "g", "client_id": "app"}
    client_description: Any = kafka_module.read_configuration(config)
    assert (client_description.client_id, client_description.assignors) == ("app", ["range", "roundrobin"])
    assert (client_description.session_timeout_ms, client_description.rebalance_timeout_ms) == (45_000, 300_000)
    assert kafka_module.read_configuration(config | {"group_id": None}) is None


def test_a_kafka_python_listener_is_called_first() -> None:
    mock = Mock()
    wrapper: Any = kafka_module._ReportingListener(mock.own, mock.reporter)
    wrapper.on_partitions_assigned([])
    wrapper.on_partitions_revoked([])
    kafka_module._ReportingListener(None, mock.reporter).on_partitions_lost([])
    assert called(mock) == [
        *("own.on_partitions_assigned", "reporter.assigned"),
        *("own.on_partitions_revoked", "reporter.revoked"),
        "reporter.lost",
    ]


def test_async_listener_is_called_too() -> None:
    mock = Mock(own=AsyncMock())
    mock.own.on_partitions_revoked.side_effect = KeyError("mine")
    wrapper: Any = kafka_module._AsyncReportingListener(mock.own, mock.reporter)
    asyncio.run(wrapper.on_partitions_assigned([]))
    with pytest.raises(KeyError, match="mine"):
        asyncio.run(wrapper.on_partitions_revoked([]))
    assert called(mock) == [
        *("own.on_partitions_assigned", "reporter.assigned"),
        *("own.on_partitions_revoked", "reporter.revoked"),
    ]
