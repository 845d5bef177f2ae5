"""An episode that a cluster incident explains names the incident and reports no crash."""

from typing import Any

import pytest
from msgspec import structs

from streaming.episodes.cluster_cause import explain_episode, explain_episodes
from streaming.records.episodes import Episode, EpisodeMembers, EpisodeRecord, Incident, IncidentRecord, Replaced
from streaming.records.events import CLUSTER, Evidence
from tests.support import incidents as support

OPENED_MS = 1_700_000_000_000


EPISODE = Episode(
    group_id="pay",
    episode=3,
    kind="crash",
    status="settled",
    opened_at=OPENED_MS + 20_000,
    updated_at=OPENED_MS + 20_000,
    closed_at=OPENED_MS + 20_000,
    rounds=["d"],
    members=EpisodeMembers(replaced=[Replaced(left="a-1", joined="a-2", by="client id")], before=2, after=2),
    moved=0,
    moved_again=0,
    downtime=None,
    waiting_for=[],
    sure=True,
    evidence=[],
    story="",
    round_count=1,
)


def episode(kind: str = "crash", at: int = 20_000, **fields: Any) -> Episode:
    opened_at = OPENED_MS + at
    times = {"opened_at": opened_at, "updated_at": opened_at, "closed_at": opened_at}
    return structs.replace(EPISODE, kind=kind, **times, **fields)


def incident(kind: str = "broker-restart", number: int = 7, opened: int = 0, closed: int | None = 35_000) -> Incident:
    return support.incident(
        CLUSTER,
        number,
        kind=kind,
        opened_at=OPENED_MS + opened,
        closed_at=None if closed is None else OPENED_MS + closed,
        scope="cluster",
        groups=["pay", "ship"],
        story="Broker 1 away: coordinator of 2 groups (from 2023-11-14 22:13 to 2023-11-14 22:14 UTC).",
    )


def test_crash_during_a_broker_outage_names_the_incident() -> None:
    explained = explain_episode(episode(), [incident()])
    assert (explained.kind, explained.sure, explained.cause) == ("coordinator-move", False, "(cluster)/7")
    assert explained.story == (
        "Broker 1 away: coordinator of 2 groups (cluster incident 7); a-2 departed and came back, "
        "2023-11-14 22:13 UTC: no partition moved."
    )
    why = "incident 7 of the cluster: Broker 1 away: coordinator of 2 groups"
    assert explained.evidence == [Evidence(source="cluster-incident", reason=why)]
    assert explain_episode(explained, [incident(number=8)]) is explained


def test_pauses_of_the_incident_are_not_repeated_in_episodes() -> None:
    story = "Broker 1 away: coordinator of 2 groups; commits of 2 paused 31 s to 39 s (since 2023-11-14 22:13 UTC)."
    incident_with_pauses = structs.replace(incident(), story=story)
    assert explain_episode(episode(), [incident_with_pauses]) == explain_episode(episode(), [incident()])


def test_members_that_did_not_come_back_stay_lost() -> None:
    explained = explain_episode(episode(members=EpisodeMembers(lost=["a-1"], before=2, after=1)), [incident()])
    assert (explained.kind, explained.sure, explained.cause) == ("crash", False, "(cluster)/7")
    assert "(cluster incident 7); a-1 departed, " in explained.story


@pytest.mark.parametrize(
    ("incident_kind", "kind"),
    [
        ("coordinator-moved", "unknown"),
        ("topic-deleted", "topic-deleted"),
        ("partitions-added", "partition-growth"),
        ("mass-restart", "crash"),
        ("mass-restart", "rolling-restart"),
    ],
)
def test_cluster_incident_becomes_the_cause_of_an_episode(incident_kind: str, kind: str) -> None:
    explained = explain_episode(episode(kind), [incident(incident_kind, closed=0)])
    assert explained.cause == "(cluster)/7"
    assert explained.kind == ("coordinator-move" if incident_kind == "coordinator-moved" else kind)


@pytest.mark.parametrize(
    ("incident_kind", "record"),
    [
        ("broker-restart", episode("restart")),  # the members left cleanly, in a deploy at the same time
        ("broker-restart", episode("scale-out")),
        ("broker-restart", episode(at=-31_000)),
        ("broker-restart", episode(at=96_000)),
        ("topic-deleted", episode("crash")),
        ("mass-restart", episode("scale-out")),
        ("stuck", episode("crash")),
    ],
)
def test_incident_does_not_change_unrelated_episodes(incident_kind: str, record: Episode) -> None:
    assert explain_episode(record, [incident(incident_kind)]) is record


def test_open_incident_or_late_metadata_explains_an_episode() -> None:
    assert explain_episode(episode(at=900_000), [incident(closed=None)]).cause == "(cluster)/7"
    assert explain_episode(episode("partition-growth", at=300_000), [incident("partitions-added", closed=0)]).cause


def test_incident_that_began_closest_is_chosen() -> None:
    overlapping_incidents = [incident(number=5, opened=-20_000), incident(number=6, opened=19_000), incident(number=7)]
    assert explain_episode(episode(), overlapping_incidents).cause == "(cluster)/6"


def test_only_episodes_of_the_incidents_group_are_explained() -> None:
    episodes = [episode(), structs.replace(episode(), group_id="mail"), episode("scale-out")]
    records = [EpisodeRecord(record, b"raw", 5) for record in episodes]
    first, *others = explain_episodes(records, [IncidentRecord(incident(), b"")])
    assert first.episode.cause == "(cluster)/7"
    assert b'"cause":"(cluster)/7"' in first.value
    assert first.written == 5
    assert others == records[1:]
