import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

from streaming.records.diffs import Diff
from tests.support.feed import diff_id
from tests.support.histories import Group
from tests.support.kafka import Kafka, eventually, unique_name
from tests.support.serving import Follower, Publisher, ServeProcess
from tests.support.topics import delete_topic

pytestmark = pytest.mark.broker

KILL_COUNT = int(os.environ.get("SERVE_KILLS", "4"))


@pytest.fixture
def serve(broker: Kafka, tmp_path: Path):
    with ServeProcess(broker.bootstrap_servers, f"{unique_name('feed')}.", tmp_path) as serve:
        yield serve


def made(groups: int, rounds_per_group: int) -> list[Diff]:
    group_diffs = [Group(f"g{index}", {"t": 8}, index).diffs(rounds_per_group) for index in range(groups)]
    return [diff for turn in zip(*group_diffs, strict=True) for diff in turn]


def ids(rounds: list[Diff]) -> list[str]:
    return sorted(diff_id(diff) for diff in rounds)


def test_random_kills_lose_and_repeat_no_diff(serve: ServeProcess) -> None:
    seed = random.randrange(2**32)
    sys.stdout.write(f"seed {seed}\n")
    rng = random.Random(seed)
    wanted = made(20, 15 * KILL_COUNT)
    publisher = Publisher(serve)
    serve.start()
    follower = Follower(serve.port)
    eventually(lambda: follower.snapshots == 1)
    step = len(wanted) // (KILL_COUNT + 1)
    for index in range(0, len(wanted), step):
        publisher.put(wanted[index : index + step])
        if index // step < KILL_COUNT:
            time.sleep(rng.uniform(0, 0.4))  # the server is killed at a random moment
            serve.stop(signal.SIGKILL)
            serve.start(wait=rng.random() < 0.7)
    eventually(lambda: len(follower.ids) >= len(wanted), timeout=60)
    assert sorted(follower.ids) == ids(wanted)
    assert (follower.snapshots, follower.resets) == (1, 0)
    assert sorted(serve.ids()) == ids(wanted)
    follower.ending.set()
    assert serve.stop() == 0
    assert "Traceback" not in serve.log.read_text()


def test_lost_history_is_rebuilt_and_clients_are_reset(serve: ServeProcess, tmp_path: Path) -> None:
    wanted = made(4, 20)
    serve.start_with_diffs(wanted)
    follower = Follower(serve.port)
    eventually(lambda: follower.snapshots == 1)
    assert serve.stop() == 0
    for path in tmp_path.glob("history.sqlite*"):
        path.unlink()
    serve.start().await_status("/ready", 200)
    assert sorted(serve.ids()) == ids(wanted)
    eventually(lambda: (follower.snapshots, follower.resets) == (2, 1))
    follower.ending.set()


def test_serve_waits_for_missing_topics(serve: ServeProcess) -> None:
    serve.start()
    assert serve.ask("/ready")[0] == 503
    Publisher(serve).put(made(1, 3))
    serve.await_status("/ready", 200)
    eventually(lambda: len(serve.ids()) == 3)
    assert "does not exist yet: waiting" in serve.log.read_text()


def test_recreated_topic_is_read_from_its_start(serve: ServeProcess) -> None:
    publisher = Publisher(serve)
    publisher.put(made(2, 10))
    serve.start().await_status("/ready", 200)
    eventually(lambda: len(serve.ids()) == 20)
    assert serve.stop() == 0
    delete_topic(serve.settings.kafka.bootstrap_servers, publisher.topic)
    later = made(2, 30)  # more records than before, so that the old offsets exist
    serve.start_with_diffs(later)
    eventually(lambda: sorted(serve.ids()) == ids(later))


def test_missing_broker_prints_one_line_and_exits_3(tmp_path: Path) -> None:
    with ServeProcess("127.0.0.1:1", "", tmp_path) as serve:
        started = time.monotonic()
        serve.start(wait=False)
        assert serve.ended() == 3
        assert time.monotonic() - started < 15
        log = [line for line in serve.log.read_text().splitlines() if line.startswith("error:")]
        assert len(log) == 1
        assert "127.0.0.1:1" in log[0]
