"""``broker``, ``config``, ``dlt``, ``doctor`` and ``topics``: set-up and checks of a deployment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assignors.errors import BadInput
from streaming.cli.options import AsJson, CoordinatorLogs, command, connected, offline

if TYPE_CHECKING:
    from streaming.settings.config import Settings


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
    from streaming.cli.output import json_lines
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


config = typer.Typer(
    no_args_is_help=True, epilog="Example: rebalance-monitor config check --bootstrap-servers kafka:9092"
)


@config.command(epilog="Example: rebalance-monitor config show --config monitor.toml")
@connected
def show(settings: Settings, *, as_json: AsJson = False) -> None:
    """Print every setting as it is in force, as TOML; secrets are masked."""
    from streaming.cli.output import json_lines
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


dlt = typer.Typer(no_args_is_help=True, epilog="Example: rebalance-monitor dlt list --json | jq .message")


class NothingToResubmit(BadInput):
    """Name what to send again: PARTITION:OFFSET …, or --all."""


@dlt.command("list", epilog="Example: rebalance-monitor dlt list --bootstrap-servers kafka:9092")
@connected
def list_(settings: Settings, *, as_json: AsJson = False) -> None:
    """What could not be used, and why."""
    from streaming.cli.output import json_lines
    from streaming.cli.render import dead_letter_table
    from streaming.kafka.dead_letters import read
    from streaming.process.terminal import console

    letters = read(settings)
    if not as_json:
        console().print(dead_letter_table(letters))
        return
    write = json_lines()
    for letter in letters:
        write(letter)


@dlt.command(epilog="Example: rebalance-monitor dlt resubmit 0:17 2:4 --bootstrap-servers kafka:9092")
@connected
def resubmit(
    settings: Settings,
    places: Annotated[list[str] | None, typer.Argument(metavar="[PARTITION:OFFSET]...")] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="All that is in the topic.")] = False,
) -> None:
    """Send dead letters to the membership topic again, as they were."""
    if bool(places) == everything:
        raise NothingToResubmit
    from streaming.kafka import dead_letters
    from streaming.process.plain import say

    letters = dead_letters.read(settings)
    sent = dead_letters.resubmit(
        settings, letters if everything else dead_letters.pick(letters, places or [])
    )
    say(f"{sent} sent to {settings.topics.membership}")


@command("Example: rebalance-monitor doctor --bootstrap-servers kafka:9092 --checkpoint ./state")
@connected
def doctor(
    settings: Settings,
    *,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", metavar="DIR", help="Look at this checkpoint, too.")
    ] = None,
    coordinator_log: CoordinatorLogs = None,
    as_json: AsJson = False,
) -> None:
    """Check Java, jars, broker, permissions, topics, checkpoint and logs; exit 3 when something is missing."""
    from streaming.checks.doctor import examine
    from streaming.cli.output import json_lines
    from streaming.process.plain import say

    marks = {True: "ok", False: "!!", None: "--"}
    write = json_lines()
    healthy = True
    for finding in examine(settings, checkpoint, coordinator_log or ()):
        healthy = healthy and finding.ok is True
        if as_json:
            write(finding)
        else:
            say(f"{marks[finding.ok]}  {finding.check:<12} {finding.text}")
    if not healthy:
        raise typer.Exit(3)


@command("Example: rebalance-monitor topics --create --bootstrap-servers kafka:9092")
@connected
def topics(
    settings: Settings,
    *,
    create: Annotated[bool, typer.Option("--create", help="Make what is missing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the monitor's topics; with --create, make those that are missing."""
    from streaming.cli.output import camel_case, json_lines
    from streaming.cli.render import topic_table
    from streaming.kafka.topics import describe_topics, ensure_topics
    from streaming.process.plain import say
    from streaming.process.terminal import console

    states = (ensure_topics if create else describe_topics)(settings, settings.topics.made)
    if as_json:
        write = json_lines()
        for state in states:
            write(camel_case(state))
        return
    console().print(topic_table(states))
    for state in states:
        if state.problem:
            say(state.problem)
