"""Accessibility checks of a page with axe-core, which npm downloads once into the user's cache."""

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from streaming.kafka.jars import cache_dir, lock_file
from tests.support.requirements import missing

VERSION = "4.14.1"

#: Every rule set of axe-core, including best practices; experimental rules are excluded.
_AXE_SCRIPT = """async () => (await axe.run(document, { runOnly: {
  type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
} })).violations.map(({ id, help, nodes }) => ({ id, help, nodes: nodes.map(({ html, failureSummary, target }) =>
  `${target}: ${html.slice(0, 200)} ${failureSummary}`) }))"""


@cache
def axe_core() -> str:
    """Return the source of axe-core's script. Without npm the test is skipped; in CI it fails."""
    done = cache_dir("npm") / f"axe-core-{VERSION}"
    script = done / "node_modules" / "axe-core" / "axe.min.js"
    with lock_file(done.with_name(f".{done.name}.lock")):
        if not script.is_file():
            _install_axe(done)
    return script.read_text()


def _install_axe(done: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        missing("npm is missing; it downloads axe-core: apt-get install npm")
    with tempfile.TemporaryDirectory(dir=done.parent) as folder:
        place = Path(folder) / "axe"
        place.mkdir()
        options = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "--no-package-lock")
        command = [npm, "install", *options, "--prefix", str(place), f"axe-core@{VERSION}"]
        completed_process = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert completed_process.returncode == 0, completed_process.stderr
        place.rename(done)


def violations(page: Page) -> list[dict[str, Any]]:
    """Return axe-core's violations on a page; each names the rule, its help text and the elements."""
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(axe_core())
    result: list[dict[str, Any]] = page.evaluate(_AXE_SCRIPT)
    return result
