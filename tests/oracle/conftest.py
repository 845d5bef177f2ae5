"""Fixtures of the oracle: one JVM per jar set for the whole run, and the number of random cases."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.oracle.driver import Oracle

#: Number of random cases: small in the suite; ``ORACLE_CASES=20000`` (or ``--oracle-cases 20000``) for the full
#: comparison.
DEFAULT_CASES = 300


@pytest.fixture(scope="session")
def oracle() -> Iterator[Callable[[str], Oracle]]:
    """Return a function that starts the JVM of a jar set on first use, such as ``oracle("current")``."""
    running: dict[str, Oracle] = {}
    with ExitStack() as stack:

        def started(jarset: str) -> Oracle:
            if jarset not in running:
                running[jarset] = stack.enter_context(Oracle(jarset))
            return running[jarset]

        yield started


@pytest.fixture(scope="session")
def oracle_cases(request: pytest.FixtureRequest) -> int:
    """Return the number of random cases per family and seed."""
    cases = request.config.getoption("--oracle-cases", default=None)
    return int(cases or os.environ.get("ORACLE_CASES") or DEFAULT_CASES)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests in this folder as oracle tests, because they call Java."""
    for item in items:
        if "tests/oracle/" in item.path.as_posix():
            item.add_marker(pytest.mark.oracle)
            if "oracle_cases" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.long)
