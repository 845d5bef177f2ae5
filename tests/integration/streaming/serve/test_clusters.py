import signal
from pathlib import Path

import pytest

from streaming.records.diffs import Diff
from tests.support.histories import Group
from tests.support.kafka import Kafka, eventually, unique_name
from tests.support.serving import Follower, Publisher, ServeProcess

pytestmark = pytest.mark.broker


def made(group_id: str, count: int) -> list[Diff]:
    return Group(group_id, {"t": 8}, 1).diffs(count)


def test_clusters_are_served_beside_one_that_is_away(broker: Kafka, tmp_path: Path) -> None:
    prefixes = [f"{unique_name('feed')}." for _ in range(2)]
    servers = broker.bootstrap_servers
    config = tmp_path / "monitor.toml"
    config.write_text(
        '[kafka]\ncluster_name = "eu"\n'
        f'[[clusters]]\ncluster_name = "us"\nbootstrap_servers = "{servers}"\ntopic_prefix = "{prefixes[1]}"\n'
        '[[clusters]]\ncluster_name = "asia"\nbootstrap_servers = "127.0.0.1:1"\n'
    )
    options = ("--config", str(config))
    with (
        ServeProcess(servers, prefixes[0], tmp_path, *options) as serve,
        ServeProcess(servers, prefixes[1], tmp_path) as topics,
    ):
        Publisher(serve).put(made("eu-group", 5))
        publisher_of_second_cluster = Publisher(topics)
        publisher_of_second_cluster.put(made("us-group", 7))
        serve.start()

        def cluster_states() -> dict[str, tuple[bool, int]]:
            listed = serve.ask("/api/v1/clusters")[1]["clusters"]
            return {cluster["name"]: (cluster["ready"], cluster.get("seq", 0)) for cluster in listed}

        eventually(lambda: cluster_states() == {"eu": (True, 5), "us": (True, 7), "asia": (False, 0)})
        assert serve.ask("/ready")[0] == 503
        eventually(lambda: "127.0.0.1:1" in serve.ask("/clusters/asia/api/v1/groups")[1]["detail"])
        for path, group in (("", "eu-group"), ("/clusters/us", "us-group")):
            status, listed = serve.ask(f"{path}/api/v1/groups")
            assert (status, [stored["groupId"] for stored in listed["groups"]]) == (200, [group])
        follower = Follower(serve.port)
        eventually(lambda: follower.snapshots == 1)
        publisher_of_second_cluster.put(made("us-later", 2))
        eventually(lambda: cluster_states()["us"] == (True, 9))
        assert cluster_states()["eu"] == (True, 5)
        assert follower.ids == []
        follower.ending.set()
        assert b'rebalance_monitor_feed_caught_up{cluster="asia"} 0.0' in serve.get("/metrics")[1]
        assert serve.stop(signal.SIGTERM) == 0
        assert {path.name for path in tmp_path.glob("*.sqlite")} == {"history.sqlite", "history-us.sqlite"}
        assert "Traceback" not in serve.log.read_text()
        serve.start()
        eventually(lambda: cluster_states()["us"] == (True, 9))
