"""``rebalance-monitor demo``: real rebalances of real consumers on this machine, as per-member diffs."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from streaming.cli.options import Session, command, long_running

_Elsewhere = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        metavar="HOST:PORT",
        help="Play on this cluster, in topics and groups of its own.",
        show_default="a broker of its own",
    ),
]


@command("Example: rebalance-monitor demo --duration 60 --json | jq -c .cause")
@partial(long_running, bootstrap_servers=_Elsewhere)
def demo(
    session: Session,
    *,
    duration: Annotated[
        float, typer.Option("--duration", min=1, metavar="SECONDS", help="Length of the story.")
    ] = 60,
    as_json: Annotated[bool, typer.Option("--json", help="Diffs as JSON Lines and nothing else.")] = False,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Keep logs and consumers' reports there.")
    ] = None,
) -> None:
    """A broker, an eager and a cooperative group, collector and Spark job; each diff shows as it lands."""
    stop, settings = session.stop, session.settings
    from streaming.cli.live import JsonView, TerminalView
    from streaming.demo.runner import play, stage_folder

    with ExitStack() as stack:
        folder = stack.enter_context(stage_folder(keep))
        view: JsonView | TerminalView = JsonView() if as_json else TerminalView()
        stack.enter_context(view)
        summary = play(
            duration=duration,
            folder=folder,
            view=view,
            stop=stop,
            settings=settings,
            embedded=session.bootstrap_servers is None,
        )
    view.summary(summary)
    if summary.agreement.differences:
        raise typer.Exit(1)
