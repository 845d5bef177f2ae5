"""Annotations: a POST publishes them, the stream forwards them, and the stories of episodes name them."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from streaming.kafka.producer import SendFailed
from streaming.records.events import Annotation, Event
from streaming.serve.history import History
from streaming.serve.records import TopicRecord
from tests.support.asgi import Response, ask
from tests.support.compacted import checkout_group
from tests.support.feed import MemorySource, records, service, stories
from tests.support.histories import Group

PATH = "/api/v1/annotations"
TOKEN = "x" * 24


def post_annotation(app: ASGIApp, body: Any, **headers: str) -> Response:
    text = json.dumps(body).encode()
    sent = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json", "content-length": str(len(text))}
    return ask(app, PATH, sent | headers, method="POST", body=text)


def stream_records(*events: Event) -> list[TopicRecord]:
    """Return the records that the stream writes for these annotations (marks on the timeline)."""
    source = MemorySource()
    for event in events:
        source.publish(event)
    return source.log


def mark(timestamp: int, groups: str = "*", number: int = 1, **fields: Any) -> Event:
    return Event("/test", str(number), Annotation(timestamp=timestamp, groups=groups, **fields))


def test_post_publishes_an_event_and_answers_with_its_id(history: History) -> None:
    published: list[Event] = []
    app = service(history, token=TOKEN, publish=published.append)
    fields = {"timestamp": 5, "groups": "g*", "text": "deploy", "revision": "a1", "link": "https://ci/7"}
    answer = post_annotation(app, fields)
    assert published[0].data == Annotation(**fields)
    assert answer.json == {"id": stream_records(published[0])[0].id}
    assert (answer.status, post_annotation(app, {"text": "now"}).status) == (202, 202)
    assert published[1].data.timestamp > 1_700_000_000_000


@pytest.mark.parametrize(
    ("body", "headers", "status", "kind"),
    [
        ({"text": "x"}, {"authorization": ""}, 401, "token"),
        ({"text": "x"}, {"content-type": "text/plain"}, 400, "annotation"),
        ({"text": " "}, {}, 400, "annotation"),
        ({"txt": "x"}, {}, 400, "annotation"),
        ({"text": "x", "link": "javascript:alert(1)"}, {}, 400, "annotation"),
        ({"text": "x" * 20_000}, {}, 413, "body"),
        ({"text": "x"}, {"transfer-encoding": "chunked"}, 413, "body"),
    ],
)
def test_unusable_annotations_are_refused(
    history: History, body: Any, headers: dict[str, str], status: int, kind: str
) -> None:
    answer = post_annotation(service(history, token=TOKEN), body, **headers)
    assert (answer.status, answer.json["type"]) == (status, f"/problems#{kind}")


def test_post_without_a_token_file_is_refused(history: History) -> None:
    answer = post_annotation(service(history), {"text": "x"})
    assert (answer.status, answer.json["type"]) == (403, "/problems#writing")


def test_refusal_by_kafka_is_reported(history: History) -> None:
    def raise_refusal(_: Event) -> None:
        raise SendFailed("the cluster is down")

    answer = post_annotation(service(history, token=TOKEN, publish=raise_refusal), {"text": "x"})
    assert (answer.status, answer.json["detail"]) == (503, "the cluster is down")


def test_annotations_are_listed_by_group_and_time(history: History) -> None:
    history.append(records(Group("g", {"t": 6}, 1).diffs(3)))
    first, last = mark(1000, "g*", 1, text="one"), mark(2000, "h", 2, link="javascript:1", revision="b2")
    history.append(stream_records(first, last))
    history.append(stream_records(first))  # the stream forwards the first event again
    app = service(history)
    every = ask(app, PATH).json["annotations"]
    shown = [(annotation["timestamp"], annotation["groups"], annotation["link"]) for annotation in every]
    assert shown == [(2000, "h", None), (1000, "g*", None)]
    assert ask(app, f"{PATH}?group=g").json["annotations"] == every[1:]
    assert ask(app, f"{PATH}?from=1500").json["annotations"] == every[:1]
    assert ask(app, "/api/v1/groups/g").json["annotations"] == every[1:]
    assert ask(app, "/api/v1/groups/g/timeline").json["annotations"] == every[1:]
    assert ask(app, "/api/v1/groups/g/timeline?limit=1").json["annotations"] == []


@pytest.mark.parametrize("is_late", [False, True])
def test_story_names_the_annotation_before_the_episode(history: History, is_late: bool) -> None:
    episodes = stories(checkout_group("g"))
    opened = json.loads(episodes[-1].value or b"")["openedAt"]
    marks = stream_records(
        mark(opened - 40_000, "g", 1, text="deploy", revision="a1b2c3"),
        mark(opened - 10_000, "other", 2, text="of another group"),
        mark(opened + 1, "*", 3, text="too late"),
    )
    history.append(records(Group("g", {"t": 6}, 1).diffs(3)))
    batches = [episodes, marks] if is_late else [marks, episodes]
    updates = [history.append(batch) for batch in batches]
    app = service(history)
    newest, oldest_episode = ask(app, "/api/v1/groups/g/episodes").json["episodes"]
    assert newest["story"].endswith(" Began 40 s after deploy a1b2c3.")
    assert "after" not in oldest_episode["story"]
    if is_late:  # clients that already have the episode receive the episode again
        assert {story.group_id for story in updates[1].stories} == {"g"}


def test_annotations_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    with closing(History(path, cluster_id="c-1", diffs_topic="rebalance.diffs")) as history:
        history.append(stream_records(mark(1000, text="one")))
    with closing(History(path, cluster_id="c-1", diffs_topic="rebalance.diffs")) as history:
        assert [annotation.text for annotation in history.current_stories.annotations] == ["one"]
