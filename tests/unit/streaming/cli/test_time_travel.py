"""The options ``--at``, ``--from`` and ``--to`` show groups at a past moment, from the membership log alone."""

import json

import pytest

from streaming.kafka.topics import ensure_topics
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings
from tests.support.histories import Log
from tests.support.memory_kafka import MemoryKafka
from tests.unit.streaming.cli.conftest import Command


@pytest.fixture
def log(kafka: MemoryKafka) -> MemoryKafka:
    """Return a cluster with the membership log of group ``g``.

    The topic is created at 1 s, c1 joins at 2 s, c2 joins at 3 s, c1 leaves at 4 s, the group is deleted at 5 s.
    """
    ensure_topics(Settings(kafka=KafkaSettings(bootstrap_servers="memory:1")))
    g = Log("g")
    kafka.publish(g.topics(t=4), g.join("c1"), g.join("c2"), g.leave("c1"), g.delete())
    return kafka


def owners(command: Command, at: str) -> dict[str, list[int]]:
    status, out, _ = command("group", "g", "--at", at, "--json")
    assert status == 0
    return {member["memberId"]: member["owned"]["t"] for member in json.loads(out)["members"]}


@pytest.mark.usefixtures("log")
def test_group_command_with_at_shows_past_owners(command: Command) -> None:
    assert owners(command, "2999") == {"c1": [0, 1, 2, 3]}
    assert owners(command, "1970-01-01T00:00:03Z") == {"c1": [0, 1], "c2": [2, 3]}
    assert owners(command, "4500") == {"c2": [0, 1, 2, 3]}


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize("at", ["1999", "5000"])
def test_group_at_a_time_without_the_group_is_refused(command: Command, at: str) -> None:
    assert command("group", "g", "--at", at)[0] == 2


@pytest.mark.usefixtures("log")
def test_groups_command_with_at_lists_past_groups(command: Command) -> None:
    lines = [json.loads(command("groups", "--at", at, "--json")[1] or "null") for at in ("3000", "5000")]
    assert lines[0]["groupId"] == "g"
    assert (lines[0]["members"], lines[0]["episode"]["kind"], lines[1]) == (2, "first-start", None)


@pytest.mark.usefixtures("log")
def test_watch_replays_the_rounds_between_two_times(command: Command) -> None:
    status, out, _ = command("watch", "--from", "3000", "--to", "4000", "--json")
    assert (status, [json.loads(line)["generation"] for line in out.splitlines()]) == (0, [2, 3])


@pytest.mark.usefixtures("log")
def test_watch_replays_stories_above_their_rounds(command: Command) -> None:
    lines = command("watch", "--from", "3000", "--to", "3000", "--stories")[1].splitlines()
    assert [" settled " in lines[0], " generation 2 " in lines[1]] == [True, True]
