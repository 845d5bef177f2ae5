from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.support.browser import chromium
from tests.support.feed import MemorySource
from tests.support.served_page import StoryPage, served_page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Run a browser for the tests of one module; while the browser runs, no other test changes the network."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def shown(browser: Browser, tmp_path: Path) -> Iterator[StoryPage]:
    """Return a page, not yet opened, of a server whose records the test writes."""
    with served_page(browser, tmp_path, MemorySource(), "about:blank") as (feed, page):
        yield StoryPage(page, feed)
