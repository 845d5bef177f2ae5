"""Fixtures for the tests of the monitor."""

import pytest

from streaming.monitor.bucket_state import Bucket
from tests.support.histories import Log


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()
