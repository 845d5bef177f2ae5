"""The command ``top`` lists the groups with the worst status first."""

import json

from streaming.cli.groups import sort_worst_first
from streaming.recording.overview import GroupOverview
from tests.support.built_diffs import DiffBuilder
from tests.support.compacted import checkout_group, episode_records, latest
from tests.support.memory_kafka import MemoryKafka
from tests.unit.streaming.cli.conftest import Command


def test_top_prints_one_table_per_reading_in_a_pipe(command: Command, groups: MemoryKafka) -> None:
    status, out, errors = command("top", "--count", "2", "--interval", "1")
    assert (status, errors) == (0, "")
    rows = [line.split("│")[1].strip() for line in out.splitlines() if "consumer" in line]
    assert rows == ["flappy", "team/checkout"] * 2


def test_top_json_equals_groups_json(command: Command, groups: MemoryKafka) -> None:
    _, out, _ = command("top", "--json", "--count", "1", "--limit", "1")
    (line,) = out.splitlines()
    assert json.loads(line)["groupId"] == "flappy"
    assert command("groups", "--json")[1].splitlines()[0] == line


def test_the_worst_status_is_first() -> None:
    stable_group = GroupOverview(latest(checkout_group()), list(reversed(episode_records(checkout_group()))))
    settling_group = DiffBuilder(group_id="settling").join("a")
    left = DiffBuilder(group_id="empty").join("a").leave("a")
    overviews = [
        GroupOverview(latest(left), list(reversed(episode_records(left)))),
        stable_group,
        GroupOverview(latest(settling_group), list(reversed(episode_records(settling_group, over=False)))),
    ]
    statuses = [overview.status.status for overview in sort_worst_first(overviews)]
    assert statuses == sorted(statuses, key=["settling", "stable", "empty"].index)
    assert statuses[-1] == "empty"
