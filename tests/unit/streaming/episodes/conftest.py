"""Fixtures for the tests of episodes."""

import pytest

from tests.support.built_diffs import DiffBuilder
from tests.unit.streaming.episodes.test_kinds import started


@pytest.fixture
def builder() -> DiffBuilder:
    """Return a group of three members whose first episode has ended."""
    return started()
