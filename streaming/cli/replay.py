"""``rebalance-monitor replay``: the diffs of the membership log, computed again without Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from streaming.cli.options import AsJson, OnlyGroup, Session, command, long_running


@command("Example: rebalance-monitor replay --group orders --check")
@long_running
def replay(
    session: Session,
    *,
    group: OnlyGroup = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare with the diff topic; exit 1 when they differ.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compute the diffs of the membership topic again, without Spark, and show or compare them."""
    from streaming.checks.replay import differences
    from streaming.checks.replay import replay as replayed
    from streaming.cli.render import print_diffs
    from streaming.process.plain import say, warn

    if not check:
        stop = session.stop
        print_diffs(replayed(session.settings, group, until=stop.is_set), as_json=as_json)
        return
    found = 0
    for line in differences(session.settings, group):
        say(line)
        found += 1
    warn(f"{found or 'no'} differences")
    if found:
        raise typer.Exit(1)
