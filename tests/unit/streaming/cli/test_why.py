import json

import pytest
from msgspec import structs

from streaming.records.codec import encode
from streaming.records.episodes import key
from tests.support.built_diffs import CONSUMER_CLOSED_REASON
from tests.support.compacted import EPISODES, INCIDENTS, RESTARTED_MS, STARTED_MS, checkout_group, episode_records
from tests.support.incidents import incident
from tests.support.memory_kafka import MemoryKafka
from tests.unit.streaming.cli.conftest import Command

GROUP = "team/checkout"


def test_why_prints_the_newest_episode(command: Command, groups: MemoryKafka) -> None:
    status, out, errors = command("why", GROUP)
    assert (status, errors) == (0, "")
    assert out.splitlines() == [
        "team/checkout, episode 2: rolling-restart, settled",
        f"  {episode_records(checkout_group())[-1].episode.story}",
        "evidence",
        f"  pay (h1): {CONSUMER_CLOSED_REASON} (coordinator-log)",
        f"  pay (h2): {CONSUMER_CLOSED_REASON} (coordinator-log)",
        "members  3 before, 3 after",
        "  replaced pay (h1) rejoined  by client id and host",
        "  replaced pay (h2) rejoined  by client id and host",
        (
            "rounds  4 in 4 rebalances, 2023-11-14 22:23:21 UTC to 2023-11-14 22:23:36 UTC; "
            "6 partitions moved, 6 of them more than once"
        ),
    ]


@pytest.mark.parametrize(
    ("words", "number"), [([], 2), (["--at", "2023-11-14T22:13:30Z"], 1), (["--at", str(RESTARTED_MS)], 2)]
)
def test_why_json_prints_the_episode_record_unchanged(
    command: Command, groups: MemoryKafka, words: list[str], number: int
) -> None:
    value = episode_records(checkout_group())[number - 1].value.decode()
    assert command("why", GROUP, *words, "--json") == (0, f"{value}\n", "")


def test_why_uses_the_quiet_time_of_the_settings(
    command: Command, groups: MemoryKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = str(STARTED_MS + 120_001)
    assert command("why", GROUP, "--at", at)[0] == 1
    monkeypatch.setenv("REBALANCE_MONITOR_STREAM__EPISODE_QUIET_MS", "120001")
    assert command("why", GROUP, "--at", at)[0] == 0


@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        (["x"], 2, "group x: has no episode; `rebalance-monitor groups` lists all groups"),
        (
            [GROUP, "--at", "2023-11-14T22:00:00Z"],
            1,
            (
                "group team/checkout: no episode was open at 2023-11-14T22:00:00.000Z: "
                "episode 1 began at 2023-11-14T22:13:21.000Z"
            ),
        ),
        (
            [GROUP, "--at", "noon"],
            2,
            "--at noon: write RFC 3339 (2026-01-31T12:00:00Z) or milliseconds since the epoch",
        ),
    ],
)
def test_missing_episode_is_reported_in_one_line(
    command: Command, groups: MemoryKafka, words: list[str], status: int, line: str
) -> None:
    assert command("why", *words, "--json") == (status, "", f"error: {line}\n")


def test_why_names_the_cluster_incident_behind_an_episode(command: Command, groups: MemoryKafka) -> None:
    crash = structs.replace(episode_records(checkout_group("pay"))[-1].episode, kind="crash")
    groups.append(EPISODES, encode(crash), key=key("pay", crash.episode))
    span = {"opened_at": crash.opened_at, "closed_at": crash.opened_at + 9000}
    story = "Broker 1 away: coordinator of 1 group (from 2023-11-14 22:23 to 2023-11-14 22:23 UTC)."
    away = incident("(cluster)", 3, kind="broker-restart", scope="cluster", groups=["pay"], story=story, **span)
    groups.append(INCIDENTS, encode(away), key=key("(cluster)", 3))
    status, out, _ = command("why", "pay", "--json")
    answer = json.loads(out)
    assert (status, answer["cause"], answer["kind"], answer["sure"]) == (0, "(cluster)/3", "coordinator-move", False)
    assert answer["story"].startswith("Broker 1 away: coordinator of 1 group (cluster incident 3); ")
