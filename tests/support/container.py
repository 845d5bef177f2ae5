"""A Kafka broker in a container of the image ``KAFKA_IMAGE``, with the same interface as the embedded broker."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from streaming.kafka.runtime import free_ports
from tests.support.requirements import missing
from tests.support.wait import eventually

DEFAULT_IMAGE = "apache/kafka:4.3.1"
#: Label of every container and image that the tests create, so that leftovers can be found.
CONTAINER_LABEL = "io.github.kafka-rebalance-monitor.tests"
_ENVIRONMENT = {
    # This process may run in a container; the broker is always on this machine's loopback. Without this setting
    # testcontainers would use the bridge's address where a file /.dockerenv exists.
    "TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1",
    "TESTCONTAINERS_CONNECTION_MODE": "docker_host",
    # The reaper would need another image; the context manager and the label are used for cleanup instead.
    "TESTCONTAINERS_RYUK_DISABLED": "true",
}


def docker_client() -> Any:
    """Return a client of the Docker engine. Without an engine the test is skipped; in CI it fails."""
    import docker
    from docker.errors import DockerException

    try:
        client = docker.from_env()
        client.ping()
    except DockerException as error:
        missing(f"no Docker engine is available ({error})")
    return client


def image_or_skip(name: str) -> str:
    """Return the image name ``name`` once the image is on this machine; a missing image is pulled."""
    from docker.errors import DockerException

    images = docker_client().images
    try:
        images.get(name)
    except DockerException:
        try:
            images.pull(name)
        except DockerException as error:
            missing(f"image {name} is missing and can't be pulled ({error}); set KAFKA_IMAGE to another")
    return name


def variables(properties: Mapping[str, str]) -> dict[str, str]:
    """Return broker properties as environment variables of the apache/kafka image."""
    return {
        "KAFKA_" + name.replace("-", "___").replace("_", "__").replace(".", "_").upper(): value
        for name, value in properties.items()
    }


class Container:
    """A running broker container as a :class:`~tests.support.kafka.Kafka`."""

    def __init__(self, container: Any, bootstrap_servers: str) -> None:
        self._container = container
        self.bootstrap_servers = bootstrap_servers

    def log_text(self) -> str:
        return "".join(part.decode(errors="replace") for part in self._container.get_logs())


@contextmanager
def kafka_container(properties: Mapping[str, str]) -> Iterator[Container]:
    """Run a one-node cluster in a container for clients on this machine; remove the container afterwards."""
    image = image_or_skip(os.environ.get("KAFKA_IMAGE", DEFAULT_IMAGE))
    os.environ.update(_ENVIRONMENT)
    from testcontainers.core.container import DockerContainer

    (port,) = free_ports(1)  # chosen here because the broker has to advertise this port
    servers = f"127.0.0.1:{port}"
    container = DockerContainer(image)
    container.ports["9092/tcp"] = ("127.0.0.1", port)  # the default is every interface
    container.with_kwargs(labels={CONTAINER_LABEL: "broker"})
    for name, value in variables(
        {**_NODE_PROPERTIES, "advertised.listeners": f"PLAINTEXT://{servers},{_CONTAINER_LISTENER}", **properties}
    ).items():
        container.with_env(name, value)
    with container:
        started = Container(container, servers)
        try:
            eventually(lambda: _is_available(servers))
        except AssertionError:
            pytest.fail(f"the broker is not available:\n{started.log_text()[-3000:]}")
        yield started


#: The broker reaches itself inside the container, where the mapped port does not exist.
_CONTAINER_LISTENER = "BROKER://localhost:19092"
_NODE_PROPERTIES = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://:9092,BROKER://:19092,CONTROLLER://:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "BROKER",
}


def _is_available(servers: str) -> bool:
    """Return true if the broker responds to requests; the broker's log has no line that proves this."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    # Clients log refused connections while the broker starts.
    admin = AdminClient({"bootstrap.servers": servers, "error_cb": lambda _: None, "log_level": 0})
    try:
        admin.list_topics(timeout=10)
    except KafkaException:
        return False
    return True
