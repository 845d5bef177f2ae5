"""Measures every assignor against the JVM classes and kafka-python, on the shapes of Kafka's own benchmark.

The shapes are those of ``ClientSideAssignorBenchmark``: a number of members, of partitions per member, and of topics.
All members subscribe to all topics, or each member to one of five disjoint buckets of topics. All members are new, or
one member joins a balanced group. With racks a partition is in two of three racks; in all three, as in Kafka's version,
racks would have no effect. Members join in an order shuffled by the seed. Every assignment is compared with the JVM's
by a checksum. This project's assignors are measured as they run, with native code where it is built. The assignors of
the consumer protocol (KIP-848) run inside the coordinator's builder, of which the JVM's time leaves out everything but
the assignor; this project's assignors are measured without native code as well. The assignors of the old consumer
(ZooKeeper) run with one thread per consumer and topic.

    python -m benchmarks.assignors [--quick | --doubling] [--protocol classic] [--seed 1] [--document]
"""

import argparse
import base64
import ctypes
import gc
import json
import random
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from assignors.java import string_hash
from assignors.model import Assignment, Member, Topic
from assignors.registry import find
from benchmarks._assignor_shapes import GroupShape, group_shapes, scaling_group_shapes
from benchmarks._assignor_table import (
    CALL_BUDGET_SECONDS,
    GROWTH_COLUMNS,
    JVM_LIMIT_SECONDS,
    PEER_LIMIT_SECONDS,
    PEER_MAX_MEMBERS,
    SECTIONS,
    SHAPE_COLUMNS,
    TIME_COLUMNS,
    Row,
    csv_cells,
    csv_path,
    growth_factors,
    growth_table,
    markdown_heading,
    method_text,
    overview_table,
    parse_times,
    read_rows,
    summary_text,
    table_line,
    write_rows,
)
from benchmarks._document import write_section
from tests.oracle.driver import Oracle
from tests.support.zookeeper_cases import partitions_with_equal_hashes

NEW_MEMBER_ID = "newMember"
#: glibc's numbers of the options, and the largest accepted values.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
MALLOC_THRESHOLD_BYTES = {M_TRIM_THRESHOLD: 1 << 30, M_MMAP_THRESHOLD: 1 << 25}
COLLECT_GARBAGE_AFTER_SECONDS = 0.02
#: Protocol → its name in the oracle.
JAVA_BENCH_CLASSES = {"classic": "assignorBench", "consumer": "consumerBench", "zookeeper": "zookeeperBench"}
#: Above this number of subscribed topics, summed over members, the old consumer's JSON parser takes minutes.
ZOOKEEPER_MOST_SUBSCRIPTIONS = 100_000


def topic_ids(shape: GroupShape, seed: int) -> list[str]:
    """Return a Uuid of each topic, in Kafka's text format."""
    rng = random.Random(seed)
    return [base64.urlsafe_b64encode(rng.randbytes(16)).decode().rstrip("=") for _ in range(shape.topics)]


def group(shape: GroupShape, order: list[int], ids: list[str]) -> tuple[dict[str, Topic], list[Member]]:
    """Return topics and members of a group of this size and pattern, before any member has an assignment."""
    racks = tuple((f"rack{p % 3}", f"rack{(p + 1) % 3}") for p in range(shape.partitions))
    topics = {
        name: Topic(name, shape.partitions, racks, topic_id)
        for name, topic_id in ((f"topic{number}", topic_id) for number, topic_id in enumerate(ids))
    }
    names: dict[range, tuple[str, ...]] = {}
    members = []
    for number in order:
        bucket = shape.bucket(number)
        subscribed = names.setdefault(bucket, tuple(f"topic{topic}" for topic in bucket))
        rack = f"rack{number % 3}" if shape.racks else None
        streams = dict.fromkeys(subscribed, 1) if shape.protocol == "zookeeper" else None
        members.append(Member(f"member{number}", subscribed, rack_id=rack, streams=streams))
    return topics, members


def add_joined_member(shape: GroupShape, members: list[Member], assignment: Assignment) -> list[Member]:
    """Return the group's members with their first assignment, and one more member that joins."""
    template_id = f"member{0 if shape.new_member_is_first else shape.members - 1}"
    topics = next(member.topics for member in members if member.member_id == template_id)
    if shape.protocol == "zookeeper":
        return [*members, Member(NEW_MEMBER_ID, topics, streams=dict.fromkeys(topics, 1))]
    rack = f"rack{shape.members % 3}" if shape.racks else None
    if shape.protocol == "consumer":
        # A coordinator's map keeps the order in which the topics were added, so the topics are sorted by name.
        assignment = {member: dict(sorted(share.items())) for member, share in assignment.items()}
    return [
        *(replace(member, owned=assignment[member.member_id]) for member in members),
        Member(NEW_MEMBER_ID, topics, rack_id=rack),
    ]


def checksum(assignment: Assignment) -> str:
    """Return a checksum of the assignment, equal to ``AssignorBench.checksum`` in Java."""
    total = 0
    for member, share in assignment.items():
        for topic, partitions in share.items():
            base = (string_hash(member) * 1_000_003 + string_hash(topic)) * 1_000_003
            total += sum((base + partition) ** 2 for partition in partitions)
    return f"{total & (1 << 64) - 1:x}"


def fastest_run(call: Callable[[], Any], clock: Callable[[], float]) -> tuple[float, Any]:
    """Return the fastest run within the time budget, in ms of ``clock``, and the assignment.

    Runs follow each other without pauses, as in the JVM. Garbage is collected before a long run: otherwise each of the
    few long runs would include a collection.
    """
    best = float("inf")
    end = clock() + CALL_BUDGET_SECONDS
    gc.collect()
    while True:
        answer = None
        start = clock()
        answer = call()
        now = clock()
        best = min(best, now - start)
        if now > end:
            return best * 1000, answer
        if now - start > COLLECT_GARBAGE_AFTER_SECONDS:
            gc.collect()


def measure(shape: GroupShape, oracle: Oracle | None, seed: int, *, peer: bool, processor: bool) -> Row:
    """Measure the assignment of a group by this project, the JVM and kafka-python (ms); None: skipped or too slow."""
    order = list(range(shape.members))
    random.Random(seed).shuffle(order)
    assignor = find(shape.protocol, shape.assignor)
    assign: Callable[..., Assignment] = assignor.assign
    if shape.protocol == "zookeeper":
        assign = partial(assign, kafka_version="1.1")
    ids = topic_ids(shape, seed)
    topics, members = group(shape, order, ids)
    if shape.join:
        members = add_joined_member(shape, members, assign(topics, members))
    clock = time.process_time if processor else time.perf_counter
    ours, answer = fastest_run(lambda: assign(topics, members), clock)
    row: Row = {"ours": ours, "jvm": None, "peer": None}
    if shape.protocol == "consumer":
        row["python"], plain = fastest_run(lambda: assignor.python(topics, members), clock)
        if checksum(plain) != checksum(answer):
            raise SystemExit(f"{shape}: native code and Python compute different assignments")
    if oracle is not None:
        request: dict[str, Any] = {
            "family": JAVA_BENCH_CLASSES[shape.protocol],
            "processorTime": processor,
            "topicIds": ids,
            "limitMs": JVM_LIMIT_SECONDS * 1000,
            "budgetMs": int(CALL_BUDGET_SECONDS * 1000),
            "assignor": shape.assignor,
            "members": shape.members,
            "topics": shape.topics,
            "partitions": shape.partitions,
            "buckets": shape.buckets,
            "join": shape.join,
            "joinFirst": shape.new_member_is_first,
            "racks": shape.racks,
            "order": order,
        }
        if shape.protocol == "zookeeper":
            if sum(len(member.topics) for member in members) > ZOOKEEPER_MOST_SUBSCRIPTIONS:
                return row
            request["topics"] = {name: {"partitions": topic.partitions} for name, topic in topics.items()}
            request["members"] = [{"memberId": member.member_id, "streams": member.streams} for member in members]
        (response,) = oracle.ask([request])
        if "error" not in response:
            row["jvm"] = response["ms"]
            row["peer"] = response.get("builderMs")
            if response["checksum"] != checksum(answer) and not _has_undefined_order(request):
                raise SystemExit(f"{shape}: Python and the JVM compute different assignments")
        elif response["error"]["type"] == "oracle.Timeout":
            row["over"] = JVM_LIMIT_SECONDS * 1000
        else:
            raise SystemExit(f"{shape}: {response['error']}")
    if peer:
        row["peer"] = _kafka_python_ms(shape, topics, members, clock)
    return row


def _has_undefined_order(request: dict[str, Any]) -> bool:
    """Return true if the old round robin has partitions of equal hash code, whose order Kafka does not define."""
    old = request["family"] == JAVA_BENCH_CLASSES["zookeeper"] and request["assignor"] == "roundrobin"
    return old and bool(partitions_with_equal_hashes(request, "1.1"))


def _kafka_python_ms(
    shape: GroupShape, topics: dict[str, Topic], members: list[Member], clock: Callable[[], float]
) -> float | None:
    """Measure the time (ms) of kafka-python's assignor for a group; None if it fails or takes too long."""
    from benchmarks._kafka_python import kafka_python_assigner

    call = kafka_python_assigner(shape.assignor, topics, members)
    if call is None:
        return None
    previous = signal.signal(signal.SIGALRM, _raise_time_limit)
    signal.setitimer(signal.ITIMER_REAL, PEER_LIMIT_SECONDS)
    try:
        return fastest_run(call, clock)[0]
    except (_TimeLimitError, KeyError):  # KeyError: its round-robin under unequal subscriptions
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


class _TimeLimitError(BaseException):
    """Raised at the time limit; it is not an ``Exception``, so that no ``except Exception`` catches it."""


def _raise_time_limit(*_: object) -> None:
    raise _TimeLimitError


def run(shapes_to_measure: list[GroupShape], arguments: argparse.Namespace, rows: dict[str, Row]) -> None:
    """Measure each group in ``shapes_to_measure`` that has no row in ``rows``; print and store the new rows."""
    has_no_oracle = arguments.no_jvm or arguments.doubling
    # Growth concerns the work alone, so time that a busy machine adds is excluded.
    processor = arguments.processor_time or has_no_oracle
    old = bool(shapes_to_measure) and shapes_to_measure[0].protocol == "zookeeper"
    options = ["-XX:+UseSerialGC", "-Xss4m", "-Xmx6g"]
    oracle = None if has_no_oracle else Oracle("zk11" if old else "current", jvm_options=options)
    for shape in shapes_to_measure:
        if str(shape) not in rows:
            peer = not (arguments.no_peer or has_no_oracle or shape.racks) and shape.members <= PEER_MAX_MEMBERS
            peer = peer and shape.protocol == "classic"
            rows[str(shape)] = measure(shape, oracle, arguments.seed, peer=peer, processor=processor)
            if arguments.resume:
                with arguments.resume.open("a") as file:
                    file.write(json.dumps([str(shape), rows[str(shape)]]) + "\n")
        print(table_line(str(shape), rows[str(shape)], shape.protocol), flush=True)
    if oracle is not None:
        oracle.close()


def main() -> None:
    keep_freed_memory()
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="measure two group sizes only")
    parser.add_argument("--doubling", action="store_true", help="double the group's size repeatedly, without the JVM")
    parser.add_argument("--no-jvm", action="store_true", help="measure only this project's assignors")
    parser.add_argument("--no-peer", action="store_true", help="do not measure kafka-python")
    parser.add_argument("--seed", type=int, default=1, help="seed of the order in which members join")
    parser.add_argument("--only", default="", help="measure only rows that contain one of these texts: sticky,10000×50")
    parser.add_argument("--resume", type=Path, help="file with measured rows of an earlier run, which are kept")
    parser.add_argument("--document", action="store_true", help="write the measured rows to docs/benchmarks.md")
    parser.add_argument("--protocol", choices=list(SECTIONS), help="measure the assignors of one protocol only")
    parser.add_argument("--processor-time", action="store_true", help="measure processor time, on a busy machine")
    arguments = parser.parse_args()
    rows: dict[str, Row] = {}
    if arguments.resume and arguments.resume.exists():
        rows.update(map(json.loads, arguments.resume.read_text().splitlines()))
    if arguments.doubling:
        shapes_to_measure = chosen_shapes(scaling_group_shapes(), arguments.only)
        run(shapes_to_measure, arguments, rows)
        how = f"One member joins; processor time; seed {arguments.seed}."
        write_growth_table(how, growth_factors(rows), has_stored_rows=arguments.document)
        return
    for protocol in [arguments.protocol] if arguments.protocol else SECTIONS:
        how = method_text(arguments.seed, protocol, processor=arguments.processor_time)
        print(how, "", markdown_heading(protocol), sep="\n", flush=True)
        shapes_to_measure = chosen_shapes(group_shapes(protocol, quick=arguments.quick), arguments.only)
        run(shapes_to_measure, arguments, rows)
        results = {str(shape): rows[str(shape)] for shape in shapes_to_measure}
        print(f"\n{summary_text(results)}\n")
        if arguments.document:
            write_rows_and_section(
                protocol, how, {name: csv_cells(name, row, protocol) for name, row in results.items()}
            )


def chosen_shapes(shapes: Iterable[GroupShape], substring: str) -> list[GroupShape]:
    """Return the groups to measure whose names contain one of the comma-separated texts in ``substring``."""
    return [shape for shape in shapes if any(text in str(shape) for text in substring.split(","))]


def write_rows_and_section(protocol: str, how: str, rows: dict[str, list[str]]) -> None:
    """Store the rows of this protocol in its CSV file, and write a summary of the file into docs/benchmarks.md."""
    name, title = SECTIONS[protocol]
    path = csv_path(name)
    merged_rows = read_rows(path) | rows
    merged_rows = {row: merged_rows[row] for row in map(str, group_shapes(protocol, quick=False)) if row in merged_rows}
    write_rows(path, [*SHAPE_COLUMNS, *TIME_COLUMNS[protocol]], merged_rows.values())
    conclusion = summary_text({row: parse_times(cells, protocol) for row, cells in merged_rows.items()})
    link = f"{how} [All rows]({path.name})."
    write_section(name, "\n\n".join([title, conclusion, overview_table(merged_rows, protocol), link]))


def write_growth_table(how: str, rows: list[list[str]], *, has_stored_rows: bool) -> None:
    """Print a table of the growth of assignors' time; ``has_stored_rows``: also write it to a page and a CSV file."""
    path = csv_path("assignors-growth")
    title = "### Growth of the assignors' time"
    text = f"{title}\n\n{growth_table(rows)}\n\n{how} [All rows]({path.name})."
    print(f"\n{text}")
    if has_stored_rows:
        write_rows(path, GROWTH_COLUMNS, rows)
        write_section("assignors-growth", text)


def keep_freed_memory() -> None:
    """Let the process keep freed memory, as the JVM does; otherwise each measured run requests its memory again.

    Whether glibc returns memory depends on what is at the end of the heap; without this setting, times of equal rows
    differ by half.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
            mallopt(option, MALLOC_THRESHOLD_BYTES[option])


if __name__ == "__main__":
    main()
