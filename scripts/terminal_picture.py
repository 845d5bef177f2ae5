"""Draws docs/images/terminal.svg, the README's picture of a real demo, from diffs on standard input.

``rebalance-monitor demo --json | python scripts/terminal_picture.py``
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import msgspec
from rich.console import Console

from streaming.cli.diff_lines import diff_lines
from streaming.records.diffs import Diff

PICTURE_PATH = Path(__file__).resolve().parent.parent / "docs" / "images" / "terminal.svg"
#: Number of rounds that fit the page, from the first cooperative follow-up round on.
ROUND_COUNT = 7
#: rich's SVG requests its typeface from a font server; the reader's monospace font replaces it.
_FONT_FACES = re.compile(r"@font-face \{.*?\}", re.DOTALL)


def main() -> None:
    """Read diffs from standard input, and draw the rounds with the most changes."""
    diffs = [msgspec.json.decode(line, type=Diff) for line in sys.stdin.buffer]
    first = next((number for number, diff in enumerate(diffs) if diff.round > 1), 1) - 1
    console = Console(record=True, width=96, file=io.StringIO(), force_terminal=True, highlight=False)
    for diff in diffs[first : first + ROUND_COUNT]:
        for line in diff_lines(diff):
            console.print(line)
    svg_text = console.export_svg(title="rebalance-monitor demo")
    PICTURE_PATH.write_text(_FONT_FACES.sub("", svg_text))


if __name__ == "__main__":
    main()
