"""The command ``incidents`` lists open incidents, in text and JSON."""

import json
import time

import pytest

from streaming.records.codec import encode
from streaming.records.episodes import key
from streaming.records.events import GroupPauses
from tests.support.incidents import incident
from tests.support.memory_kafka import MemoryKafka
from tests.unit.streaming.cli.conftest import Command, table_cells

TOPIC = "rebalance.incidents"
STORM_INCIDENT = incident("checkout", 2, opened_at=1_700_000_000_000, times=3)
CLOSED_INCIDENT = incident("checkout", 1, opened_at=1_600_000_000_000, closed_at=1_600_000_900_000, kind="skew")
STUCK_INCIDENT = incident("team/pay", 7, opened_at=1_700_000_100_000, kind="stuck", story="team/pay does not get on.")


@pytest.fixture
def incidents_topic(kafka: MemoryKafka) -> MemoryKafka:
    kafka.create(TOPIC, 2)
    for place, record in enumerate((STORM_INCIDENT, CLOSED_INCIDENT, STUCK_INCIDENT)):
        kafka.append(TOPIC, encode(record), key=key(record.group_id, record.incident), partition=place % 2)
    return kafka


def rows(out: str) -> list[list[str]]:
    return [row for row in table_cells(out) if row and row[0] in ("checkout", "team/pay")]


def test_table_lists_open_incidents_newest_first(command: Command, incidents_topic: MemoryKafka) -> None:
    status, out, errors = command("incidents")
    assert (status, errors) == (0, "")
    assert rows(out) == [
        ["team/pay", "7", "stuck", "open", "2023-11-14 22:15:00 UTC", "1", "team/pay does not get on."],
        ["checkout", "2", "storm", "open", "2023-11-14 22:13:20 UTC", "3", "checkout does not settle."],
    ]


def test_options_list_closed_incidents_and_one_group(command: Command, incidents_topic: MemoryKafka) -> None:
    _, out, _ = command("incidents", "--all", "--group", "checkout")
    assert [row[1:4] for row in rows(out)] == [["2", "storm", "open"], ["1", "skew", "closed"]]


def test_incidents_command_lists_the_pauses_of_groups(command: Command, kafka: MemoryKafka) -> None:
    kafka.create(TOPIC)
    pauses = GroupPauses(groups={"checkout": (31_000, 39_000), "pay": (600, 900)}, rebalanced=["pay"])
    away = incident("(cluster)", kind="broker-restart", scope="cluster", story="Broker 1 away.", pauses=pauses)
    kafka.append(TOPIC, encode(away), key=key("(cluster)", 1))
    _, out, _ = command("incidents")
    cells = [line.split("│")[-2].strip() for line in out.splitlines() if line.count("│") > 3]
    assert "Broker 1 away. Longest pauses: checkout 31 s to 39 s, pay 600 ms to 900 ms (rebalanced)." in " ".join(cells)
    _, out, _ = command("incidents", "--json")
    assert json.loads(out)["pauses"]["groups"] == {"checkout": [31_000, 39_000], "pay": [600, 900]}


def test_json_has_one_incident_per_line(command: Command, incidents_topic: MemoryKafka) -> None:
    _, out, _ = command("incidents", "--json")
    assert out.encode().splitlines() == [encode(STUCK_INCIDENT), encode(STORM_INCIDENT)]


@pytest.mark.parametrize(("words", "output"), [((), "no open incidents\n"), (("--all",), "no incidents\n")])
def test_incidents_command_without_incidents_prints_a_line(
    command: Command, kafka: MemoryKafka, words: tuple[str, ...], output: str
) -> None:
    kafka.create(TOPIC)
    assert command("incidents", *words) == (0, output, "")
    assert command("incidents", "--json", *words) == (0, "", "")


def published(kafka: MemoryKafka) -> list[dict[str, object]]:
    return [json.loads(message.value() or b"") for message in kafka.records("rebalance.membership")]


def test_ack_and_mute_publish_an_event(command: Command, incidents_topic: MemoryKafka) -> None:
    incidents_topic.create("rebalance.membership")
    before = time.time_ns() // 1_000_000
    acknowledge = command("incidents", "ack", "checkout", "2", "--text", "rolled back", "--by", "ann")
    mute = command("incidents", "mute", "team/pay", "7", "--for", "2h")
    assert acknowledge == mute == (0, "published to rebalance.membership; the stream applies it\n", "")
    first, second = published(incidents_topic)
    at, muted_at = first.pop("timestamp"), second.pop("timestamp")
    assert isinstance(muted_at, int)
    assert before <= muted_at
    event = {"groupId": "checkout", "incident": 2, "by": "ann", "until": None, "text": "rolled back"}
    assert (first, isinstance(at, int)) == ({**event, "muted": False}, True)
    assert (second["until"], second["muted"], second["incident"]) == (muted_at + 7_200_000, True, 7)
    headers = dict(incidents_topic.records("rebalance.membership")[0].headers() or [])
    assert headers["ce_type"] == b"incident.acknowledged"


@pytest.mark.parametrize("number", ["1", "9"])
def test_only_open_incidents_are_acknowledged(command: Command, incidents_topic: MemoryKafka, number: str) -> None:
    incidents_topic.create("rebalance.membership")
    status, out, errors = command("incidents", "ack", "checkout", number)
    assert (status, out, published(incidents_topic)) == (2, "", [])
    assert errors == (
        f"error: group checkout: no open incident {number}; `rebalance-monitor incidents --group checkout` lists them\n"
    )
