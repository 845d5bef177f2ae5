"""Debian's Chromium, driven by playwright; records the page's requests and console errors."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.support.processes import process_lock
from tests.support.requirements import missing

#: Timeout for conditions whose duration a test does not limit: a busy machine may take long.
TIMEOUT_MS = 60_000
expect.set_options(timeout=TIMEOUT_MS)

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

#: Script that lists elements wider than their container, which cause horizontal scrolling.
WIDE_ELEMENTS_SCRIPT = """() => [document.documentElement, ...document.querySelectorAll(".diff, .card")]
  .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.className)"""

#: Init script that records layout shifts and paint times while the page loads.
PAINT_SCRIPT = """
window.paints = { shift: 0, largestMs: 0 };
const observe = (type, take) =>
  new PerformanceObserver((list) => list.getEntries().forEach(take)).observe({ type, buffered: true });
observe("layout-shift", (entry) => { paints.shift += entry.value; });
observe("largest-contentful-paint", (entry) => { paints.largestMs = entry.startTime; });
observe("paint", (entry) => { if (entry.name === "first-contentful-paint") paints.firstMs = entry.startTime; });
"""

#: Folder of the docs' pictures with ``WRITE_IMAGES=1``, else a temporary one, so that tests leave the tree clean.
IMAGE_FOLDER = Path(__file__).parents[2] / "docs" / "images"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium for the block. Without Chromium the test is skipped; in CI it fails."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        missing("Chromium is missing: apt-get install chromium")
    with process_lock("network", shared=True), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


@dataclass
class WatchedPage:
    """A browser page with the origins from which it requested files, and its console errors."""

    page: Page
    requested_origins: set[str] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on(
            "request",
            lambda request: self.requested_origins.add("{0.scheme}://{0.netloc}".format(urlsplit(request.url))),
        )
        self.page.on("pageerror", lambda error: self.errors.append(f"uncaught: {error}"))
        self.page.on("console", self._message)

    def _message(self, message: ConsoleMessage) -> None:
        """Record errors and warnings on the page's console, except those for changes of the host's network."""
        if message.type in ("error", "warning") and "net::ERR_NETWORK_CHANGED" not in message.text:
            self.errors.append(message.text)


def open_page(
    browser: Browser, url: str, *, theme: str = "light", height: int = 900, timezone: str | None = None
) -> WatchedPage:
    context = browser.new_context(
        viewport={"width": 1440, "height": height}, color_scheme=theme, reduced_motion="reduce", timezone_id=timezone
    )
    context.set_default_timeout(TIMEOUT_MS)
    watched = WatchedPage(context.new_page())
    watched.page.goto(url)
    return watched


def take_screenshot(page: Page, name: str, folder: Path) -> Path:
    """Take a screenshot of the page; the picture is stored in the docs if ``WRITE_IMAGES`` is set."""
    path = (IMAGE_FOLDER if os.environ.get("WRITE_IMAGES") else folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=path)
    return path
