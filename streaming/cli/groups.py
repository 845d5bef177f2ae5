"""``rebalance-monitor groups``: all groups, a line each."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from streaming.cli.options import AsJson, command, connected

if TYPE_CHECKING:
    from streaming.settings.config import Settings


@command("Example: rebalance-monitor groups --json | jq -r 'select(.state == \"stuck\").groupId'")
@connected
def groups(settings: Settings, *, as_json: AsJson = False) -> None:
    """All groups: kind, state, members, downtime today (UTC), open incidents, and what happened last."""
    from streaming.answers.output import json_lines
    from streaming.answers.progress import Progress
    from streaming.answers.standing import line, standings
    from streaming.cli.groups_view import group_table
    from streaming.cli.render import skipped
    from streaming.kafka.newest import read_groups
    from streaming.process.terminal import console

    with Progress("records read") as progress:
        told = read_groups(settings, on_malformed=skipped, each=progress.step)
    found = standings(*told, now_ms=time.time_ns() // 1_000_000)
    if not as_json:
        console(wide=True).print(group_table(found))
        return
    write = json_lines()
    for one in found:
        write(line(one))
