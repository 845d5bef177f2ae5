"""Tests of cluster incidents, which the stream opens and closes event by event."""

from typing import Any

import pytest
from msgspec import UNSET

from streaming.episodes.cluster_cause import explain_episodes
from streaming.monitor.bucket_state import Bucket
from streaming.records.episodes import Episode, EpisodeRecord, Incident, IncidentRecord, decode_episode, decode_incident
from streaming.records.events import CLUSTER, ClusterChange, ClusterObserved, Event, Evidence, GroupPauses
from tests.support.histories import Log
from tests.support.pure_stream import apply_events, written_incidents

GROUPS = ["orders", "pay"]
#: 2023-11-14 22:13:20 UTC
OPENED_MS = 1_700_000_000_000


class Cluster:
    """Applies cluster events one by one, each in a separate batch."""

    def __init__(self) -> None:
        self.bucket = Bucket()
        self.offset = 0

    def apply(self, at: int, brokers: list[int], *changes: ClusterChange, event_id: str = "") -> list[Incident]:
        data = ClusterObserved(group_id=CLUSTER, timestamp=OPENED_MS + at, brokers=brokers, changes=list(changes))
        event = Event("test", event_id or f"{self.offset}", data)
        writes = apply_events(self.bucket, [event])
        self.bucket, self.offset = Bucket(self.bucket.pack()), self.offset + 1
        assert {write.topic for write in writes} <= {"i"}
        assert {write.key for write in writes} <= {f"{CLUSTER}/{number}".encode() for number in range(1, 9)}
        return written_incidents(writes)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def change(kind: str, subject: str, at: int, **pauses: Any) -> ClusterChange:
    pauses_of_groups = GroupPauses(**pauses) if pauses else UNSET
    return ClusterChange(kind, subject, OPENED_MS + at, GROUPS, pauses_of_groups)  # type: ignore[arg-type]


def test_broker_is_away_until_it_returns(cluster: Cluster) -> None:
    (opened,) = cluster.apply(0, [2, 3], change("broker-restart", "broker 1", 0))
    assert (opened.group_id, opened.scope, opened.groups) == (CLUSTER, "cluster", GROUPS)
    assert (opened.kind, opened.status) == ("broker-restart", "open")
    assert opened.story == "Broker 1 away: coordinator of 2 groups (since 2023-11-14 22:13 UTC)."
    assert cluster.apply(5000, [2, 3]) == []
    (closed,) = cluster.apply(60_000, [1, 2, 3])
    assert (closed.incident, closed.status, closed.closed_at) == (1, "closed", OPENED_MS + 60_000)
    assert closed.story == "Broker 1 away: coordinator of 2 groups (from 2023-11-14 22:13 to 2023-11-14 22:14 UTC)."


def test_two_brokers_are_two_incidents(cluster: Cluster) -> None:
    both = cluster.apply(0, [3], change("broker-restart", "broker 1", 0), change("broker-restart", "broker 2", 0))
    assert [(incident.incident, incident.status) for incident in both] == [(1, "open"), (2, "open")]
    assert [(incident.incident, incident.status) for incident in cluster.apply(1000, [2, 3])] == [(2, "closed")]


def test_a_broker_that_flaps_is_one_incident(cluster: Cluster) -> None:
    for at in (0, 60_000):
        (opened,) = cluster.apply(at, [2], change("broker-restart", "broker 1", at))
        cluster.apply(at + 1000, [1, 2])
    assert (opened.incident, opened.times) == (1, 2)


@pytest.mark.parametrize(
    ("kind", "subject", "story"),
    [
        ("coordinator-moved", "broker 1 to broker 2", "Coordinator of 2 groups moved from broker 1 to broker 2"),
        ("topic-deleted", "t", "Topic t deleted: 2 groups subscribed"),
        ("partitions-added", "t from 3 to 6", "Topic t from 3 to 6 partitions: 2 groups subscribed"),
        ("mass-restart", "10.0.0.1", "All members on 10.0.0.1 gone: 2 groups"),
        ("broker-restart", "all brokers", "All brokers away: coordinator of 2 groups"),
    ],
)
def test_topic_change_opens_and_closes_an_incident_at_once(kind: str, subject: str, story: str) -> None:
    (incident,) = Cluster().apply(5000, [1, 2], change(kind, subject, 0))
    assert (incident.kind, incident.status) == (kind, "closed")
    assert (incident.opened_at, incident.closed_at) == (OPENED_MS, OPENED_MS + 5000)
    assert incident.story.startswith(f"{story} (from ")


def test_pauses_join_the_open_incident(cluster: Cluster) -> None:
    cluster.apply(0, [2], change("broker-restart", "broker 1", 0))
    limits = {"orders": (31_000, 39_000), "pay": (30_500, 31_000)}
    pauses = {"groups": limits, "rebalanced": ["pay"], "more": 3, "unknown": 2}
    (joined,) = cluster.apply(40_000, [2], change("broker-restart", "broker 1", 0, **pauses))
    assert (joined.incident, joined.status, joined.updated_at, joined.groups) == (1, "open", OPENED_MS + 40_000, GROUPS)
    assert joined.pauses == GroupPauses(**pauses)
    what = "Broker 1 away: coordinator of 2 groups; commits of 5 paused 30 s to 39 s, 1 rebalanced, 2 unknown"
    assert joined.story == f"{what} (since 2023-11-14 22:13 UTC)."
    (closed,) = cluster.apply(60_000, [1, 2])
    assert (closed.pauses, closed.story.startswith(f"{what} (from ")) == (joined.pauses, True)


def test_pauses_join_the_closed_incident(cluster: Cluster) -> None:
    cluster.apply(0, [1, 2], change("coordinator-moved", "broker 1 to broker 2", 0))
    late = change("coordinator-moved", "broker 1 to broker 2", 0, groups={"pay": (600, 900)})
    (joined,) = cluster.apply(5000, [1, 2], late)
    assert (joined.incident, joined.status, joined.closed_at, joined.times) == (1, "closed", OPENED_MS, 1)
    assert "; commits of 1 paused 600 ms to 900 ms, 0 rebalanced (from " in joined.story


def test_pauses_of_the_latest_broker_restart_are_shown(cluster: Cluster) -> None:
    cluster.apply(0, [2], change("broker-restart", "broker 1", 0))
    cluster.apply(1000, [1, 2], change("broker-restart", "broker 1", 0, groups={"pay": (9000, 9100)}))
    (again,) = cluster.apply(30_000, [2], change("broker-restart", "broker 1", 30_000))
    assert (again.times, again.pauses) == (2, UNSET)
    (joined,) = cluster.apply(40_000, [2], change("broker-restart", "broker 1", 30_000, groups={}, unknown=2))
    assert "; no pause of commits seen, 0 rebalanced, 2 unknown (since " in joined.story


def test_pauses_of_an_unknown_or_older_incident_change_nothing(cluster: Cluster) -> None:
    late = change("broker-restart", "broker 1", 0, groups={"pay": (9000, 9100)})
    assert cluster.apply(1000, [2], late) == []
    cluster.apply(70_000, [2], change("broker-restart", "broker 1", 70_000))
    assert cluster.apply(71_000, [2], late) == []


def test_a_repeated_event_changes_nothing(cluster: Cluster) -> None:
    cluster.apply(0, [2], change("broker-restart", "broker 1", 0), event_id="x")
    cluster.apply(1000, [1, 2])
    assert cluster.apply(0, [2], change("broker-restart", "broker 1", 0), event_id="x") == []


def test_story_of_members_fenced_by_broker_restart_names_broker() -> None:
    """The members' sessions ended while their coordinator was away; both members rejoined from their hosts."""
    log, bucket = Log("orders"), Bucket()
    before = {"a#1": {"t": [0]}, "b#1": {"t": [1]}}
    after = {"a#2": {"t": [0]}, "b#2": {"t": [1]}}
    names = {name: (name[0], f"/{name[0]}") for name in (*before, *after)}
    lost = [Evidence(source="coordinator-log", reason="heartbeat expiration", member_ids=["a#1"], kind="member.fenced")]
    restart = ClusterChange("broker-restart", "broker 1", 601_000, GROUPS)
    away = ClusterObserved(group_id=CLUSTER, timestamp=601_000, brokers=[2], changes=[restart])
    events = [log.topics(t=2), log.observe(1, {}), log.observe(2, before, clients=names)]
    log.count = 600
    events += [Event("test", "away", away), log.observe(3, {"b#1": {"t": [0, 1]}}, clients=names, evidence=lost)]
    events.append(log.observe(4, {"a#2": {"t": [0]}, "b#1": {"t": [1]}}, clients=names))
    episodes: dict[bytes, Episode] = {}
    incidents = []
    for event in events:
        for write in apply_events(bucket, [event]):
            if write.topic == "e":
                episodes[write.key or b""] = decode_episode(write.value or b"")
            elif write.topic == "i" and (write.key or b"").startswith(CLUSTER.encode()):
                incidents = [IncidentRecord(decode_incident(write.value or b""), b"")]
    newest = EpisodeRecord(episodes[b"orders/2"], b"")
    assert (newest.episode.kind, newest.episode.cause) == ("crash", None)
    (explained,) = explain_episodes([newest], incidents)
    assert (explained.episode.kind, explained.episode.cause) == ("coordinator-move", "(cluster)/1")
