"""The commands ``broker``, ``config``, ``dlt`` and ``topics``: set-up of a deployment."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from assignors.errors import BadInput, OutsideFailure
from streaming.cli.options import AsJson, connected, example, flag, offline, option
from streaming.cli.output import answer
from streaming.process import print_line
from streaming.process.terminal import nowrap, table

if TYPE_CHECKING:
    from streaming.kafka.dead_letters import DeadLetter
    from streaming.kafka.topics import MonitorTopic
    from streaming.settings.config import Settings


@offline(
    "rebalance-monitor broker --port 9092",
    "rebalance-monitor broker --data-dir ./kafka --property offsets.topic.num.partitions=50",
)
def broker(
    *,
    port: int | None = option("PORT", "Port to listen on.", None, min=1, max=65535, show_default="any free port"),
    data_dir: Path | None = option("DIR", "Folder of the log.", None, show_default="a temporary folder"),
    version: str | None = option("VERSION", "Kafka version.", None, show_default="4.3.1"),
    properties: list[str] | None = option("NAME=VALUE", "Broker property. Repeatable.", None, "--property"),
    as_json: AsJson = False,
) -> None:
    """Run a one-node Kafka cluster on 127.0.0.1 until Ctrl-C or SIGTERM."""
    from streaming.kafka.broker import EmbeddedBroker
    from streaming.kafka.runtime import DEFAULT_VERSION
    from streaming.process.service import stop_on_signals

    extra = {}
    for text in properties or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise BadInput(f"--property {text}: NAME=VALUE is needed")
        extra[name] = value
    stop = stop_on_signals()
    version = version or DEFAULT_VERSION
    with EmbeddedBroker(port=port, data_dir=data_dir, version=version, properties=extra) as embedded:
        place = {"bootstrapServers": embedded.bootstrap_servers, "log": str(embedded.log_path), "pid": embedded.pid}
        text = f"Kafka {version} at {embedded.bootstrap_servers}, log {embedded.log_path}"
        answer([place], [text], as_json=as_json)
        while not stop.wait(0.2):
            if not embedded.running:
                raise OutsideFailure(f"the broker ended with status {embedded.wait()}; see {embedded.log_path}")


config = typer.Typer(
    no_args_is_help=True,
    help="Show the effective settings, or check them against the cluster.",
    epilog=example("rebalance-monitor config check --bootstrap-servers kafka:9092"),
)


@config.command(epilog=example("rebalance-monitor config show --config monitor.toml"))
@connected()
def show(settings: "Settings", *, as_json: AsJson = False) -> None:
    """Print all settings in force as TOML; secrets are masked."""
    from streaming.settings.config import as_toml

    answer([settings.model_dump(mode="json", exclude_none=True)], as_toml(settings), as_json=as_json)


@config.command(epilog=example("rebalance-monitor config check --config monitor.toml"))
@connected()
def check(settings: "Settings") -> None:
    """Read the settings and connect with them; print the first error."""
    from streaming.kafka.clients import check_reachable

    kafka = settings.kafka
    print_line(f"ok: cluster {check_reachable(kafka)} at {kafka.bootstrap_servers} ({kafka.security_protocol})")


dlt = typer.Typer(
    no_args_is_help=True,
    help="List dead letters (events that could not be used), or publish them again.",
    epilog=example("rebalance-monitor dlt list --json | jq .message"),
)


@dlt.command("list", epilog=example("rebalance-monitor dlt list --bootstrap-servers kafka:9092"))
@connected()
def list_(settings: "Settings", *, as_json: AsJson = False) -> None:
    """List dead letters with their partitions, offsets and reasons."""
    from streaming.kafka.dead_letters import read

    dead_letters = read(settings)
    answer(dead_letters, map(dead_letter_table, [dead_letters]), as_json=as_json)  # can be read only once


@dlt.command(epilog=example("rebalance-monitor dlt resubmit 0:17 2:4", "rebalance-monitor dlt resubmit --all"))
@connected()
def resubmit(
    settings: "Settings",
    places: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PARTITION:OFFSET]...",
            help="Positions of dead letters, PARTITION:OFFSET, as `dlt list` shows them.",
        ),
    ] = None,
    *,
    everything: bool = flag("--all", "All dead letters in the topic."),
) -> None:
    """Publish dead letters to the membership topic again, unchanged."""
    if bool(places) == everything:
        raise BadInput("Name the dead letters to publish again: PARTITION:OFFSET …, or --all.")
    from streaming.kafka import dead_letters

    records = dead_letters.read(settings)
    sent = dead_letters.resubmit(settings, records if everything else dead_letters.pick_letters(records, places or []))
    print_line(f"{sent} published to {settings.topics.membership}")


@connected("rebalance-monitor topics --create --bootstrap-servers kafka:9092")
def topics(
    settings: "Settings", *, create: bool = flag("--create", "Create missing topics."), as_json: AsJson = False
) -> None:
    """Show the monitor's topics; with --create, create the missing ones.

    The exit status is 1 if one is missing, or has the wrong cleanup policy.
    """
    from streaming.kafka.topics import describe_topics, ensure_topics

    states = (ensure_topics if create else describe_topics)(settings, settings.topics.made)
    answer(states, [topic_table(states), *(state.problem for state in states if state.problem)], as_json=as_json)
    if not all(state.exists and state.problem is None for state in states):
        raise typer.Exit(1)


def dead_letter_table(dead_letter_list: "Iterable[DeadLetter]") -> Table:
    """Return a table with one row per dead letter: its place, the reason, and its source."""
    rows = []
    for letter in dead_letter_list:
        place = f"{letter.partition}:{letter.offset}"
        source = f"{letter.source_topic} {letter.source_partition}:{letter.source_offset}"
        key = None if letter.key is None else letter.key.decode(errors="backslashreplace")
        rows.append((place, letter.exception, letter.message, source, key))
    return table((nowrap("place"), "reason", "message", "read from", "key"), rows)


def topic_table(states: "Iterable[MonitorTopic]") -> Table:
    """Return a table with one row per topic of the monitor."""
    rows = []
    for state in states:
        policy = state.cleanup_policy or state.wanted_cleanup_policy
        word = "wrong cleanup policy" if state.problem else "ok" if state.exists else "missing"
        rows.append((state.name, policy, state.partitions, state.replication_factor, word))
    return table((nowrap("topic"), "cleanup", "partitions", "replicas", "state"), rows)
