"""Processes a membership log that another program wrote with kafka-python and JSON, and checks all output.

No code of this project writes the log or chooses its partitions; the topics have the broker's defaults. The output is
compared with hand-computed values, and then with the output of ``replay`` and ``watch`` for the same topics.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer
from kafka.partitioner.default import murmur2

from tests.support.command import run
from tests.support.kafka import Kafka, unique_name

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PARTITIONS = {"membership": 5, "diffs": 3, "assignments": 4, "membership-dlt": 2}
HEADERS = ["ce_specversion", "ce_type", "ce_id", "ce_source", "ce_time", "content-type"]
SAMPLE_MEMBER = {
    "clientId": "c",
    "clientHost": "/10.0.0.1",
    "rackId": None,
    "groupInstanceId": None,
    "protocolType": "consumer",
    "groupProtocol": "classic",
    "sessionTimeoutMs": 45000,
    "rebalanceTimeoutMs": 300000,
    "aFieldOfTomorrow": [1],
}

Value = dict[str, Any]


class ContractRecord(NamedTuple):
    """A Kafka record with the fields that this project's readers use."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class ExternalProgram:
    """A program outside this project that writes and reads the contract's topics as JSON."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.prefix = f"{unique_name('external_program')}."
        self.options = ("--bootstrap-servers", servers, "--topic-prefix", self.prefix)
        self.ids = count()
        made = [
            NewTopic(self.topic(name), n, 1, config={"cleanup.policy": "compact"} if name == "assignments" else {})
            for name, n in PARTITIONS.items()
        ]
        admin = AdminClient({"bootstrap.servers": servers})
        for future in admin.create_topics(made).values():
            future.result()
        self._producer = KafkaProducer(bootstrap_servers=servers, max_request_size=2 * 2**20)

    def topic(self, name: str) -> str:
        return f"{self.prefix}rebalance.{name}"

    def event(self, kind: str, group: str, at: int, **fields: Any) -> None:
        self.record(group.encode(), kind, json.dumps({"groupId": group, "timestamp": at, **fields}).encode())

    def record(self, key: bytes | None, kind: str | None, value: bytes | None) -> None:
        attributes = {
            "ce_specversion": "1.0",
            "ce_type": kind,
            "ce_id": f"e{next(self.ids)}",
            "ce_source": "/outside",
            "ce_time": "2023-11-14T22:13:20Z",
            "content-type": "application/json",
        }
        headers = [(name, text.encode()) for name, text in attributes.items() if text is not None]
        self._producer.send(self.topic("membership"), key=key, value=value, headers=headers).get(30)

    def rows(self, name: str) -> list[ContractRecord]:
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": unique_name("reader")})
        rows = []
        for partition in range(PARTITIONS[name]):
            place = TopicPartition(self.topic(name), partition, 0)
            _, end = consumer.get_watermark_offsets(place, timeout=10)
            consumer.assign([place])
            for _ in range(end):
                message = consumer.poll(20)
                assert message is not None
                assert message.error() is None
                rows.append(ContractRecord(partition, message.key(), message.value(), message.headers() or []))
        consumer.close()
        return rows


def diff(group: str, before: Value, after: Value) -> Value:
    members: Value = {}
    for member in {*before, *after}:
        old, new = set(before.get(member, ())), set(after.get(member, ()))
        parts = {"owned": old, "revoked": old - new, "assigned": new - old, "kept": old & new}
        members[member] = {name: {"t": sorted(part)} if part else {} for name, part in parts.items()}
        members[member] |= {"present": member in after} | NO_NAMES | NAMES.get((group, member), {})
    return members


NO_NAMES: Value = {"clientId": None, "clientHost": None, "groupInstanceId": None}
#: Display names of members in the events.
NAMES: dict[tuple[str, str], Value] = {
    ("ränge", "c1"): {"clientId": SAMPLE_MEMBER["clientId"], "clientHost": SAMPLE_MEMBER["clientHost"]},
    ("static", "i-a"): {"groupInstanceId": "i"},
    ("static", "i-b"): {"groupInstanceId": "i"},
    ("seen", "m1"): {"clientId": "seer", "clientHost": "/10.0.0.9"},
}

#: Group → (generation, round, cause, members, before, after) of each of its diffs, computed by hand.
EXPECTED: dict[str, list[tuple[int, int, str, list[str], Value, Value]]] = {
    "ränge": [
        (1, 1, "member.joined", ["c1"], {}, {"c1": [0, 1, 2, 3, 4]}),
        (2, 1, "member.joined", ["c2"], {"c1": [0, 1, 2, 3, 4]}, {"c1": [0, 1, 2], "c2": [3, 4]}),
        (3, 1, "topic.partitions_changed", [], {"c1": [0, 1, 2], "c2": [3, 4]}, {"c1": [0], "c2": [1]}),
        (4, 1, "member.left", ["c1"], {"c1": [0], "c2": [1]}, {"c2": [0, 1]}),
        (5, 1, "member.fenced", ["c2"], {"c2": [0, 1]}, {}),
    ],
    # The walkthrough: member 3 joins members 1 and 2, which own three partitions each.
    "cooperative": [
        (1, 1, "member.joined", ["c1"], {}, {"c1": [0, 1, 2, 3, 4, 5]}),
        (2, 1, "member.joined", ["c2"], {"c1": [0, 1, 2, 3, 4, 5]}, {"c1": [0, 1, 2], "c2": []}),
        (3, 2, "member.joined", ["c2"], {"c1": [0, 1, 2]}, {"c1": [0, 1, 2], "c2": [3, 4, 5]}),
        (4, 1, "member.joined", ["c3"], {"c1": [0, 1, 2], "c2": [3, 4, 5]}, {"c1": [0, 1], "c2": [3, 4], "c3": []}),
        (5, 2, "member.joined", ["c3"], {"c1": [0, 1], "c2": [3, 4]}, {"c1": [0, 1], "c2": [3, 4], "c3": [2, 5]}),
    ],
    "static": [
        (1, 1, "member.joined", ["i-a"], {}, {"i-a": [0, 1]}),
        # i-b replaced i-a without a diff.
        (2, 1, "member.subscription_changed", ["i-b"], {"i-b": [0, 1]}, {"i-b": []}),
        (3, 1, "group.deleted", ["i-b"], {"i-b": []}, {}),
    ],
    "seen": [
        (7, 1, "group.observed", [], {}, {}),
        (8, 1, "member.joined", ["m1"], {}, {"m1": [0, 1]}),
        (9, 1, "member.left", ["m1"], {"m1": [0, 1]}, {}),
    ],
}  # fmt: skip # a row a line


def write_log(external_program: ExternalProgram) -> None:
    def topics(group: str, count: int) -> None:
        external_program.event(
            "topic.partitions_changed", group, 1000, topics={"t": {"partitions": count, "racks": None}}
        )

    def joined(group: str, member: str, at: int = 2000, **fields: Any) -> None:
        external_program.event("member.joined", group, at, memberId=member, topics=["t"], **fields)

    topics("ränge", 5)
    joined("ränge", "c1", **SAMPLE_MEMBER)
    joined("ränge", "c1", 9000, **SAMPLE_MEMBER)  # a repeated join with the same metadata
    joined("ränge", "c2", 1)  # an earlier timestamp has no effect
    external_program.event("member.heartbeat", "ränge", 2500, memberId="c2", generation=2)
    external_program.event("member.assignment_acknowledged", "ränge", 2500, memberId="c2", owned={"t": [3, 4]})
    topics("ränge", 2)
    external_program.event("member.left", "ränge", 3000, memberId="nobody")
    external_program.event("member.left", "ränge", 3000, memberId="c1", reason="leave")
    external_program.event("member.fenced", "ränge", 3100, memberId="c2", reason="session timeout")
    topics("cooperative", 6)
    for member in ("c1", "c2", "c3"):
        joined("cooperative", member, assignors=["cooperative-sticky"])
    topics("static", 2)
    joined("static", "i-a", groupInstanceId="i")
    joined("static", "i-b", groupInstanceId="i")
    external_program.event("member.subscription_changed", "static", 4000, memberId="i-b", topics=["u"])
    external_program.event("group.deleted", "static", 5000)
    member = {"memberId": "m1", "topics": ["t"], "assigned": {"t": [1, 0]}} | NAMES["seen", "m1"]
    for generation, members in ((7, []), (8, [member]), (8, [member]), (6, []), (9, [])):
        external_program.event("group.observed", "seen", 6000, generation=generation, protocol="range", members=members)


INVALID_HEARTBEAT = b'{"groupId":"p","timestamp":1,"memberId":"c","generation":%d}' % 2**70
RACKS = b'{"groupId":"p","timestamp":1,"topics":{"t":{"partitions":2,"racks":[[]]}}}'
INVALID_RECORDS: list[tuple[str, bytes | None, str | None, bytes | None]] = [
    ("UnknownEventType", b"p", "member.exploded", b"{}"),
    ("MalformedEvent", b"p", None, b"{}"),
    ("MalformedEvent", b"p", "member.left", b'{"groupId":"p",'),
    ("MalformedEvent", b"p", "member.left", b'{"groupId":"p","timestamp":1}'),
    ("MalformedEvent", b"p", "member.left", b'{"groupId":"other","timestamp":1,"memberId":"c"}'),
    ("MalformedEvent", b"p", "member.left", b'{"groupId":"p","timestamp":"1","memberId":"c"}'),
    ("MalformedEvent", b"p", "member.heartbeat", INVALID_HEARTBEAT),
    ("MalformedEvent", b"p", "member.left", None),
    ("MalformedEvent", b"\xff", "member.left", b"\xff"),
    ("MalformedEvent", b"p", "member.left", b"{" + b"x" * 1_048_200),  # with its reason longer than the topic allows
    ("MissingKey", None, "member.left", b'{"groupId":"p","timestamp":1,"memberId":"c"}'),
    ("ContradictoryTopic", b"p", "topic.partitions_changed", RACKS),
]  # fmt: skip # a row a line


@pytest.fixture(scope="module")
def external_program(broker: Kafka, tmp_path_factory: pytest.TempPathFactory) -> ExternalProgram:
    """Write the log twice with the same ids, with unusable records in between, and run the stream over it."""
    program = ExternalProgram(broker.bootstrap_servers)
    write_log(program)
    for _, key, kind, value in INVALID_RECORDS:
        program.record(key, kind, value)
    program.ids = count()  # the ids start again, so that both writes have the same ids
    write_log(program)
    folder: Path = tmp_path_factory.mktemp("checkpoint")
    done = run("stream", "--available-now", "--checkpoint", str(folder), *program.options, timeout=300)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "Traceback" not in done.stderr
    return program


def placed(row: ContractRecord, name: str) -> bool:
    """Return true if the record is in the partition that kafka-python's murmur2 chooses for the record's key."""
    return row.key is None or row.partition == (murmur2(row.key) & 0x7FFFFFFF) % PARTITIONS[name]


def values(rows: list[ContractRecord]) -> Iterator[Value]:
    return (json.loads(row.value or b"null") for row in rows)


def test_diffs_equal_the_hand_computed_diffs(external_program: ExternalProgram) -> None:
    rows = external_program.rows("diffs")
    diffs_by_group = defaultdict(list)
    for row, value in zip(rows, values(rows), strict=True):
        assert placed(row, "diffs")
        assert [name for name, _ in row.headers] == HEADERS
        headers = dict(row.headers)
        assert (headers["ce_specversion"], headers["content-type"]) == (b"1.0", b"application/json")
        assert (row.key or b"").decode() == value["groupId"]
        assert (value["groupEpoch"], value["violations"]) == (None, [])
        diffs_by_group[value["groupId"]].append(value)
    assert len({dict(row.headers)["ce_id"] for row in rows}) == len(rows)
    assert diffs_by_group.keys() == EXPECTED.keys()
    for group, expected in EXPECTED.items():
        found_diffs = [
            (d["generation"], d["round"], d["cause"]["kind"], d["cause"]["memberIds"], d["members"])
            for d in diffs_by_group[group]
        ]
        assert found_diffs == [(*head, diff(group, before, after)) for *head, before, after in expected]


def test_latest_assignments_equal_the_last_diffs(external_program: ExternalProgram) -> None:
    rows = external_program.rows("assignments")
    assert all(placed(row, "assignments") for row in rows)
    latest = {row.key: value for row, value in zip(rows, values(rows), strict=True)}
    after = {group: rounds[-1][5] for group, rounds in EXPECTED.items()}
    assert latest.pop(b"static") is None
    assert {key.decode(): value["members"] for key, value in latest.items() if key and value} == {
        group: {member: {"t": share} if share else {} for member, share in after[group].items()}
        for group in after.keys() - {"static"}
    }
    assert {key.decode(): value["names"] for key, value in latest.items() if key and value} == {
        group: {member: NO_NAMES | NAMES.get((group, member), {}) for member in after[group]}
        for group in after.keys() - {"static"}
    }


def test_dead_letters_are_unchanged_records_with_a_reason(external_program: ExternalProgram) -> None:
    rows = external_program.rows("membership-dlt")
    assert all(placed(row, "membership-dlt") for row in rows)
    dead_letters = [((dict(row.headers)["dlt_exception"] or b"").decode(), row.key) for row in rows]
    assert sorted(dead_letters, key=repr) == sorted(((kind, key) for kind, key, _, _ in INVALID_RECORDS), key=repr)
    truncated_records = [row for row in rows if "dlt_truncated" in dict(row.headers)]
    assert [len(row.value or b"") > 1_000_000 for row in truncated_records] == [True]
    whole = {row.value for row in rows if row not in truncated_records}
    assert whole == {value for *_, value in INVALID_RECORDS if value is None or len(value) < 1_000_000}


def test_watch_and_replay_print_the_same_bytes_as_json_lines(external_program: ExternalProgram) -> None:
    written = sorted(row.value.decode() for row in external_program.rows("diffs") if row.value)
    for command in (["watch", "--from-beginning", "--exit-at-end"], ["replay"]):
        done = run(*command, "--json", *external_program.options)
        assert (done.returncode, done.stderr) == (0, "")
        assert sorted(done.stdout.splitlines()) == written
    compared = run("replay", "--check", *external_program.options)
    assert (compared.returncode, compared.stdout) == (0, "")
