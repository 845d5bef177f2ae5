import json

import pytest

from streaming.records.codec import encode
from streaming.records.diffs import MemberNames
from streaming.records.episodes import (
    Downtime,
    Episode,
    EpisodeMembers,
    MalformedEpisode,
    PartitionDowntime,
    Repeated,
    Replaced,
    Waiting,
    decode_episode,
    decode_incident,
    decode_key,
    key,
)
from streaming.records.events import Evidence
from tests.support.incidents import incident

EPISODE = Episode(
    group_id="checkout",
    episode=17,
    kind="rolling-restart",
    status="settling",
    opened_at=1_700_000_000_000,
    closed_at=None,
    rounds=["a1", "b2"],
    members=EpisodeMembers(
        joined=["c3"],
        replaced=[Replaced(left="c1", joined="c2", by="client id and host")],
        before=1,
        after=2,
        names={"c1": MemberNames(client_id="c")},
    ),
    moved=4,
    moved_again=1,
    downtime=Downtime(
        lower_ms=1, upper_ms=None, worst=PartitionDowntime(topic="t", partition=0, lower_ms=1, upper_ms=None)
    ),
    waiting_for=[Waiting(since=1, reason="a worker may come back")],
    sure=True,
    evidence=[Evidence(source="coordinator-log", reason="left")],
    story="Rolling restart.",
    repeated=Repeated(member_id="c2", times=3, period_ms=20_000),
)


def test_episode_is_unchanged_after_writing_and_reading() -> None:
    assert decode_episode(encode(EPISODE)) == EPISODE


def test_incident_is_unchanged_after_writing_and_reading() -> None:
    written = incident("checkout", 2, member_ids=["c1"], partitions={"t": [0]}, episode=17)
    assert decode_incident(encode(written)) == written


def test_all_fields_are_written_in_camel_case() -> None:
    written = json.loads(encode(EPISODE))
    assert {"groupId", "closedAt", "movedAgain", "waitingFor", "roundCount"} <= written.keys()
    assert (written["closedAt"], written["downtime"]["upperMs"]) == (None, None)
    worst = {"topic": "t", "partition": 0, "lowerMs": 1, "upperMs": None, "longestMs": [0, None], "stops": [0, None]}
    assert written["downtime"]["worst"] == worst
    assert written["members"]["replaced"] == [{"left": "c1", "joined": "c2", "by": "client id and host"}]


@pytest.mark.parametrize("group_id", ["checkout", "a/b", "/", "grün", "7"])
def test_key_is_group_slash_episode_number(group_id: str) -> None:
    assert key(group_id, 17) == f"{group_id}/17".encode()
    assert decode_key(key(group_id, 17)) == (group_id, 17)


@pytest.mark.parametrize(
    "wrong", [b"checkout", b"checkout/", b"a/x", b"a/-1", b"\xff/1", "a/²".encode(), b"a/" + b"1" * 11]
)
def test_invalid_key_is_refused(wrong: bytes) -> None:
    with pytest.raises(MalformedEpisode, match=r"^key: "):
        decode_key(wrong)


@pytest.mark.parametrize(
    "wrong", [b"", b"null", b"{}", b'"\xff"', b"[" * 10_000, encode(EPISODE).replace(b"rolling-", b"r")]
)
def test_invalid_value_is_rejected(wrong: bytes) -> None:
    with pytest.raises(MalformedEpisode, match=r"^value of rebalance\.episode: "):
        decode_episode(wrong)
    with pytest.raises(MalformedEpisode, match=r"^value of rebalance\.incident: "):
        decode_incident(wrong)
