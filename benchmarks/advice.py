"""Measures ``advise --all`` over 1,000 groups with 30 days of episodes: ``make bench-advice``.

The measurement goes from topic records to advice: decoding, the choice of rounds, rules and replays. Reading from
brokers is not measured. ``ARGS=--write`` puts the figures into the docs.
"""

import argparse
import os
import resource
import time
from collections.abc import Iterator

from msgspec import structs

from benchmarks._document import describe_machine, table, write_section
from streaming.advice.history import DAY_MS, GroupHistory
from streaming.advice.rules import advise_all, episodes_to_read
from streaming.cli.advise import ALL_GROUPS_WORK_LIMIT, Budget
from streaming.records.codec import encode
from streaming.records.diffs import Diff, LatestAssignment
from streaming.records.episodes import Episode, decode_episode
from tests.support.advice import deploy, stopped
from tests.support.built_diffs import DiffBuilder
from tests.support.compacted import episode_records, latest

GROUPS = 1000
HISTORY_DAYS = 30


def group_templates() -> list[tuple[list[Episode], LatestAssignment, dict[str, Diff]]]:
    """Return one day of episodes of three groups: one with deploys, one with crashes, one that scales out and in."""
    large = deploy(DiffBuilder(60).join(*[f"pay-{number}@h{number}#1" for number in range(10)]))
    crash_diffs = DiffBuilder(12).join(*[f"c{number}@h{number}#1" for number in range(4)])
    crash_diffs.fence("c0@h0#1", after=3600).join("c0@new#2", after=5)
    scaled = DiffBuilder(24).join(*[f"s{number}@h{number}#1" for number in range(6)])
    scaled.join("s6@h6#1", after=3600).leave("s6@h6#1", after=3600)
    measured = []
    for builder in (large, crash_diffs, scaled):
        episodes = [stopped(record.episode, 8000) for record in episode_records(builder)[1:]]
        measured.append((episodes, latest(builder), dict(builder.diffs)))
    return measured


def encoded_records(now_ms: int) -> Iterator[tuple[bytes, LatestAssignment, dict[str, Diff]]]:
    """Yield each episode of each group, encoded, with the group's latest assignment and rounds."""
    kinds = group_templates()
    for group in range(GROUPS):
        episodes, assignment, rounds = kinds[group % len(kinds)]
        name = f"group-{group}"
        named_assignment = structs.replace(assignment, group_id=name)
        for day in range(HISTORY_DAYS):
            for place, episode in enumerate(episodes):
                number = day * len(episodes) + place + 2
                shift_ms = now_ms - (HISTORY_DAYS - day) * DAY_MS + DAY_MS // 2 - episode.opened_at
                moved = structs.replace(
                    episode,
                    group_id=name,
                    episode=number,
                    opened_at=episode.opened_at + shift_ms,
                    closed_at=episode.updated_at + shift_ms,
                    updated_at=episode.updated_at + shift_ms,
                )
                yield encode(moved), named_assignment, rounds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the figures to docs/benchmarks.md")
    arguments = parser.parse_args()
    now_ms = 1_800_000_000_000
    encoded = list(encoded_records(now_ms))
    started, cpu = time.perf_counter(), time.process_time()
    episodes: dict[str, list[Episode]] = {}
    assignments_and_rounds: dict[str, tuple[LatestAssignment, dict[str, Diff]]] = {}
    for value, assignment, rounds in encoded:
        episode = decode_episode(value)
        episodes.setdefault(episode.group_id, []).append(episode)
        assignments_and_rounds[episode.group_id] = assignment, rounds
    read: dict[str, dict[int, list[Diff]]] = {name: {} for name in episodes}
    for episode in episodes_to_read((episode for group in episodes.values() for episode in group), now_ms):
        diffs = assignments_and_rounds[episode.group_id][1]
        read[episode.group_id][episode.episode] = [diffs[ce_id] for ce_id in episode.rounds]
    histories = [
        GroupHistory(name, now_ms, group_episodes, assignments_and_rounds[name][0], rounds=read[name])
        for name, group_episodes in episodes.items()
    ]
    advice = advise_all(histories, Budget(ALL_GROUPS_WORK_LIMIT))
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    replayed = sum(item.saving is not None for item in advice)
    row = [
        f"{GROUPS} groups, {len(encoded)} episodes",
        f"{seconds:.1f}",
        f"{cpu:.1f}",
        f"{peak:.0f}",
        str(len(advice)),
        str(replayed),
    ]
    figures = table(["", "s", "CPU s", "MB at most", "advice", "with a replayed saving"], [row])
    print(figures)
    if arguments.write:
        head = "## Advice\n\n`make bench-advice`: `advise --all` from the topics' records to the answer"
        load = f"beside other work (load {os.getloadavg()[0]:.0f})"
        write_section("advice", f"{head}, without reading them, {load}; {describe_machine()}.\n\n{figures}")


if __name__ == "__main__":
    main()
