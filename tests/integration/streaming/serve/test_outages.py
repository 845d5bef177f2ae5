import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streaming.kafka.broker import EmbeddedBroker
from tests.integration.streaming.serve.test_serve import ids, made
from tests.support.kafka import PROPERTIES, eventually, unique_name
from tests.support.serving import Follower, Publisher, ServeProcess
from tests.support.topics import delete_topic, grow_topic

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """Yield a broker that only this test uses and may therefore stop."""
    with EmbeddedBroker(data_dir=tmp_path_factory.mktemp("broker"), properties=PROPERTIES) as broker:
        yield broker


@pytest.fixture
def serve(own_broker: EmbeddedBroker, tmp_path: Path) -> Iterator[ServeProcess]:
    with ServeProcess(own_broker.bootstrap_servers, f"{unique_name('outage')}.", tmp_path) as serve:
        yield serve


def readiness_document(serve: ServeProcess) -> dict[str, Any]:
    status, answer = serve.ask("/ready")
    assert (status == 200) is answer["ready"]
    return answer


def stale(serve: ServeProcess, kind: str) -> bool:
    return readiness_document(serve).get("stale", {}).get("kind") == kind


def delete_topics(serve: ServeProcess) -> None:
    for topic in (serve.settings.topics.diffs, serve.settings.topics.assignments):
        delete_topic(serve.settings.kafka.bootstrap_servers, topic)


def test_recreated_topics_are_read_from_their_start(serve: ServeProcess) -> None:
    before = made(2, 10)
    serve.start_with_diffs(before)
    follower = Follower(serve.port)
    eventually(lambda: len(serve.ids()) == 20)
    delete_topics(serve)
    eventually(lambda: stale(serve, "topic-missing"), timeout=15)
    later = made(2, 30)[20:]  # more records than before, so that the old offsets exist
    Publisher(serve).put(later)
    serve.await_status("/ready", 200)
    eventually(lambda: sorted(serve.ids()) == ids([*before, *later]))
    eventually(lambda: sorted(follower.ids) == ids(later))
    follower.ending.set()


def test_broker_outage_is_reported_and_missed_diffs_follow(serve: ServeProcess, own_broker: EmbeddedBroker) -> None:
    before = made(2, 10)
    serve.start_with_diffs(before)
    own_broker.kill()
    away = time.time()
    eventually(lambda: stale(serve, "kafka-unreachable"), timeout=15)
    assert abs(readiness_document(serve)["stale"]["since"] / 1000 - away) < 10
    own_broker.restart()
    delete_topics(serve)
    later = made(2, 30)[20:]
    Publisher(serve).put(later)
    eventually(lambda: sorted(serve.ids()) == ids([*before, *later]), timeout=60)
    serve.await_status("/ready", 200)


def test_hanging_broker_is_reported(serve: ServeProcess, own_broker: EmbeddedBroker) -> None:
    serve.start_with_diffs(made(1, 3))
    assert own_broker.pid is not None
    os.kill(own_broker.pid, signal.SIGSTOP)
    try:
        eventually(lambda: stale(serve, "kafka-unreachable"), timeout=20)
    finally:
        os.kill(own_broker.pid, signal.SIGCONT)
    serve.await_status("/ready", 200)


def test_partitions_that_are_added_are_read(serve: ServeProcess) -> None:
    publisher = Publisher(serve)
    publisher.put(made(2, 3))
    serve.start().await_status("/ready", 200)
    partitions = serve.settings.topics.partitions
    grow_topic(serve.settings.kafka.bootstrap_servers, publisher.topic, partitions + 3)
    wanted = made(40, 2)
    Publisher(serve).put(wanted)
    eventually(lambda: {*ids(wanted)} <= {*serve.ids()})


def test_second_server_on_a_history_is_rejected_in_one_line(serve: ServeProcess, tmp_path: Path) -> None:
    serve.start_with_diffs(made(1, 3))
    second_server = ServeProcess(serve.settings.kafka.bootstrap_servers, serve.settings.topics.prefix, tmp_path)
    second_server.log = tmp_path / "other.log"
    with second_server:
        second_server.start(wait=False)
        assert second_server.process is not None
        assert second_server.process.wait(30) == 3
    lines = [line for line in second_server.output().splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    assert "another `serve` uses it" in lines[0]
    assert len(serve.ids()) == 3


def test_file_of_another_program_is_kept_and_serve_exits_2(serve: ServeProcess, tmp_path: Path) -> None:
    Publisher(serve).put(made(1, 3))
    notes = tmp_path / "history.sqlite"
    notes.write_text("my notes\n")
    serve.start(wait=False)
    assert serve.ended(30) == 2
    assert notes.read_text() == "my notes\n"
    assert {path.name for path in tmp_path.iterdir()} == {"history.sqlite", "serve.log"}


def test_removed_history_exits_3_and_is_rebuilt(serve: ServeProcess, tmp_path: Path) -> None:
    wanted = made(2, 10)
    serve.start_with_diffs(wanted)
    (tmp_path / "history.sqlite").unlink()
    assert serve.ended(20) == 3
    assert "was removed or replaced while in use" in serve.output()
    serve.start().await_status("/ready", 200)
    assert sorted(serve.ids()) == ids(wanted)
    assert "Traceback" not in serve.output().rsplit("serving", 1)[1]


def test_lock_of_another_program_is_reported_and_awaited(serve: ServeProcess, tmp_path: Path) -> None:
    publisher = Publisher(serve)
    publisher.put(made(1, 3))
    serve.start().await_status("/ready", 200)
    connection = sqlite3.connect(tmp_path / "history.sqlite", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    wanted = made(1, 30)
    publisher.put(wanted)
    eventually(lambda: stale(serve, "history-blocked"))
    assert serve.ask("/api/v1/rounds")[0] == 200
    connection.execute("ROLLBACK")
    connection.close()
    eventually(lambda: sorted(serve.ids()) == ids(wanted))
    serve.await_status("/ready", 200)


def test_serve_exits_3_for_another_cluster_at_the_same_address(serve: ServeProcess, own_broker: EmbeddedBroker) -> None:
    serve.start_with_diffs(made(1, 3))
    own_broker.kill()  # this is the last test that uses the broker
    eventually(lambda: stale(serve, "kafka-unreachable"), timeout=15)
    with EmbeddedBroker(port=own_broker.port, properties=PROPERTIES):
        assert serve.ended(60) == 3
    assert "another cluster answers now" in serve.output()
