"""Fuzzes the standard input of the JSON Lines commands, and scenarios."""

import base64
import io
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
from hypothesis import strategies as st

from assignors.errors import BadInput, MonitorError
from assignors.partitioner import partition_for_key
from streaming.cli import assignment, checking
from streaming.cli.assignment import GroupLine
from streaming.cli.checking import place_replicas
from streaming.cli.json_lines import answer_lines
from streaming.cli.partitioning import parse_key, partition_chooser
from streaming.simulation import builtin_scenarios
from streaming.simulation.event_loop import run_scenario
from streaming.simulation.parse import load_scenario
from streaming.simulation.results import simulations_document
from streaming.simulation.scenario import Scenario
from tests.fuzz.case import Case, FuzzTarget
from tests.fuzz.shapes import of

_GOLDEN_FOLDER = Path(__file__).parents[2] / "golden/assignors"
#: Larger inputs take long without being a finding: the commands accept the size of the largest clusters.
_MAX_PARTITIONS = 5_000
_MOST_MEMBERS = 200


_SCENARIO_FILE = b"""topics: {t0: 6, t1: {partitions: 2, racks: [[r1], []]}}
session_timeout_ms: 45000
events:
  - {at: 0, join: c1, topics: [t0, t1], group_protocol: classic}
  - {at: 0, join: c2, topics: [t0], instance_id: i-2, rack_id: r1, assignors: [range]}
  - {at: 10000, bounce: c1, down_ms: 4000}
  - {at: 20000, crash: c2}
  - {at: 21000, pause: c1, down_ms: 50000}
  - {at: 40000, subscribe: c1, topics: [t1]}
  - {at: 50000, partitions: {t0: 8}}
  - {at: 60000, coordinator_fails: true}
  - {at: 70000, leave: c1}
"""


def _assert_one_answer_per_line(source: bytes, answer: Callable[[bytes], Any]) -> list[Any]:
    """Assert that there is one JSON response for each line that is not blank."""
    written: list[bytes] = []
    status = answer_lines(io.BytesIO(source), answer, lambda response: written.append(msgspec.json.encode(response)))
    answers = [json.loads(line) for line in written]
    assert len(answers) == sum(bool(line.removeprefix(b"\xef\xbb\xbf").strip()) for line in source.split(b"\n"))
    assert status == (2 if any("error" in answer for answer in answers) else 0)
    return answers


def _exceeds_time_limit(case: Case) -> bool:
    """Return true if the input line requests more work than fuzzing allows for one input."""
    line = (case[0] if case else None) or b""
    try:
        group = msgspec.json.decode(line, type=GroupLine)
    except (ValueError, RecursionError):
        return False
    topics = sum(topic.partitions for topic in group.topics.values())
    streams = sum(sum((member.streams or {}).values()) for member in group.members)
    return max(topics, streams) > _MAX_PARTITIONS or len(group.members) > _MOST_MEMBERS


def _assign(case: Case) -> None:
    line = (case[0] if case else None) or b""
    if _exceeds_time_limit(case):
        return
    for answer in (partial(assignment.assignment_answer, explained=True), assignment.comparison_answer):
        _assert_one_answer_per_line(line, answer)
    for response in _assert_one_answer_per_line(line, assignment.assignment_answer):
        if "assignment" in response:
            _check_accepts_assign(line, response["assignment"])


def _check_accepts_assign(line: bytes, assignment: dict[str, Any]) -> None:
    """Assert that ``check`` accepts the assignment that ``assign`` computed."""
    if line.count(b"\n"):
        return
    try:
        request = json.loads(line.removeprefix(b"\xef\xbb\xbf").decode())
    except UnicodeDecodeError:
        return  # the invalid bytes are in an unknown field, which is not decoded
    if request.get("protocol") == "zookeeper":
        return  # there the assignment is by thread
    request["assignment"] = assignment
    report = checking.check_answer(json.dumps(request).encode(), exact=True)
    assert not [violation for violation in report["violations"] if violation.startswith("exact")], report


def _check(case: Case) -> None:
    if not _exceeds_time_limit(case):
        for answer in (partial(checking.check_answer, exact=True), checking.check_answer):
            _assert_one_answer_per_line((case[0] if case else None) or b"", answer)


def _group_seeds() -> Iterator[Case]:
    for path in sorted(_GOLDEN_FOLDER.glob("*/*.jsonl")):
        for line in path.read_text().splitlines()[:12]:
            document = json.loads(line)
            request = document.get("question") or document.get("case") or document
            if isinstance(request, dict) and {"topics", "members"} <= request.keys():
                yield [json.dumps(request).encode()]
    for protocol, assignor in (
        *(("classic", name) for name in ("range", "roundrobin", "sticky", "cooperative-sticky")),
        *(("consumer", name) for name in ("uniform", "range")),
        *(("zookeeper", name) for name in ("range", "roundrobin")),
    ):
        members = [
            {"memberId": name, "topics": ["t0", "t1"], "rackId": "r1", "owned": {"t0": [at]}, "generation": 4}
            | ({"streams": {"t0": 2, "t1": 1}} if protocol == "zookeeper" else {})
            for at, name in enumerate(("c1", "c2"))
        ]
        topics = {
            "t0": {"partitions": 3, "racks": [["r1"], ["r2"], []], "topicId": "A" * 21 + "B"},
            "t1": {"partitions": 2, "topicId": "A" * 21 + "Q"},
        }
        case = {"protocol": protocol, "assignor": assignor, "topics": topics, "members": members}
        yield [json.dumps(case).encode()]
        observed = {"c1": {"t0": [0, 1], "t1": [0]}, "c2": {"t0": [2], "t1": [1]}}
        yield [json.dumps(case | {"assignment": observed}).encode()]


def _check_seeds() -> Iterator[Case]:
    yield from _group_seeds()
    yield [b'{"brokers": "0:r1,1:r2,2:r3:fenced,3", "placement": {"0": [0, 1], "1": [1, 3]}}']
    yield [b'{"brokers": "0,1,2", "placement": {"t0": {"0": [0, 1], "1": [2, 1]}, "t1": {"0": [2]}}}']


def _partition(case: Case) -> None:
    source, number = ((part or b"") for part in [*case, None, None][:2])
    partitions = max(1, int.from_bytes(number[:4]) & 0x7FFF_FFFF)
    lines = source.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    lines = lines[: len(lines) - (not lines[-1])]
    key_formats: tuple[Literal["utf8", "base64"], ...] = ("utf8", "base64")
    for keys in key_formats:
        for limit in (None, 64):
            choose_partition = partition_chooser("murmur2", partitions)
            answers: list[Any] = []

            def answer(line: bytes, keys: Literal["utf8", "base64"] = keys) -> int:
                return choose_partition(parse_key(line, keys))  # noqa: B023 - called in this turn of the loop

            status = answer_lines(io.BytesIO(source), answer, answers.append, limit=limit, skip_blank=False)
            assert len(answers) == len(lines), (len(answers), len(lines))
            expected = [_partition_of(line.removesuffix(b"\r"), keys, partitions, limit) for line in lines]
            assert [answer if isinstance(answer, int) else None for answer in answers] == expected
            assert status == (2 if None in expected else 0)


def _partition_of(line: bytes, keys: str, partitions: int, limit: int | None) -> int | None:
    if limit is not None and len(line) > limit:
        return None
    try:
        if keys == "utf8":
            line.decode()
        else:
            line = base64.b64decode(line.replace(b"-", b"+").replace(b"_", b"/"), validate=True)
    except ValueError:
        return None
    return partition_for_key(line, partitions)


def _partition_seeds() -> Iterator[Case]:
    yield [b"\xef\xbb\xbfkey-1\r\nkey-2\n\nd\xc3\xa9j\xc3\xa0\n", b"\0\0\0\x06"]
    yield [b"a2V5\nYW55/w==\n_-8=\n" + b"x" * 70 + b"\nlast", b"\x7f\xff\xff\xff"]


def _place_replicas(case: Case) -> None:
    brokers, *numbers = case or [b""]
    try:
        text = (brokers or b"").decode()
    except UnicodeDecodeError:
        return  # Python decodes the command line itself
    partitions, replication_factor, start, shift, first, seed = (_number(part) for part in [*numbers, *[None] * 6][:6])
    if abs(partitions or 0) > _MAX_PARTITIONS:
        partitions = 3
    for placer in ("admin-utils", "striped"):
        for start_options in ({}, {"start_index": start, "shift": shift}):
            try:
                placement = place_replicas(
                    text,
                    partitions or 1,
                    replication_factor or 1,
                    placer=placer,  # type: ignore[arg-type] # one of the two
                    start_partition=first or 0,
                    seed=seed,
                    **start_options,
                )
            except MonitorError:
                continue
            assert len(placement) == (partitions or 1)
            for replicas in placement.values():
                assert len(set(replicas)) == len(replicas) == (replication_factor or 1)


def _number(part: bytes | None) -> int | None:
    try:
        return int((part or b"").decode())
    except ValueError:
        return None


def _place_seeds() -> Iterator[Case]:
    yield [b"0:r1,1:r3,2:r3,3:r2,4:r2,5:r1", b"7", b"3", b"0", b"0", b"0", b"1"]
    yield [b"0,1,2", b"4", b"2", b"1", b"1", b"2", b"7"]
    yield [b"0:r1,3:r1:fenced,4::fenced,5:r2", b"3", b"2", b"0", b"0", b"0", b"1"]


def _scenario(case: Case) -> None:
    """Run a scenario under every protocol, or assert that the error message of its rejection contains the reason."""
    try:
        text = ((case[0] if case else None) or b"").decode()
        plan = load_scenario(text)
    except (UnicodeDecodeError, BadInput):
        return
    if _scenario_takes_long(plan):
        return
    for protocol in ("zookeeper", "eager-v1", "eager", "cooperative", "connect", "consumer"):
        try:
            result = run_scenario(plan, protocol)
        except BadInput:
            continue
        json.dumps(simulations_document([result]))


def _scenario_takes_long(plan: Scenario) -> bool:
    """Return true if a valid scenario takes long to simulate because it is large."""
    counts = [topic.partitions for topic in plan.topics.values()]
    counts += [count for event in plan.events for count in event.partitions.values()]
    return sum(counts) > 200 or len(plan.events) > 12 or max((event.at for event in plan.events), default=0) > 10**7


def _scenario_seeds() -> Iterator[Case]:
    for name in builtin_scenarios.BUILTIN_SCENARIOS:
        document = builtin_scenarios.builtin_document(name, None, None)
        small_document = document | {"events": document["events"][:8], "topics": dict.fromkeys(document["topics"], 4)}
        yield [json.dumps(small_document, indent=1).encode()]
    yield [_SCENARIO_FILE]


TARGETS = (
    FuzzTarget("assign", _assign, _group_seeds, shape=of(GroupLine).map(lambda line: [msgspec.json.encode(line)])),
    FuzzTarget(
        "check",
        _check,
        _check_seeds,
        shape=st.one_of(of(GroupLine), of(checking.PlacementLine)).map(lambda line: [msgspec.json.encode(line)]),
    ),
    FuzzTarget("partition", _partition, _partition_seeds, 2),
    FuzzTarget("place", _place_replicas, _place_seeds, 7),
    FuzzTarget(
        "scenario",
        _scenario,
        _scenario_seeds,
        words=(b"&a ", b"*a", b"!!python/object", b"<<: ", b"0x_", b"0b", b"? ", b"- ", b"---\n", b"1e999", b"~"),
    ),
)
