"""Options of the whole suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.kafka import Kafka, kafka_under_test


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--oracle-cases N``: random cases a family, against the released Java classes."""
    parser.addoption("--oracle-cases", type=int, default=None, help="random oracle cases a family and seed")


@pytest.fixture(scope="session")
def broker() -> Iterator[Kafka]:
    """One cluster for the whole run; tests keep apart by unique topic and group names."""
    with kafka_under_test() as kafka:
        yield kafka
