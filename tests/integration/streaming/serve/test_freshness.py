"""Every interface reports a stopped component within half a minute, and reports nothing while all components run."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families

from tests.support.command import RunningCommand
from tests.support.histories import Group
from tests.support.kafka import Kafka, eventually, unique_name
from tests.support.serving import ServeProcess
from tests.support.wait import TIMEOUT_SECONDS

pytestmark = pytest.mark.broker

#: Seconds within which a stopped component is reported.
REPORT_SECONDS = 30.0
#: Seconds, longer than a component may publish no heartbeat.
QUIET_SECONDS = 22.0


class Cluster:
    """One `serve` process, one `watch` process, and two collectors, on the same cluster."""

    def __init__(self, servers: str, folder: Path) -> None:
        self.serve = ServeProcess(servers, f"{unique_name('fresh')}.", folder)
        self.prefix = self.serve.settings.topics.prefix
        common = ("--bootstrap-servers", servers, "--topic-prefix", self.prefix)
        self.watch = RunningCommand("watch", *common, log=folder / "watch.log")
        group = ("--include-group", unique_name("nobody"))
        self.offsets = RunningCommand("collect", *common, *group, log=folder / "offsets.log")
        self.polling = RunningCommand("collect", *common, *group, "--by", "polling", log=folder / "polling.log")
        self.polling.environment = {"REBALANCE_MONITOR_COLLECT__GROUP_ID": "poller"}

    def statuses(self, group: str) -> dict[str, str | None]:
        status, ready = self.serve.ask("/ready")
        assert ready["ready"] is (status == 200)
        answers = {
            "ready": ready,
            "groups": self.serve.ask("/api/v1/groups")[1],
            "group": self.serve.ask(f"/api/v1/groups/{group}")[1]["standing"],
        }
        kinds = {name: answer.get("stale", {}).get("kind") for name, answer in answers.items()}
        families = text_string_to_metric_families(self.serve.get("/metrics")[1].decode())
        samples = [sample for family in families for sample in family.samples]
        causes = [sample.labels["cause"] for sample in samples if sample.name.endswith("feed_stale") and sample.value]
        if status != 200 and "stale" not in ready:
            kinds["ready"] = "not ready"  # it has just begun to read
        return {**kinds, "metrics": causes[0] if causes else None}

    def states(self) -> dict[str, str]:
        parts = self.serve.ask("/api/v1/groups")[1].get("parts", ())
        return {part["id"].removeprefix(self.prefix): part["state"] for part in parts}

    def await_status(self, group: str, kind: str | None) -> None:
        """Wait until all interfaces show this status (None: no problem), within the documented time."""
        wanted = dict.fromkeys(("ready", "groups", "group", "metrics"), kind)
        eventually(lambda: self.statuses(group) == wanted, timeout=REPORT_SECONDS if kind else TIMEOUT_SECONDS)


@pytest.fixture
def cluster(broker: Kafka, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(broker.bootstrap_servers, tmp_path)
    with made.serve, made.watch, made.offsets, made.polling:
        yield made


def test_every_interface_reports_a_stopped_collector(cluster: Cluster) -> None:
    offsets, polling = "rebalance-monitor-collector", "poller"
    cluster.serve.start_with_diffs(Group("orders", {"t": 6}, 1).diffs(5))
    assert cluster.statuses("orders") == dict.fromkeys(("ready", "groups", "group", "metrics"))
    assert cluster.states() == {}  # no status is reported for components that never ran
    cluster.watch.start()
    cluster.offsets.start()
    cluster.polling.start()
    eventually(lambda: cluster.states() == {offsets: "alive", polling: "alive"})
    by = time.monotonic() + QUIET_SECONDS
    while time.monotonic() < by:  # no events, and no reports
        assert set(cluster.statuses("orders").values()) == {None}
        time.sleep(0.5)  # the tested condition: some time without events
    cluster.watch.check()
    assert "No heartbeat" not in cluster.watch.output()

    cluster.offsets.kill()
    cluster.await_status("orders", "collector-silent")
    assert cluster.states() == {offsets: "silent", polling: "alive"}
    line = f"No heartbeat from collector {cluster.prefix}{offsets} since "
    eventually(lambda: line in cluster.watch.output(), timeout=REPORT_SECONDS)
    cluster.offsets.start()
    cluster.await_status("orders", None)
    eventually(lambda: "send heartbeats again" in cluster.watch.output())

    assert cluster.polling.stop() == 0
    cluster.await_status("orders", "collector-stopped")
    assert cluster.states() == {offsets: "alive", polling: "stopped"}
    line = f"Collector {cluster.prefix}{polling} has been stopped since "
    eventually(lambda: line in cluster.watch.output(), timeout=REPORT_SECONDS)

    cluster.serve.stop()
    cluster.serve.start()
    cluster.await_status("orders", "collector-stopped")  # also for a client that connects later
    delete_heartbeats(cluster)
    cluster.await_status("orders", None)
    eventually(lambda: cluster.states() == {offsets: "alive"})
    assert cluster.offsets.stop() == 0
    for part in (cluster.serve, cluster.watch, cluster.offsets, cluster.polling):
        assert "Traceback" not in part.output()


def delete_heartbeats(cluster: Cluster) -> None:
    """Delete the heartbeat topic with all components' heartbeats; the next heartbeat creates the topic again."""
    kafka = cluster.serve.settings.kafka
    topic = cluster.serve.settings.topics.signs
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})  # keep it until the response
    admin.delete_topics([topic])[topic].result(TIMEOUT_SECONDS)
