"""``rebalance-monitor watch``: diffs as they land."""

from __future__ import annotations

from typing import Annotated

import typer

from streaming.cli.options import AsJson, OnlyGroup, Session, command, long_running

_FromBeginning = Annotated[bool, typer.Option("--from-beginning", help="Start at the oldest diff.")]
_ExitAtEnd = Annotated[bool, typer.Option("--exit-at-end", help="Stop at what is there now.")]


@command("Example: rebalance-monitor watch --group orders --from-beginning --json | jq .moved")
@long_running
def watch(
    session: Session,
    *,
    group: OnlyGroup = None,
    from_beginning: _FromBeginning = False,
    exit_at_end: _ExitAtEnd = False,
    as_json: AsJson = False,
) -> None:
    """Show diffs as they land: who caused each round and what moved, each diff once."""
    stop, settings = session.stop, session.settings
    from streaming.cli.render import print_diffs, skipped
    from streaming.kafka.reader import read_diffs

    records = read_diffs(
        settings,
        until=stop.is_set,
        exit_at_end=exit_at_end,
        on_malformed=skipped,
        from_beginning=from_beginning,
        group=group,
    )
    print_diffs(records, as_json=as_json)
