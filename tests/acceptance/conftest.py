from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.support.browser import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Run a browser for the tests of one module; while the browser runs, no other test changes the network."""
    with chromium() as browser:
        yield browser
