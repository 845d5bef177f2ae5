"""Measures requests, layout shift and paint times of the page in Chromium: ``make bench-page``.

One server on the same machine serves generated groups; the results are medians of several loads.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, expect

from benchmarks._document import describe_machine, table, write_section
from tests.support.browser import PAINT_SCRIPT, chromium
from tests.support.command import command

WINDOW_SIZES = {"1440": (1440, 900), "1024": (1024, 800), "390": (390, 844), "1440 at 200 %": (720, 450)}
PAGE_VIEWS = {"overview": ("/", ".grid-row:not([hidden])"), "group": ("/groups/orders", ".members li")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--loads", type=int, default=5)
    parser.add_argument("--document", action="store_true", help="write the results to docs/benchmarks.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        arguments = ("--database", str(Path(folder) / "h.sqlite"), "--stories", "--groups", str(options.groups))
        started = command(*arguments, module="tests.support.memory_server")
        with subprocess.Popen(started, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
            url = (server.stdout or sys.stdin).readline().split()[-1]
            rows = [
                (view, size, *(f"{statistics.median(of):.3g}" for of in zip(*loads, strict=True)))
                for view in PAGE_VIEWS
                for size in WINDOW_SIZES
                for loads in [[load(browser, url, view, size) for _ in range(options.loads)]]
            ]
            server.terminate()
    heads = ("view", "width", "requests", "layout shift", "first paint, ms", "largest paint, ms")
    text = f"## Loading the page\n\n{describe_machine()}; {options.groups} groups of 40 rounds.\n\n{table(heads, rows)}"
    print(text)
    if options.document:
        write_section("Loading the page", text)


def load(browser: Browser, url: str, view: str, size: str) -> tuple[float, float, float, float]:
    """Open a view of the page in a new browser context; return requests, layout shift, first and largest paint (ms)."""
    path, shown = PAGE_VIEWS[view]
    width, height = WINDOW_SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height})
    context.add_init_script(PAINT_SCRIPT)
    page = context.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(f"{url}{path}")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    expect(page.locator(shown).first).to_be_visible()
    page.wait_for_timeout(500)  # later layout shifts would count
    paints = page.evaluate("paints")
    context.close()
    return len(requests), paints["shift"], paints["firstMs"], paints["largestMs"]


if __name__ == "__main__":
    main()
