"""Programs that some tests need and a machine may lack: npm, Chromium, Docker."""

import os
from typing import NoReturn

import pytest


def missing(reason: str) -> NoReturn:
    """Skip the test with a visible reason; in CI, which must run every test, fail instead."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason}; CI must run this test")
    pytest.skip(reason)
