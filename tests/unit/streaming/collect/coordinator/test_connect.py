"""Metadata bytes of Connect workers: recorded bytes of release 4.3.1, and malformed bytes, which are rejected."""

from struct import pack
from typing import Any

import pytest

from streaming.collect.coordinator.connect import WorkerAssignment, read_assignment, read_worker, running_tasks
from streaming.collect.coordinator.records import decode
from streaming.collect.coordinator.schema import MalformedRecord
from streaming.records.events import GroupObserved
from tests.support.offsets_topic import group_bytes, group_key, string, work, worker

#: Assignments of three protocols from the offsets topic of a 4.3.1 broker.
EAGER_WORKER_METADATA = bytes.fromhex("00000016687474703a2f2f3132372e302e302e313a383034362f0000000000000005")
EAGER_ASSIGNMENT = bytes.fromhex(
    "0000000000286365312d31643766613132352d636632342d343435652d623438302d6233626238653063623930620016"
    "687474703a2f2f3132372e302e302e313a383034352f00000000000000050000000100056b3830343500000002000000"
    "0000000002"
)
COMPATIBLE_ASSIGNMENT = bytes.fromhex(
    "0001000000286363312d30613762623566362d343262342d343139372d623933312d3466363038613738306630350016"
    "687474703a2f2f3132372e302e302e313a383034332f0000000000000005000000000000000100056b38303433000000"
    "010000000000000000"
)
SESSIONED_WORKER_METADATA = bytes.fromhex(
    "00020016687474703a2f2f3132372e302e302e313a383034312f00000000000000070000006f0002000000286373312d"
    "62393936663633652d323366622d346438322d626637362d3736633130633935633734640016687474703a2f2f313237"
    "2e302e302e313a383034312f0000000000000007000000010003736e6b00000003ffffffff0000000200000003000000"
    "0000003a98"
)


def test_metadata_of_connect_workers_is_decoded() -> None:
    assert read_worker(EAGER_WORKER_METADATA, "default") == {"endpoint": "http://127.0.0.1:8046/", "owned": {}}
    assert read_worker(SESSIONED_WORKER_METADATA, "sessioned") == {
        "endpoint": "http://127.0.0.1:8041/",
        "owned": {"snk": [-1, 2, 3]},
    }
    assert read_worker(worker(None), "compatible") == {"endpoint": "http://w:8083/", "owned": {}}
    assert read_worker(worker({"snk": [], "src": [1, 0, 1]}), "compatible")["owned"] == {"src": [0, 1]}


def test_empty_allocation_is_none() -> None:
    with pytest.raises(MalformedRecord, match=r"^version: the value ends after 0 bytes"):
        read_worker(worker(None)[:-4] + pack(">i", 0), "sessioned")


def test_running_connect_tasks_follow_from_the_assignment() -> None:
    before = {"snk": [-1, 0, 1], "src": [0]}
    assignment = WorkerAssignment({"src": [1]}, {"snk": [0, 1]})
    assert running_tasks(before, assignment, "sessioned") == {"snk": [-1], "src": [0, 1]}
    assert running_tasks(before, assignment, "default") == {"src": [1]}


@pytest.mark.parametrize(
    ("data", "protocol", "expected"),
    [
        (EAGER_ASSIGNMENT, "default", WorkerAssignment({"k8045": [0, 2]})),
        (COMPATIBLE_ASSIGNMENT, "compatible", WorkerAssignment({}, {"k8043": [0]})),
        (
            work({"snk": [1, -1]}, {"src": [0]}, 8947),
            "sessioned",
            WorkerAssignment({"snk": [-1, 1]}, {"src": [0]}, 8947),
        ),
        # A newer version is read as the newest supported version; null gives an empty result; the end may be missing.
        (pack(">hh", 9, 0) + string("l") + string("u") + pack(">qii", 5, -1, -1), "sessioned", WorkerAssignment()),
        (pack(">hh", 1, 0) + string("l") + string("u") + pack(">q", 5), "compatible", WorkerAssignment()),
    ],
)
def test_connect_assignment_bytes_are_decoded(data: bytes, protocol: str, expected: WorkerAssignment) -> None:
    assert read_assignment(data, protocol) == expected


@pytest.mark.parametrize(
    ("data", "protocol", "message"),
    [
        (EAGER_ASSIGNMENT[:-1], "default", "assignment.assignment.tasks: the value ends after 100 bytes"),
        (pack(">h", -1), "default", "version: -1 is below 0"),
        (pack(">hh", 0, 0) + string("l") + string("u") + pack(">qi", 5, -1), "default", "assignment.assignment: null"),
        (work({"snk": [4, -2]}), "sessioned", "assignment.assignment.tasks: -2 is not a task number"),
        (work({}), "range", "protocol: 'range' is not one of Connect's (default, compatible, sessioned)"),
        (work({}), None, "protocol: None is not one of Connect's"),
    ],
)
def test_malformed_connect_assignment_is_refused(data: bytes, protocol: str | None, message: str) -> None:
    with pytest.raises(MalformedRecord) as error:
        read_assignment(data, protocol)
    assert str(error.value).startswith(message)


def generation(number: int, members: dict[str, tuple[bytes, bytes]]) -> GroupObserved:
    value = group_bytes(number, members, protocol="sessioned", protocol_type="connect")
    record: Any = decode(group_key("g"), value)
    return record.value


def test_connect_snapshot_has_revoked_tasks_and_the_delay() -> None:
    members = {
        "w1": (worker({"snk": [-1, 0, 1]}, "http://1/"), work({}, {"snk": [1]})),
        "w2": (worker(None, "http://2/"), work({})),
    }
    snapshot = generation(4, members)

    assert (snapshot.kind, snapshot.protocol, snapshot.delay_ms or None) == ("connect", "sessioned", None)
    assert [
        (member.endpoint, member.topics, member.owned, member.pending_revocation, member.assigned)
        for member in snapshot.members
    ] == [("http://1/", [], {"snk": [-1, 0, 1]}, {"snk": [1]}, {"snk": [-1, 0]}), ("http://2/", [], {}, {}, {})]
    assert generation(5, {"w1": (worker({"snk": [0]}), work({}, {}, 15_000))}).delay_ms == 15_000
