"""The decoder of a bucket's stored state; integration tests read real checkpoints."""

import json
from pathlib import Path

import pytest

from assignors.errors import BadInput
from streaming.monitor.bucket_state import Bucket, LastHeartbeat
from streaming.spark.state import InspectedGroup, groups, inspect_groups
from tests.support.histories import Log, play


def test_error_names_the_checkpoint_without_state(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=f"--checkpoint {tmp_path}: has no state yet"):
        list(inspect_groups(str(tmp_path)))


def test_inspected_state_has_named_json_fields() -> None:
    log, bucket = Log(), Bucket()
    tracked = bucket.get("g")
    state, _ = play([log.topics(t=1), log.join("c1")])
    tracked.state = state
    tracked.heartbeats = {"c1": LastHeartbeat(1, 99, 10)}
    document = json.loads(InspectedGroup(3, "g", 120, tracked).as_json())
    assert (document["groupId"], document["bucket"], document["bytes"], document["forgetAt"]) == ("g", 3, 120, None)
    assert document["heard"] == {"c1": {"timestamp": 1, "deadline": 99, "timeout": 10}}
    assert document["state"]["generation"] == 1
    assert document["state"]["members"][0]["memberId"] == "c1"
    assert document["state"]["members"][0]["owned"] == {"t": [0]}
    assert document["state"]["topics"]["t"]["partitions"] == 1
    assert "applied" not in document["state"]


def test_a_blob_is_decoded_without_spark() -> None:
    log, bucket = Log(), Bucket()
    tracked = bucket.get("g")
    tracked.state = play([log.topics(t=1), log.join("c1")])[0]
    bucket.commit("g")
    states = groups(bytearray(bucket.pack()))  # PySpark's type of a binary column
    assert states.keys() == {"g"}
    assert states["g"]["state"]["members"][0]["owned"] == {"t": [0]}
