"""``rebalance-monitor topics``: the monitor's topics, shown and made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.options import AsJson, command, connected

if TYPE_CHECKING:
    from streaming.settings.config import Settings


@command("Example: rebalance-monitor topics --create --bootstrap-servers kafka:9092")
@connected
def topics(
    settings: Settings,
    *,
    create: Annotated[bool, typer.Option("--create", help="Make what is missing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the monitor's topics; with --create, make those that are missing."""
    from streaming.answers.output import camel_case, json_lines
    from streaming.cli.render import topic_states
    from streaming.kafka.topics import describe_topics, ensure_topics
    from streaming.process.plain import say
    from streaming.process.terminal import console

    states = (ensure_topics if create else describe_topics)(settings, settings.topics.made)
    if as_json:
        write = json_lines()
        for state in states:
            write(camel_case(state))
        return
    console().print(topic_states(states))
    for state in states:
        if state.problem:
            say(state.problem)
