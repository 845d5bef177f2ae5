"""The commands ``forecast`` and ``migrate`` compute what a change of a live group costs, in text and JSON."""

import json
from pathlib import Path

import pytest

from streaming.records.codec import encode_event
from tests.support.compacted import checkout_group, records
from tests.support.histories import Log
from tests.support.memory_kafka import MemoryKafka
from tests.unit.streaming.cli.conftest import Command, publish_diffs

ROLLING_OPTIONS = ("--rolling-restart", "--down", "5s", "--between", "20s", "--processing", "0s")


@pytest.fixture
def live(kafka: MemoryKafka) -> MemoryKafka:
    """Return live groups: the consumer group ``checkout`` with three members, and the Connect group ``sink``."""
    for topic in ("membership", "assignments", "episodes", "diffs"):
        kafka.create(f"rebalance.{topic}", 1)
    log = Log("checkout")
    shares = {name: {"t": [2 * number, 2 * number + 1]} for number, name in enumerate(("a-1", "b-1", "c-1"))}
    names = {name: (name[0], "/h") for name in shares}
    sink_log = Log("sink")
    for event in (log.topics(t=6), log.observe(4, shares, clients=names), sink_log.observe(2, {"w": {"conn": [0]}})):
        key, value, headers = encode_event(event)
        if event.data.group_id == "sink":
            value = json.dumps({**json.loads(value), "kind": "connect"}).encode()
        kafka.append("rebalance.membership", value, key=key, headers=headers)
    return kafka


def test_forecast_table_has_one_row_per_protocol(command: Command, live: MemoryKafka) -> None:
    status, out, errors = command("forecast", "checkout", *ROLLING_OPTIONS)
    assert (status, errors) == (0, "")
    head, sentence, _, *lines = out.splitlines()
    assert head == "checkout  3 members, 6 partitions, now eager"
    assert sentence.startswith("This rolling restart costs ")
    rows = [line.split() for line in lines[:4]]
    assert [row[0] for row in rows] == ["eager", "cooperative", "static", "consumer"]
    assert rows[2][3:] == ["0", "0", "0", "30", "s", "5.0", "s", "t-0"][: len(rows[2][3:])]
    assert [line.partition(":")[0] for line in lines[4:]] == ["not exact"] * 4


def test_json_has_the_fields_of_simulate(command: Command, live: MemoryKafka) -> None:
    status, out, _ = command("forecast", "checkout", *ROLLING_OPTIONS, "--heartbeat", "1s", "--json")
    document = json.loads(out)
    assert (status, document["groupId"], document["now"]) == (0, "checkout", "eager")
    assert document["sessionTimeoutMs"] == 45_000
    assert list(document["protocols"]) == ["eager", "cooperative", "static", "consumer"]
    eager = document["protocols"]["eager"]
    assert (eager["rebalances"], eager["roundCount"], len(eager["rounds"])) == (6, 6, 6)
    assert eager["downtime"]["totalMs"] == sum(eager["unavailableMs"]["t"].values())
    assert any("under KIP-848 1000 ms" in line for line in document["unsure"])


def test_scale_and_deploy_file_are_forecast(command: Command, live: MemoryKafka, tmp_path: Path) -> None:
    _, out, _ = command("forecast", "checkout", "--scale", "4", "--json")
    assert json.loads(out)["protocols"]["consumer"]["moved"] == 1
    file = tmp_path / "deploy.yaml"
    file.write_text("events:\n  - {at: 0, leave: c}\n")
    _, out, _ = command("forecast", "checkout", "--deploy", str(file), "--json")
    assert json.loads(out)["protocols"]["consumer"]["moved"] == 2


def test_past_episode_is_forecast_under_every_protocol(command: Command, live: MemoryKafka) -> None:
    builder = checkout_group("pay/out")
    for topic, key, value in records(builder):
        live.append(topic, value, key=key)
    publish_diffs(live, builder)
    status, out, errors = command("forecast", "pay/out", "--from", "last", "--json")
    assert (status, errors) == (0, "")
    document = json.loads(out)
    assert document["change"] == "The rolling-restart of 2023-11-14T22:23:21.000Z (episode 2)"
    assert document["protocols"]["eager"]["rebalances"] == 4
    status, _, errors = command("forecast", "pay/out", "--from", "7")
    assert (status, errors) == (2, "error: --from 7: group pay/out has no such episode; there are 1 to 2\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("checkout",),
            "error: give exactly one of --rolling-restart, --scale, --deploy and --from, the change to forecast",
        ),
        (("checkout", "--scale", "3"), "error: --scale 3: the group has 3 members; give another number, from 1 up"),
        (("checkout", "--rolling-restart", "--down", "20"), "error: --down 20: write 500ms, 20s, 5m"),
        (("checkout", "--deploy", "nowhere"), "error: --deploy nowhere: there is no such file; give a scenario file"),
        (("none", "--scale", "3"), "error: group none: the monitor has no data about it; `rebalance-monitor groups`"),
        (("sink", "--scale", "3"), "error: group sink: Connect's leader places connectors and tasks"),
    ],
)
def test_impossible_forecast_is_refused_with_a_reason(
    command: Command, live: MemoryKafka, words: tuple[str, ...], message: str
) -> None:
    status, out, errors = command("forecast", *words)
    assert (status, out) == (2, "")
    assert errors.startswith(message)
    assert errors.count("\n") == 1


def test_migrate_lists_the_steps_to_each_protocol(command: Command, live: MemoryKafka) -> None:
    status, out, errors = command("migrate", "checkout")
    assert (status, errors) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "checkout  3 members, now eager, range"
    assert [line for line in lines if not line.startswith((" ", "not exact", "checkout"))] == [
        "cooperative: ready",
        "static members: ready",
        "consumer (KIP-848): ready",
    ]
    assert "  until step 1: a, b, c: has no group.instance.id" in lines
    assert "     0 rebalances, 0 rounds, 0 partitions moved, 120 s of downtime, 20 s at worst" in lines


def test_migration_as_json_is_one_object(command: Command, live: MemoryKafka) -> None:
    _, out, _ = command("migrate", "checkout", "--to", "consumer", "--json")
    document = json.loads(out)
    assert list(document["targets"]) == ["consumer"]
    assert document["targets"]["consumer"]["steps"][1]["forecast"]["rebalances"] == 6
    assert document["happened"] == []


def test_unknown_target_of_a_migration_is_refused(command: Command, live: MemoryKafka) -> None:
    error = "error: --to: 'raft' is not one of cooperative, static, consumer\n"
    assert command("migrate", "checkout", "--to", "raft") == (2, "", error)
