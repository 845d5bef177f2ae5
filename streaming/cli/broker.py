"""``rebalance-monitor broker``: an embedded broker in the foreground."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streaming.cli.options import AsJson, command, offline


@command(
    "Example: rebalance-monitor broker --port 9092 --data-dir ./kafka "
    "--property offsets.topic.num.partitions=50"
)
@offline
def broker(
    *,
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65535, help="A free one when left out.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="Kept; a temporary one when left out.")
    ] = None,
    version: Annotated[str | None, typer.Option("--version", help="Of Kafka.", show_default="4.3.1")] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="Broker property. Repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a one-node Kafka cluster on 127.0.0.1 until Ctrl-C or SIGTERM."""
    from assignors.errors import BadInput
    from streaming.answers.output import json_lines
    from streaming.kafka.broker import BrokerDied, EmbeddedBroker
    from streaming.kafka.runtime import DEFAULT_VERSION
    from streaming.process.plain import say
    from streaming.process.signals import stop_on_signals

    extra = {}
    for text in properties or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise BadInput(f"--property {text}: NAME=VALUE is needed")
        extra[name] = value
    stop = stop_on_signals()
    with EmbeddedBroker(
        port=port, data_dir=data_dir, version=version or DEFAULT_VERSION, properties=extra
    ) as one:
        if as_json:
            write = json_lines()
            write({"bootstrapServers": one.bootstrap_servers, "log": str(one.log_path), "pid": one.pid})
        else:
            say(f"Kafka {version or DEFAULT_VERSION} at {one.bootstrap_servers}, log {one.log_path}")
        while not stop.wait(0.2):
            if not one.running:
                raise BrokerDied(f"the broker ended with status {one.wait()}; see {one.log_path}")
