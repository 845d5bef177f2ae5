"""``rebalance-monitor doctor``: what is missing, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.options import AsJson, command, connected

if TYPE_CHECKING:
    from streaming.settings.config import Settings


@command("Example: rebalance-monitor doctor --bootstrap-servers kafka:9092 --checkpoint ./state")
@connected
def doctor(
    settings: Settings,
    *,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", metavar="DIR", help="Look at this checkpoint, too.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check Java, jars, broker, permissions, topics and checkpoint; exit 3 when something is missing."""
    from streaming.answers.output import json_lines
    from streaming.checks.doctor import examine
    from streaming.process.plain import say

    marks = {True: "ok", False: "!!", None: "--"}
    write = json_lines()
    healthy = True
    for finding in examine(settings, checkpoint):
        healthy = healthy and finding.ok is True
        if as_json:
            write(finding)
        else:
            say(f"{marks[finding.ok]}  {finding.check:<12} {finding.text}")
    if not healthy:
        raise typer.Exit(3)
