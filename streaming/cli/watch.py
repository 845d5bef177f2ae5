"""``rebalance-monitor watch``: diffs as they land."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.options import AsJson, OnlyGroup, Session, command, long_running

if TYPE_CHECKING:
    from streaming.cli.stories import StoriesTold
    from streaming.settings.config import Settings

_FromBeginning = Annotated[bool, typer.Option("--from-beginning", help="Start at the oldest diff.")]
_Stories = Annotated[
    bool, typer.Option("--stories", help="Tell each episode when it changes, above its diffs.")
]
_ExitAtEnd = Annotated[bool, typer.Option("--exit-at-end", help="Stop at what is there now.")]


@command("Example: rebalance-monitor watch --group orders --from-beginning --json | jq .moved")
@long_running
def watch(
    session: Session,
    *,
    group: OnlyGroup = None,
    from_beginning: _FromBeginning = False,
    exit_at_end: _ExitAtEnd = False,
    stories: _Stories = False,
    as_json: AsJson = False,
) -> None:
    """Show diffs as they land: who caused each round and what moved, each diff once."""
    stop, settings = session.stop, session.settings
    from streaming.cli.render import print_diffs, skipped
    from streaming.cli.stories import StoriesTold
    from streaming.kafka.reader import read_diffs

    with ExitStack() as held:
        told = (
            held.enter_context(
                StoriesTold(
                    settings,
                    as_json=as_json,
                    group=group,
                    from_beginning=from_beginning,
                    follow=not exit_at_end,
                    stopped=stop.is_set,
                )
            )
            if stories
            else None
        )
        until = stop.is_set if exit_at_end else _listening(settings, stop, held)
        records = read_diffs(
            settings,
            until=until if told is None else _telling(told, until),
            exit_at_end=exit_at_end,
            on_malformed=skipped,
            from_beginning=from_beginning,
            group=group,
        )
        print_diffs(records if told is None else told.above(records), as_json=as_json)


def _telling(told: StoriesTold, until: Callable[[], bool]) -> Callable[[], bool]:
    """The same question, before which stories are told that have changed."""

    def telling() -> bool:
        told.look(time.monotonic())
        return until()

    return telling


def _listening(settings: Settings, stop: threading.Event, held: ExitStack) -> Callable[[], bool]:
    """Whether to stop: asked ten times a second, and first when the diffs can be read.

    From then on it tells what the parts' signs of life say; ``held`` ends that.
    """
    from streaming.cli.freshness import FreshnessTold
    from streaming.kafka.hearing import Hearing

    told: FreshnessTold | None = None

    def until() -> bool:
        nonlocal told
        if told is None:
            told = FreshnessTold(held.enter_context(Hearing(settings)).freshness)
        told.look(time.monotonic(), time.time())
        return stop.is_set()

    return until
