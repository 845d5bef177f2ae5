"""The state buckets: their numbers, their groups and their decoder; integration tests read real checkpoints."""

import json
from collections import Counter
from pathlib import Path
from zlib import crc32

import pytest

from assignors.errors import BadInput
from streaming.monitor.bucket_state import Bucket, LastHeartbeat
from streaming.spark.state import InspectedGroup, bucket_numbers, groups, inspect_groups, murmur3, regroup_buckets
from tests.support.histories import Log, play


def bucket_of(*groups: str) -> bytes:
    bucket = Bucket()
    for group in groups:
        log, tracked = Log(group), bucket.get(group)
        state, _ = play([log.topics(t=3), log.join("c1", session_timeout_ms=10)])
        tracked.state = state
        tracked.heartbeats = {"c1": LastHeartbeat(1, 99 + len(group), 10)}
        bucket.commit(group)
    return bucket.pack()


def test_error_names_the_checkpoint_without_state(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=f"--checkpoint {tmp_path}: has no state yet"):
        list(inspect_groups(str(tmp_path)))


def test_inspected_state_has_named_json_fields() -> None:
    document = json.loads(InspectedGroup(3, "g", 120, Bucket(bucket_of("g")).get("g")).as_json())
    assert (document["groupId"], document["bucket"], document["bytes"], document["forgetAt"]) == ("g", 3, 120, None)
    assert document["heard"] == {"c1": {"timestamp": 1, "deadline": 100, "timeout": 10}}
    state = document["state"]
    assert (state["generation"], state["topics"]["t"]["partitions"]) == (1, 3)
    assert (state["members"][0]["memberId"], state["members"][0]["owned"]) == ("c1", {"t": [0, 1, 2]})
    assert "applied" not in state


def test_a_blob_is_decoded_without_spark() -> None:
    states = groups(bytearray(bucket_of("g")))  # PySpark's type of a binary column
    assert states.keys() == {"g"}
    assert states["g"]["state"]["members"][0]["owned"] == {"t": [0, 1, 2]}


def test_murmur3_equals_that_of_spark() -> None:
    # SELECT hash(0), hash(1), hash(-1), hash(2147483647)
    assert [murmur3(number) for number in (0, 1, -1, 2147483647)] == [933211791, -559580957, -1604776387, 133916647]


@pytest.mark.parametrize("buckets", [1, 2, 3, 4, 12, 16, 64, 256])
def test_buckets_are_spread_evenly_over_spark_tasks(buckets: int) -> None:
    numbers = bucket_numbers(buckets)
    assert len(set(numbers)) == buckets
    for tasks in (tasks for tasks in range(1, buckets + 1) if buckets % tasks == 0):
        assert set(Counter(murmur3(number) % tasks for number in numbers).values()) == {buckets // tasks}


def test_bucket_numbers_equal_those_of_older_checkpoints() -> None:
    """Groups stay in the buckets of older checkpoints; otherwise their states would be lost."""
    assert {buckets: bucket_numbers(buckets) for buckets in (1, 2, 3, 4, 6, 8, 12, 16)} == {
        1: [0],
        2: [2, 0],
        3: [0, 1, 11],
        4: [12, 6, 2, 0],
        6: [2, 1, 12, 0, 13, 11],
        8: [12, 6, 5, 1, 25, 15, 2, 0],
        12: [14, 6, 28, 0, 13, 15, 2, 1, 12, 9, 49, 11],
        16: [12, 16, 5, 1, 37, 20, 2, 35, 13, 6, 49, 7, 25, 15, 4, 0],
    }


def test_many_buckets_are_numbered_in_order() -> None:
    assert bucket_numbers(300) == list(range(300))


@pytest.mark.parametrize("buckets", [1, 3, 8, 256, 300])
def test_regrouped_state_is_in_the_bucket_of_each_group_id(buckets: int) -> None:
    groups = [*(f"group-{number}" for number in range(20)), "ü"]
    blobs = regroup_buckets([bucket_of(*groups[:7]), bucket_of(*groups[7:]), Bucket().pack()], buckets)
    numbers = bucket_numbers(buckets)
    bucket_by_group = {group: number for number, blob in blobs.items() for group in Bucket(blob)}
    assert bucket_by_group == {group: numbers[crc32(group.encode()) % buckets] for group in groups}
    assert all(Bucket(blob).due == {name: 99 + len(name) for name in Bucket(blob)} for blob in blobs.values())
    bucket_of_all_groups = Bucket(bucket_of(*groups))
    assert all(Bucket(blobs[bucket_by_group[group]]).get(group) == bucket_of_all_groups.get(group) for group in groups)
