"""``rebalance-monitor config``: the settings in force, and whether they work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from streaming.cli.options import AsJson, connected

if TYPE_CHECKING:
    from streaming.settings.config import Settings

config = typer.Typer(
    no_args_is_help=True, epilog="Example: rebalance-monitor config check --bootstrap-servers kafka:9092"
)


@config.command(epilog="Example: rebalance-monitor config show --config monitor.toml")
@connected
def show(settings: Settings, *, as_json: AsJson = False) -> None:
    """Print every setting as it is in force, as TOML; secrets are masked."""
    from streaming.answers.output import json_lines
    from streaming.process.plain import say
    from streaming.settings.config import as_toml

    if as_json:
        json_lines()(settings.model_dump(mode="json", exclude_none=True))
        return
    for line in as_toml(settings):
        say(line)


@config.command(epilog="Example: rebalance-monitor config check --config monitor.toml")
@connected
def check(settings: Settings) -> None:
    """Read the settings, connect with them, and name the first thing that is wrong."""
    from streaming.kafka.clients import check_reachable
    from streaming.process.plain import say

    kafka = settings.kafka
    say(f"ok: cluster {check_reachable(kafka)} at {kafka.bootstrap_servers} ({kafka.security_protocol})")
