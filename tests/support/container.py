"""A broker in a container, of the image that ``KAFKA_IMAGE`` names, with the same face as the embedded one."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any

import pytest

DEFAULT_IMAGE = "apache/kafka:4.3.1"
#: On every container and image that the tests make, so that leftovers can be found.
LABEL = "io.github.kafka-rebalance-monitor.tests"
_START_SECONDS = 60.0
_SCRIPT = "/tmp/start-broker"  # noqa: S108 - inside the container
_ENVIRONMENT = {
    # The start-up of this process may be anywhere; the broker is always on this machine's loopback. Where a file
    # /.dockerenv exists testcontainers would take the bridge's address instead.
    "TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1",
    "TESTCONTAINERS_CONNECTION_MODE": "docker_host",
    # The reaper is one more image to pull; the context manager and the label clean up.
    "TESTCONTAINERS_RYUK_DISABLED": "true",
}


def docker_client() -> Any:
    """A client of the Docker engine: skips the test without one, fails it in CI."""
    import docker
    from docker.errors import DockerException

    try:
        client = docker.from_env()
        client.ping()
    except DockerException as error:
        missing(f"no Docker engine answers ({error})")
    return client


def missing(reason: str) -> None:
    """What a container test needs is not there: a visible skip on a laptop, a failure in CI."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason}; CI must run the container tests")
    pytest.skip(reason)


def image_or_skip(name: str) -> str:
    """``name`` once it is on this machine, pulled when it was not."""
    from docker.errors import DockerException

    images = docker_client().images
    try:
        images.get(name)
    except DockerException:
        try:
            images.pull(name)
        except DockerException as error:
            missing(f"image {name} is not here and can't be pulled ({error}); KAFKA_IMAGE names another")
    return name


def variables(properties: Mapping[str, str]) -> dict[str, str]:
    """Broker properties as apache/kafka reads them from the environment."""
    return {
        "KAFKA_" + name.replace("-", "___").replace("_", "__").replace(".", "_").upper(): value
        for name, value in properties.items()
    }


class Container:
    """A started broker container as the tests' cluster."""

    def __init__(self, container: Any, port: int) -> None:
        self._container = container
        self.bootstrap_servers = f"127.0.0.1:{port}"

    def log_text(self) -> str:
        """What the broker has logged so far."""
        return "".join(part.decode(errors="replace") for part in self._container.get_logs())


@contextmanager
def kafka_container(properties: Mapping[str, str]) -> Iterator[Container]:
    """A one-node cluster in a container, ready for clients of this machine; gone afterwards.

    The port that Docker chose is known only once the container runs, and the broker must advertise it: so the
    container waits for a start script that names it.
    """
    image = image_or_skip(os.environ.get("KAFKA_IMAGE", DEFAULT_IMAGE))
    os.environ.update(_ENVIRONMENT)
    from testcontainers.core.container import DockerContainer

    container = DockerContainer(image)
    container.ports["9092/tcp"] = ("127.0.0.1", None)  # the default would be every interface
    container.with_command(["sh", "-c", f"until [ -f {_SCRIPT} ]; do sleep 0.05; done; exec sh {_SCRIPT}"])
    container.with_kwargs(labels={LABEL: "broker"})
    for name, value in variables({**_node(), **properties}).items():
        container.with_env(name, value)
    with container:
        host, port = container.get_container_host_ip(), int(container.get_exposed_port(9092))
        assert host == "127.0.0.1", f"the broker must be on the loopback, not on {host}"
        _inject(
            container,
            f"export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://127.0.0.1:{port},BROKER://localhost:19092\n"
            "exec /etc/kafka/docker/run\n",
        )
        started = Container(container, port)
        _await(started)
        yield started


def _node() -> dict[str, str]:
    return {
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.quorum.voters": "1@localhost:9093",
        "listeners": "PLAINTEXT://:9092,BROKER://:19092,CONTROLLER://:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        # The broker reaches itself inside the container, where the mapped port does not exist.
        "inter.broker.listener.name": "BROKER",
    }


def _inject(container: Any, script: str) -> None:
    """The script appears whole: put under another name, then renamed."""
    content = script.encode()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        entry = tarfile.TarInfo(f"{_SCRIPT}.new".lstrip("/"))
        entry.size, entry.mode = len(content), 0o755
        tar.addfile(entry, io.BytesIO(content))
    wrapped = container.get_wrapped_container()
    wrapped.put_archive("/", archive.getvalue())
    status, output = wrapped.exec_run(["mv", f"{_SCRIPT}.new", _SCRIPT], user="root")
    assert status == 0, output


def _await(started: Container) -> None:
    """Until the broker answers: its log has no line that means it."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    def quiet(_: object) -> None:
        """Refused connections are expected while the broker starts."""

    admin = AdminClient(
        {
            "bootstrap.servers": started.bootstrap_servers,
            "error_cb": quiet,
            "log_level": 0,
            "reconnect.backoff.max.ms": 200,
        }
    )
    by = monotonic() + _START_SECONDS
    while True:
        try:
            admin.list_topics(timeout=2)
        except KafkaException as error:
            if monotonic() > by:
                pytest.fail(f"the broker does not answer ({error}):\n{started.log_text()[-3000:]}")
        else:
            return
