"""The command ``watch``: diffs as they are published, with episode stories and freshness warnings."""

import time
from contextlib import ExitStack
from typing import Any

from streaming.cli.options import AsJson, GroupFlag, Session, flag, long_running, time_option
from streaming.records.events import MAX_TIMESTAMP


@long_running(
    "rebalance-monitor watch",
    "rebalance-monitor watch --group orders --from-beginning --json | jq .moved",
    "rebalance-monitor watch --from 2026-01-31T09:00:00Z --to 2026-01-31T09:30:00Z --stories",
)
def watch(
    session: Session,
    *,
    group: GroupFlag = None,
    from_beginning: bool = flag("--from-beginning", "Start at the oldest diff in the topic."),
    exit_at_end: bool = flag("--exit-at-end", "Exit after the newest diff in the topic."),
    stories: bool = flag("--stories", "Print the story of an episode when it changes, above its diffs."),
    since: int | None = time_option("--from", "Replay the diffs from this time on; exit at the end."),
    until_: int | None = time_option("--to", "Replay the diffs until this time; then exit."),
    as_json: AsJson = False,
) -> None:
    """Follow the diffs: the cause of each round and the partitions that moved. Each diff is printed once.

    --from and --to replay the membership log instead. TIME is RFC 3339, or milliseconds since the epoch.
    """
    stop, settings = session.stop, session.settings
    from streaming.cli.diff_lines import print_diffs
    from streaming.cli.output import warn_skipped

    if since is not None or until_ is not None:
        from streaming.cli.replay import print_replay
        from streaming.kafka.group_reader import read_log, replay_sinks
        from streaming.recording.history import RecordedHistory

        end = MAX_TIMESTAMP if until_ is None else until_
        log = read_log(settings, group, until=stop.is_set)
        steps = RecordedHistory(replay_sinks(settings)).steps(log, until_ms=end, until=stop.is_set)
        print_replay(steps, since or 0, stories=stories, as_json=as_json)
        return
    from streaming.cli.stories import FreshnessWarnings, StoryFollower
    from streaming.kafka.diff_reader import read_diffs
    from streaming.kafka.heartbeats import HeartbeatTracker

    chosen: dict[str, Any] = {"group": group, "from_beginning": from_beginning}
    with ExitStack() as stack:
        follower: StoryFollower | None = None
        warnings: FreshnessWarnings | None = None
        if stories:
            made = StoryFollower(settings, as_json=as_json, follow=not exit_at_end, stopped=stop.is_set, **chosen)
            follower = stack.enter_context(made)

        def until() -> bool:
            """Print changed stories and warnings of missing heartbeats; return True once the command is to end."""
            nonlocal warnings
            if follower is not None:
                follower.poll(time.monotonic())
            if not exit_at_end:
                if warnings is None:  # the first call starts reading the heartbeats
                    warnings = FreshnessWarnings(stack.enter_context(HeartbeatTracker(settings)).freshness)
                warnings.poll(time.monotonic(), time.time())
            return stop.is_set()

        records = read_diffs(settings, until=until, on_malformed=warn_skipped, exit_at_end=exit_at_end, **chosen)
        print_diffs(records if follower is None else follower.with_stories(records), as_json=as_json)
