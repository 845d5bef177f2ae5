"""``rebalance-monitor demo``: real rebalances of real consumers on this machine, as per-member diffs."""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.options import Config, LogFormat, TopicPrefix, Verbose

if TYPE_CHECKING:
    from streaming.demo.runner import Summary

app = typer.Typer(invoke_without_command=True)


@app.callback(epilog="Example: rebalance-monitor demo --duration 60 --json | jq -c .cause")
def demo(
    *,
    duration: Annotated[
        float, typer.Option("--duration", min=1, metavar="SECONDS", help="Length of the story.")
    ] = 60,
    as_json: Annotated[bool, typer.Option("--json", help="Diffs as JSON Lines and nothing else.")] = False,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Keep logs and consumers' reports there.")
    ] = None,
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-servers",
            metavar="HOST:PORT",
            help="Play on this cluster, in topics and groups of its own.",
            show_default="a broker of its own",
        ),
    ] = None,
    config: Config = None,
    topic_prefix: TopicPrefix = None,
    log_format: LogFormat = "text",
    verbose: Verbose = False,
) -> None:
    """A broker, an eager and a cooperative group, collector and Spark job; each diff shows as it lands."""
    from streaming.cli.signals import stop_on_signals

    stop = stop_on_signals()  # before the slow imports: a signal meanwhile is an order too
    from streaming.cli.live import JsonView, TerminalView
    from streaming.demo.runner import play
    from streaming.process import log
    from streaming.settings.config import load

    log.configure(log_format, verbose=verbose)
    settings = load(config, bootstrap_servers=bootstrap_servers, topic_prefix=topic_prefix)
    with ExitStack() as stack:
        if keep is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rebalance-demo-")))
        else:
            folder = keep
            folder.mkdir(parents=True, exist_ok=True)
        view: JsonView | TerminalView = JsonView() if as_json else TerminalView()
        stack.enter_context(view)
        summary = play(
            duration=duration,
            folder=folder,
            view=view,
            stop=stop,
            settings=settings,
            embedded=bootstrap_servers is None,
        )
    _report(summary, as_json)


def _report(summary: Summary, as_json: bool) -> None:
    """The summary for a person; where diffs go to a program, only disagreement is worth a line of stderr."""
    from rich.console import Console

    from streaming.cli.live import summary_lines

    if not as_json:
        console = Console(highlight=False)
        for line in summary_lines(summary):
            console.print(line)
    for difference in summary.agreement.differences:
        print(f"the consumers disagree: {difference}", file=sys.stderr)
    if summary.agreement.differences:
        raise typer.Exit(1)
