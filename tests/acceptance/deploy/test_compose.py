"""The compose project from images built here: it starts, a diff reaches the feed, `down -v` removes everything.

The containers of ``deploy/kubernetes`` run beside its broker, with their own arguments and restrictions.

``make test-long`` builds the images with the native code of ``rebalance-kernel`` (``NATIVE=yes``).
"""

import json
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from streaming.kafka.runtime import free_ports
from tests.support.container import DEFAULT_IMAGE, docker_client, image_or_skip
from tests.support.kafka import eventually
from tests.support.manifests import KUBERNETES, pods, resources
from tests.support.pods import Pod
from tests.support.processes import process_lock
from tests.support.requirements import missing

pytestmark = [pytest.mark.container, pytest.mark.long, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[3]
BASE_IMAGE = "debian:13.1-slim"


class Compose:
    """The compose project; ``env`` holds the environment variables that docker-compose.yml reads."""

    def __init__(self, command: list[str], env: Mapping[str, str]) -> None:
        self.name = f"rebalance-monitor-test-{uuid.uuid4().hex[:8]}"
        self.env = dict(env)
        self._command = [*command, "--project-name", self.name]

    def run(self, *arguments: str, timeout: float = 120) -> str:
        done = subprocess.run(
            [*self._command, *arguments],
            cwd=ROOT,
            env={**os.environ, **self.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode:
            pytest.fail(f"docker-compose {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout[-4000:]}")
        return done.stdout

    def left(self) -> dict[str, list[str]]:
        """Return the names of all containers, volumes and networks in Docker that belong to the project."""
        client = docker_client()
        project_containers = {"label": f"com.docker.compose.project={self.name}"}
        return {
            "containers": sorted(c.name for c in client.containers.list(all=True, filters=project_containers)),
            "volumes": sorted(v.name for v in client.volumes.list(filters=project_containers)),
            "networks": sorted(n.name for n in client.networks.list(filters=project_containers)),
        }

    def states(self) -> dict[str, tuple[str, int]]:
        """Return the health of each service (the state if it has no health check) and the number of its restarts."""
        states = {}
        for container in docker_client().containers.list(
            all=True, filters={"label": f"com.docker.compose.project={self.name}"}
        ):
            state = container.attrs["State"]
            service = container.labels["com.docker.compose.service"]
            states[service] = (state.get("Health", state)["Status"], container.attrs["RestartCount"])
        return states


def _command() -> list[str]:
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0:
        return ["docker", "compose"]
    missing("neither docker-compose nor the compose plugin of docker is installed")
    raise AssertionError


@contextmanager
def compose_project() -> Iterator[Compose]:
    """Yield the Compose project before it is started; afterwards, remove its containers, volumes and networks."""
    docker_client()
    command = _command()
    kafka, serve = free_ports(2)
    env = {
        "BASE_IMAGE": image_or_skip(os.environ.get("BASE_IMAGE", BASE_IMAGE)),
        "KAFKA_IMAGE": image_or_skip(os.environ.get("KAFKA_IMAGE", DEFAULT_IMAGE)),
        "MONITOR_TAG": "test",
        "NATIVE": os.environ.get("NATIVE", ""),  # without native code the build is much shorter
        "KAFKA_PORT": str(kafka),
        "SERVE_PORT": str(serve),
        "DOCKER_BUILDKIT": os.environ.get("DOCKER_BUILDKIT", "0"),  # the plugin that BuildKit needs may be missing
    }
    project = Compose(command, env)
    before = set(Path("/sys/class/net").iterdir())
    try:
        yield project
    finally:
        if any(project.left().values()):
            project.run("--profile", "demo", "down", "--volumes", "--timeout", "5")
        # The kernel removes interfaces after Docker responds; a browser that notices drops its connections.
        eventually(lambda: set(Path("/sys/class/net").iterdir()) <= before)


@pytest.fixture(scope="module")
def project() -> Iterator[Compose]:
    with process_lock("network"), compose_project() as made:
        made.run("build", "serve", timeout=900)  # one image for all components
        made.run("--profile", "demo", "up", "--detach", timeout=300)
        yield made


def groups(project: Compose) -> dict[str, int]:
    """Return the rounds of each group in the order in which a feed client first receives them."""
    try:
        with urlopen(f"http://127.0.0.1:{project.env['SERVE_PORT']}/api/v1/stream", timeout=30) as feed:
            for line in feed:
                if line.startswith(b"data: "):
                    return {group["groupId"]: group["rounds"] for group in json.loads(line[6:])["groups"]}
    except OSError:  # Docker's proxy listens before the server does
        return {}
    pytest.fail("the feed ended before its snapshot")


def test_diffs_of_every_demo_group_arrive_on_the_feed(project: Compose) -> None:
    wanted = {"demo-eager", "demo-cooperative", "demo-consumer"}
    eventually(lambda: wanted <= groups(project).keys(), timeout=240, every=1)


def test_every_component_is_healthy_without_a_restart(project: Compose) -> None:
    components = ("kafka", "collector", "stream", "serve")
    healthy_states = dict.fromkeys(components, ("healthy", 0))
    eventually(
        lambda: {name: state for name, state in project.states().items() if name in components} == healthy_states,
        timeout=180,
        every=1,
    )


def test_image_is_unprivileged_and_lists_its_contents(project: Compose) -> None:
    image = "kafka-rebalance-monitor:test"
    assert docker_client().images.get(image).attrs["Config"]["User"] == "10001:10001"
    command = ["docker", "run", "--rm", "--interactive", "--entrypoint", "python", image, "-", "/opt/rebalance-monitor"]
    with (ROOT / "scripts" / "sbom.py").open() as script:
        done = subprocess.run(command, stdin=script, capture_output=True, text=True, check=True)
    names = {component["name"] for component in json.loads(done.stdout)["components"]}
    assert names >= {"tini", "pyspark", "kafka-clients", "kafka-rebalance-monitor"}


def test_stopped_components_drain_and_exit_0(project: Compose) -> None:
    project.run("stop", "collector", "stream", "serve")
    assert {
        name: status for name, status in exit_codes(project).items() if name in {"collector", "stream", "serve"}
    } == {"collector": 0, "stream": 0, "serve": 0}


def exit_codes(project: Compose) -> dict[str, int]:
    project_containers = docker_client().containers.list(
        all=True, filters={"label": f"com.docker.compose.project={project.name}"}
    )
    return {
        container.labels["com.docker.compose.service"]: container.attrs["State"]["ExitCode"]
        for container in project_containers
    }


def deployments(folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield component and pod spec of each Deployment in a rendered folder."""
    for path, resource in resources():
        if path.parent.name == folder and resource["kind"] == "Deployment":
            yield resource["metadata"]["labels"]["app.kubernetes.io/component"], pods(resource)[0]


def metric(address: str, name: str) -> float:
    with urlopen(f"http://{address}/metrics", timeout=10) as answer:
        values = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", answer.read().decode(), re.MULTILINE)
    return sum(map(float, values))


def test_containers_of_the_manifests_run_with_their_arguments(project: Compose, tmp_path: Path) -> None:
    """The pods of ``overlays/local`` over the project's broker: they pass their probes, work, and end with status 0."""
    config = KUBERNETES / "base" / "monitor.toml"
    with ExitStack() as stack:
        running = {
            component: stack.enter_context(
                Pod(
                    spec,
                    network=f"{project.name}_default",
                    image="kafka-rebalance-monitor:test",
                    config_map={config.name: config.read_text()},
                    secret={"REBALANCE_MONITOR_KAFKA__BOOTSTRAP_SERVERS": "kafka:19092"},
                    folder=tmp_path,
                )
            )
            for folder in ("base", "stream-local")
            for component, spec in deployments(folder)
        }
        assert set(running) == {"collector", "serve", "stream"}
        for pod in running.values():
            pod.await_probes()
        stream, page = running["stream"].address("stream", "metrics"), running["serve"].address("serve", "http")
        eventually(lambda: metric(stream, "rebalance_monitor_stream_diffs_total") > 0, timeout=120, every=1)
        eventually(lambda: metric(page, "kafka_consumergroup_rounds_total") > 0, timeout=60, every=1)
        stopped = {component: pod.stop() for component, pod in running.items()}
    assert stopped == {component: {component: 0} for component in running}


def test_compose_down_removes_everything(project: Compose) -> None:
    project.run("--profile", "demo", "down", "--volumes", "--timeout", "5")
    assert project.left() == {"containers": [], "volumes": [], "networks": []}
