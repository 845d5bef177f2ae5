"""The compose project of this repository under a name and on ports of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from streaming.kafka.runtime import free_ports
from tests.support.container import DEFAULT_IMAGE, docker_client, image_or_skip, missing

ROOT = Path(__file__).parents[2]
BASE_IMAGE = "debian:13.1-slim"


class Compose:
    """One project; ``env`` are the variables that docker-compose.yml reads."""

    def __init__(self, command: list[str], env: Mapping[str, str]) -> None:
        self.name = f"rebalance-monitor-test-{uuid.uuid4().hex[:8]}"
        self.env = dict(env)
        self._command = [*command, "--project-name", self.name]

    def run(self, *arguments: str, timeout: float = 120) -> str:
        """What the command prints; the test fails with its output when it fails."""
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
            pytest.fail(
                f"docker-compose {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout[-4000:]}"
            )
        return done.stdout

    def left(self) -> dict[str, list[str]]:
        """Names of everything in the engine that belongs to the project."""
        client = docker_client()
        mine = {"label": f"com.docker.compose.project={self.name}"}
        return {
            "containers": sorted(c.name for c in client.containers.list(all=True, filters=mine)),
            "volumes": sorted(v.name for v in client.volumes.list(filters=mine)),
            "networks": sorted(n.name for n in client.networks.list(filters=mine)),
        }

    def states(self) -> dict[str, tuple[str, int]]:
        """Service → health (or state, where it has no check) and restarts."""
        found = {}
        for container in docker_client().containers.list(
            all=True, filters={"label": f"com.docker.compose.project={self.name}"}
        ):
            state = container.attrs["State"]
            service = container.labels["com.docker.compose.service"]
            found[service] = (state.get("Health", state)["Status"], container.attrs["RestartCount"])
        return found


def _command() -> list[str]:
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0:
        return ["docker", "compose"]
    missing("neither docker-compose nor the compose plugin of docker is installed")
    raise AssertionError


@contextmanager
def compose_project() -> Iterator[Compose]:
    """The project, not started; all of it is gone afterwards."""
    docker_client()
    command = _command()
    kafka, serve = free_ports(2)
    env = {
        "BASE_IMAGE": image_or_skip(os.environ.get("BASE_IMAGE", BASE_IMAGE)),
        "KAFKA_IMAGE": image_or_skip(os.environ.get("KAFKA_IMAGE", DEFAULT_IMAGE)),
        "MONITOR_TAG": "test",
        "NATIVE": os.environ.get("NATIVE", ""),  # Rust and its packages are most of the build
        "KAFKA_PORT": str(kafka),
        "SERVE_PORT": str(serve),
        "DOCKER_BUILDKIT": os.environ.get(
            "DOCKER_BUILDKIT", "0"
        ),  # the plugin that BuildKit needs may be missing
    }
    project = Compose(command, env)
    try:
        yield project
    finally:
        if any(project.left().values()):
            project.run("--profile", "demo", "down", "--volumes", "--timeout", "5")
