"""The command ``cost`` prints the cost of rebalances as a table, JSON Lines or CSV; an unknown cost is not zero."""

import csv
import json
import time

import pytest
from msgspec import structs

from streaming.records.codec import encode
from streaming.records.cost import total_cost
from streaming.records.episodes import Cost, Downtime, Episode, key
from tests.support.compacted import EPISODES, checkout_group, episode_records
from tests.support.memory_kafka import MemoryKafka
from tests.unit.streaming.cli.conftest import Command, table_cells

NOW_MS = time.time_ns() // 1_000_000
MESSAGES = Cost(delayed_messages=(10, 20), worst_delay_ms=(3000, 4000), peak_lag=(7, 7), catch_up_ms=(1000, None))
KNOWN_DOWNTIME = Downtime(lower_ms=5000, upper_ms=9000, total_ms=(5000, 9000))


def episode(number: int, group: str, days: float, **changes: object) -> Episode:
    newest, at = episode_records(checkout_group())[-1].episode, int(NOW_MS - days * 86_400_000)
    times = {"opened_at": at, "updated_at": at, "closed_at": at}
    return structs.replace(newest, group_id=group, episode=number, **times, **changes)


@pytest.fixture
def week_of_episodes(kafka: MemoryKafka) -> MemoryKafka:
    kafka.create(EPISODES)
    for record in (
        episode(1, "pay", 8, cost=MESSAGES),
        episode(2, "pay", 2, cost=MESSAGES, downtime=KNOWN_DOWNTIME),
        episode(3, "pay", 1),
        episode(1, "ship", 1, cost=structs.replace(MESSAGES, catch_up_ms=(0, 0))),
    ):
        kafka.append(EPISODES, encode(record), key=key(record.group_id, record.episode))
    return kafka


def test_unknown_values_widen_the_bounds() -> None:
    measured_episode, second = episode(1, "g", 1, cost=MESSAGES), episode(2, "g", 1, cost=MESSAGES)
    both = total_cost([measured_episode, second])
    assert (both.delayed_messages, both.worst_delay_ms, both.peak_lag) == ((20, 40), (3000, 4000), (7, 7))
    assert (both.catch_up_ms, both.measured) == ((2000, None), 2)
    partly = total_cost([measured_episode, episode(3, "g", 1)])
    assert (partly.delayed_messages, partly.peak_lag, partly.measured) == ((10, None), (7, None), 1)
    assert (total_cost([]).delayed_messages, total_cost([]).downtime) == (None, None)


@pytest.mark.usefixtures("week_of_episodes")
def test_json_has_one_line_per_group(command: Command) -> None:
    status, out, errors = command("cost", "--json")
    pay_cost, ship_cost = (json.loads(line) for line in out.splitlines())
    assert (status, errors, pay_cost["groupId"], ship_cost["groupId"]) == (0, "", "pay", "ship")
    assert (pay_cost["cost"]["episodes"], pay_cost["cost"]["delayedMessages"]) == (2, [10, None])
    assert (ship_cost["cost"]["delayedMessages"], ship_cost["cost"]["downtime"]) == ([10, 20], None)


@pytest.mark.usefixtures("week_of_episodes")
def test_table_has_one_row_per_group(command: Command) -> None:
    out = command("cost", "--since", "7d")[1]
    rows = table_cells(out)
    assert rows[0][4:] == ["5.0 s to 9.0 s", "≥ 10", "≥ 3.0 s", "≥ 7", "≥ 1.0 s"]
    assert rows[1][4:] == ["unknown", "10 to 20", "3.0 s to 4.0 s", "7", "0 ms"]


@pytest.mark.usefixtures("week_of_episodes")
def test_csv_has_one_row_per_episode(command: Command) -> None:
    status, out, _ = command("cost", "pay", "--since", "30d", "--csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert (status, [row["episode"] for row in rows]) == (0, ["1", "2", "3"])
    assert [row["delayed_messages max"] for row in rows] == ["20", "20", ""]
    assert [row["downtime min"] for row in rows] == ["", "5000", ""]


@pytest.mark.usefixtures("week_of_episodes")
def test_json_and_csv_exclude_each_other(command: Command) -> None:
    assert command("cost", "--json", "--csv") == (2, "", "error: --json and --csv: give one of them\n")
