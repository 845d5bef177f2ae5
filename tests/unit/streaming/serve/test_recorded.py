"""The page of a recording shows all rounds and stories of the recording's replay, without a cluster."""

import io
import threading
from typing import Any

import pytest

from assignors.errors import BadInput
from streaming.recording.file import read_recording
from streaming.records.events import Annotation, Event
from streaming.serve.server import FeedServer, serve_recording
from streaming.serve.source import RecordedSource
from tests.support.feed import MemorySource
from tests.support.feed_server import RunningServer
from tests.support.wait import eventually
from tests.unit.streaming.recording.test_file import RECORDING_BYTES

RECORDING = read_recording(io.BytesIO(RECORDING_BYTES), "a.rmlog")


def test_recorded_source_returns_each_output_once() -> None:
    source, topics = RecordedSource(RECORDING), dict.fromkeys(("diffs", "assignments", "episodes", "incidents"), 0)
    source.open({}, {})
    while not source.caught_up:
        assert not source.whole
        for record in source.poll(0):
            assert record.offset == topics[record.topic]
            topics[record.topic] += 1
    outputs = [output.write.topic for step in RECORDING.steps() for output in step]
    assert topics == {topic: outputs.count(topic) for topic in topics}
    assert (source.whole, source.lag) == ({"episode", "incident"}, 0)
    with pytest.raises(BadInput, match="annotation: a recording can't be changed"):
        source.publish(Event("s", "1", Annotation(timestamp=1, groups=".*", text="x")))


def test_api_serves_the_recording() -> None:
    started: list[FeedServer] = []
    thread = threading.Thread(target=serve_recording, args=(RECORDING, "127.0.0.1", 0, started.append))
    thread.start()

    def get(path: str) -> Any:
        return RunningServer(MemorySource(), started[0]).get(path)

    try:
        eventually(lambda: started)
        diffs = [output for step in RECORDING.steps() for output in step if output.write.topic == "diffs"]
        groups = {(output.write.key or b"").decode() for output in diffs}
        eventually(lambda: sum(group["rounds"] for group in get("/api/v1/groups")["groups"]) == len(diffs))
        assert {group["groupId"] for group in get("/api/v1/groups")["groups"]} == groups
        eventually(lambda: get(f"/api/v1/groups/{min(groups)}/episodes")["caughtUp"])
        assert get(f"/api/v1/groups/{min(groups)}/episodes")["episodes"]
    finally:
        started[0].stop()
        thread.join()
