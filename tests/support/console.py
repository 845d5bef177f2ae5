"""Command blocks of a Markdown page as one shell script: what a reader would type."""

import re
from pathlib import Path

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def script(page: Path) -> str:
    """The commands (``$ …``) of all ``console`` blocks in order, with their continuation lines (``> …``)."""
    lines = []
    for block in _BLOCK.findall(page.read_text()):
        for line in block.splitlines():
            if line.startswith(("$ ", "> ")):
                lines.append(line[2:])
            elif line == ">":
                lines.append("")
    return "\n".join(lines) + "\n"
