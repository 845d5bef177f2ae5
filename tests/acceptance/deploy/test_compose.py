"""The compose project from images built here: it comes up, a diff reaches the feed, `down -v` leaves nothing.

``make test-long`` builds them with the native rounds (``NATIVE=yes``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.request import urlopen

import pytest

from tests.support.compose import Compose, compose_project
from tests.support.kafka import eventually

pytestmark = [pytest.mark.container, pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def project() -> Iterator[Compose]:
    with compose_project() as made:
        made.run("build", "serve", timeout=900)  # the one image of all components
        made.run("--profile", "demo", "up", "--detach", timeout=300)
        yield made


def groups(project: Compose) -> dict[str, int]:
    """Group → rounds, as a client of the feed gets them first."""
    try:
        with urlopen(f"http://127.0.0.1:{project.env['SERVE_PORT']}/api/stream", timeout=30) as feed:
            for line in feed:
                if line.startswith(b"data: "):
                    return {group["groupId"]: group["rounds"] for group in json.loads(line[6:])["groups"]}
    except OSError:  # Docker's proxy listens before the server does
        return {}
    pytest.fail("the feed ended before its snapshot")


def test_diffs_of_every_demo_group_arrive_on_the_feed(project: Compose) -> None:
    wanted = {"demo-eager", "demo-cooperative", "demo-consumer"}
    eventually(lambda: wanted <= groups(project).keys(), timeout=240, every=1)


def test_every_component_is_healthy_and_none_was_restarted(project: Compose) -> None:
    components = ("kafka", "collector", "stream", "serve")
    healthy = dict.fromkeys(components, ("healthy", 0))
    eventually(
        lambda: {name: state for name, state in project.states().items() if name in components} == healthy,
        timeout=180,
        every=1,
    )


def test_stopped_components_drain_and_exit_0(project: Compose) -> None:
    project.run("stop", "collector", "stream", "serve")
    assert {
        name: status for name, status in exits(project).items() if name in {"collector", "stream", "serve"}
    } == {"collector": 0, "stream": 0, "serve": 0}


def exits(project: Compose) -> dict[str, int]:
    from tests.support.container import docker_client

    mine = docker_client().containers.list(
        all=True, filters={"label": f"com.docker.compose.project={project.name}"}
    )
    return {
        container.labels["com.docker.compose.service"]: container.attrs["State"]["ExitCode"]
        for container in mine
    }


def test_down_leaves_nothing(project: Compose) -> None:
    project.run("--profile", "demo", "down", "--volumes", "--timeout", "5")
    assert project.left() == {"containers": [], "volumes": [], "networks": []}
