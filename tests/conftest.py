"""Pytest options and hypothesis profiles of all tests."""

import os
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import HealthCheck, settings

from tests.support.kafka import Kafka, kafka_under_test

# The same examples for everyone who waits on CI; new ones for whoever works on the code. No example is too slow
# on a busy machine.
untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", untimed, derandomize=True)
settings.register_profile("work", untimed, print_blob=True)
# JVMs of tests live for seconds: to compile thoroughly takes them longer than it saves.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
settings.load_profile("ci" if os.environ.get("CI") else "work")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option ``--oracle-cases N``: random cases per family and seed against the released Java classes."""
    parser.addoption("--oracle-cases", type=int, default=None, help="random oracle cases a family and seed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """If ``KAFKA_UNDER_TEST`` selects another cluster, run only the tests that use the cluster."""
    if os.environ.get("KAFKA_UNDER_TEST", "embedded") == "embedded":
        return
    config.hook.pytest_deselected(items=[item for item in items if "broker" not in _fixture_names(item)])
    items[:] = [item for item in items if "broker" in _fixture_names(item)]


def _fixture_names(item: pytest.Item) -> Sequence[str]:
    return getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def broker() -> Iterator[Kafka]:
    """One Kafka cluster for the whole run; each test uses its own topics and groups, with unique names."""
    with kafka_under_test() as kafka:
        yield kafka
