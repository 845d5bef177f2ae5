"""Groups at a past moment equal the result of replaying the membership log up to this moment."""

import json
from random import Random

import pytest

from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.recording.history import event_time, history_at
from streaming.records.codec import Record, ce_attributes, encode_event
from streaming.serve.archive import Archive
from streaming.serve.history import History
from streaming.serve.records import TopicRecord
from tests.support.asgi import ask
from tests.support.feed import ASSIGNMENTS, DIFFS, EPISODES, INCIDENTS, records, service
from tests.support.histories import Group
from tests.support.pure_stream import SINKS
from tests.support.recorded import membership_log

TOPICS = {"d": DIFFS, "a": ASSIGNMENTS, "e": EPISODES, "i": INCIDENTS}


def served(history: History, log: list[Record]) -> None:
    """Store the records that the stream writes for a log, event by event."""
    bucket = Bucket()
    for offset, record in enumerate(log):
        stored = []
        for write in process(bucket, [record], 0, SINKS):
            if topic := TOPICS.get(write.topic):
                values = (topic, 0, offset, write.key, write.value, ce_attributes(write.headers)["id"])
                stored.append(TopicRecord(*values, event_ms=event_time(record)))
        history.append(stored)


@pytest.mark.parametrize("seed", range(2))
def test_group_as_of_a_moment_equals_a_replay(history: History, seed: int) -> None:
    events = sorted(membership_log(150, 8, seed), key=lambda event: event.data.timestamp)
    log = [Record.of(0, offset, *encode_event(event)) for offset, event in enumerate(events)]
    served(history, log)
    archive, compared = Archive(history.path), 0
    for at_ms in Random(seed).sample(sorted({event_time(record) for record in log}), 8):
        past = history_at(log, at_ms, SINKS)
        for latest in past.assignments:
            past_groups = archive.group_at(history.groups[latest.group_id], at_ms)
            if past_groups is None or past_groups["assignment"].timestamp != latest.timestamp:
                continue  # the group has no round yet, or a static member rejoined without a round
            assert {member: share for member, share in past_groups["assignment"].members.items() if share} == {
                member: share for member, share in latest.members.items() if share
            }
            own = [member for member in past.episodes if member.episode.group_id == latest.group_id]
            own.sort(key=lambda member: member.episode.episode, reverse=True)
            assert past_groups["episodes"] == [member.value for member in own[:10]]
            assert {json.loads(body)["incident"] for body in past_groups["incidents"]} == {
                member.incident.incident
                for member in past.incidents
                if member.incident.group_id == latest.group_id and member.incident.closed_at is None
            }
            compared += 1
    assert compared > 15


def test_api_returns_groups_at_a_past_moment(history: History) -> None:
    group = Group("g", {"t": 6}, 1)
    diffs = group.diffs(12)
    history.append(records(diffs))
    app, before = service(history), diffs[4].timestamp - 1
    past_groups = ask(app, f"/api/v1/groups/g?at={before}").json
    round_ = diffs[3]
    owned = {
        member_id: sorted([*member.kept.get("t", ()), *member.assigned.get("t", ())])
        for member_id, member in round_.members.items()
        if member.present is not False
    }
    assert {name: share.get("t", []) for name, share in past_groups["assignment"]["members"].items()} == owned
    assert past_groups["at"] == before
    assert (past_groups["group"]["generation"], past_groups["group"]["seq"]) == (round_.generation, 4)
    assert ask(app, f"/api/v1/groups?at={before}").json["groups"] == [past_groups["group"]]
    first = diffs[0].timestamp
    assert ask(app, f"/api/v1/groups/g?at={first - 1}").status == 404
    assert ask(app, f"/api/v1/groups?at={first - 1}").json["groups"] == []
