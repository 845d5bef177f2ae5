"""``rebalance-monitor config``: the settings in force, and whether they work."""

from __future__ import annotations

from typing import Any

import typer

from streaming.cli.options import BootstrapServers, Config, Json, TopicPrefix, Verbose

app = typer.Typer(
    no_args_is_help=True, epilog="Example: rebalance-monitor config check --bootstrap-servers kafka:9092"
)


@app.command(epilog="Example: rebalance-monitor config show --config monitor.toml")
def show(
    *,
    as_json: Json = False,
    bootstrap_servers: BootstrapServers = None,
    config: Config = None,
    topic_prefix: TopicPrefix = None,
    verbose: Verbose = False,
) -> None:
    """Print every setting as it is in force, as TOML; secrets are masked."""
    del verbose
    from streaming.settings.config import load

    settings = load(config, bootstrap_servers=bootstrap_servers, topic_prefix=topic_prefix)
    values = settings.model_dump(mode="json", exclude_none=True)
    if as_json:
        import msgspec

        print(msgspec.json.encode(values).decode())
        return
    for table, entries in values.items():
        print(f"[{table}]")
        for name, value in entries.items():
            print(f"{name} = {_toml(value)}")
        print()


def _toml(value: Any) -> str:
    """A scalar or list; JSON's strings, numbers and lists are TOML's."""
    import json

    return json.dumps(value, ensure_ascii=False)


@app.command(epilog="Example: rebalance-monitor config check --config monitor.toml")
def check(
    *,
    bootstrap_servers: BootstrapServers = None,
    config: Config = None,
    topic_prefix: TopicPrefix = None,
    verbose: Verbose = False,
) -> None:
    """Read the settings, connect with them, and name the first thing that is wrong."""
    import logging

    from streaming.kafka.clients import check_reachable
    from streaming.settings.config import load

    logging.basicConfig(level=logging.DEBUG if verbose else logging.CRITICAL)
    settings = load(config, bootstrap_servers=bootstrap_servers, topic_prefix=topic_prefix)
    cluster = check_reachable(settings.kafka)
    print(f"ok: cluster {cluster} at {settings.kafka.bootstrap_servers} ({settings.kafka.security_protocol})")
