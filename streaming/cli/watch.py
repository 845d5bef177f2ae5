"""``watch`` and ``replay``: diffs as they arrive, and computed again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.options import AsJson, OnlyGroup, Session, command, long_running

if TYPE_CHECKING:
    from streaming.cli.stories import StoryFollower
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
    from streaming.cli.render import print_diffs, warn_skipped
    from streaming.cli.stories import StoryFollower
    from streaming.kafka.diff_reader import read_diffs

    with ExitStack() as held:
        told = (
            held.enter_context(
                StoryFollower(
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
        until = stop.is_set if exit_at_end else _with_freshness(settings, stop, held)
        records = read_diffs(
            settings,
            until=until if told is None else _with_stories(told, until),
            exit_at_end=exit_at_end,
            on_malformed=warn_skipped,
            from_beginning=from_beginning,
            group=group,
        )
        print_diffs(records if told is None else told.above(records), as_json=as_json)


def _with_stories(told: StoryFollower, until: Callable[[], bool]) -> Callable[[], bool]:
    """The same question, before which stories are told that have changed."""

    def telling() -> bool:
        told.look(time.monotonic())
        return until()

    return telling


def _with_freshness(settings: Settings, stop: threading.Event, held: ExitStack) -> Callable[[], bool]:
    """Whether to stop: asked ten times a second, and first when the diffs can be read.

    From then on it reports components whose heartbeats stop; ``held`` ends that.
    """
    from streaming.cli.stories import FreshnessWarnings
    from streaming.kafka.heartbeats import HeartbeatTracker

    told: FreshnessWarnings | None = None

    def until() -> bool:
        nonlocal told
        if told is None:
            told = FreshnessWarnings(held.enter_context(HeartbeatTracker(settings)).freshness)
        told.look(time.monotonic(), time.time())
        return stop.is_set()

    return until


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
