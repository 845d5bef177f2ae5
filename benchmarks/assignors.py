"""Classic assignors against the JVM classes and kafka-python's, on the shapes of Kafka's own benchmark.

The shapes are those of ``ClientSideAssignorBenchmark``: so many members, so many partitions a member, over so many
topics; all subscribe to everything, or each to one of five disjoint buckets of topics; everyone is new, or one
member joins a group that is balanced. With racks a partition is in two of three racks (were it in all three, as in
Kafka's version, no rack would decide anything). Members join in an order shuffled by the seed. Every answer is
compared with the JVM's by a checksum.

    python -m benchmarks.assignors [--quick | --doubling] [--seed 1] [--document]
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assignors.java import string_hash
from assignors.model import Assignment, Member, Topic
from assignors.registry import find
from benchmarks._document import machine, put, table
from tests.oracle.driver import Oracle

NEWCOMER = "newMember"
BUDGET_SECONDS = 1.0
COLLECT_AFTER_SECONDS = 0.02
JVM_LIMIT_SECONDS = 30
PEER_LIMIT_SECONDS = 10
PEER_LARGEST = 1000  # members: beyond, kafka-python takes minutes a row

#: Milliseconds: ``ours``, ``jvm``, ``peer``; None where there was no answer.
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """A group: ``ratio`` partitions a member over ``topics``; ``buckets`` 1 when all subscribe alike."""

    assignor: str
    members: int
    ratio: int
    topics: int
    buckets: int = 1
    join: bool = False
    racks: bool = False
    join_first: bool = False

    @property
    def partitions(self) -> int:
        """Partitions of each topic."""
        return self.members * self.ratio // self.topics

    def bucket(self, member: int) -> range:
        """The topics of this member."""
        size = -(-self.topics // self.buckets)
        start = member // -(-self.members // self.buckets) * size
        return range(start, min(self.topics, start + size))

    def __str__(self) -> str:
        kind = "equal" if self.buckets == 1 else "unequal"
        change = ("+1 first" if self.join_first else "+1") if self.join else "full"
        size = f"{self.members}×{self.ratio} | {self.topics}"
        return f"{self.assignor} | {size} | {kind} | {change} | {'on' if self.racks else 'off'}"


def group(shape: Shape, order: list[int]) -> tuple[dict[str, Topic], list[Member]]:
    """The shape's topics and members before anyone joins."""
    racks = tuple((f"rack{p % 3}", f"rack{(p + 1) % 3}") for p in range(shape.partitions))
    topics = {
        name: Topic(name, shape.partitions, racks)
        for name in (f"topic{number}" for number in range(shape.topics))
    }
    names: dict[range, tuple[str, ...]] = {}
    members = []
    for number in order:
        bucket = shape.bucket(number)
        names.setdefault(bucket, tuple(f"topic{topic}" for topic in bucket))
        rack = f"rack{number % 3}" if shape.racks else None
        members.append(Member(f"member{number}", names[bucket], rack_id=rack))
    return topics, members


def joined(shape: Shape, members: list[Member], assignment: Assignment) -> list[Member]:
    """The group when everyone owns what it was given and one more member arrives."""
    like = f"member{0 if shape.join_first else shape.members - 1}"
    topics = next(member.topics for member in members if member.member_id == like)
    rack = f"rack{shape.members % 3}" if shape.racks else None
    return [
        *(replace(member, owned=assignment[member.member_id]) for member in members),
        Member(NEWCOMER, topics, rack_id=rack),
    ]


def checksum(assignment: Assignment) -> str:
    """As ``AssignorBench.checksum``."""
    total = 0
    for member, share in assignment.items():
        for topic, partitions in share.items():
            base = (string_hash(member) * 1_000_003 + string_hash(topic)) * 1_000_003
            total += sum((base + partition) ** 2 for partition in partitions)
    return f"{total & (1 << 64) - 1:x}"


def best_of(
    call: Callable[[], Any], budget: float = BUDGET_SECONDS, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, Any]:
    """The fastest of as many runs as fit into the budget, in ms of ``clock``, and the answer.

    Runs follow each other as the JVM's do; before a long one the last one's garbage is collected, as there are too
    few of them for one without a collection to be among them.
    """
    best = float("inf")
    end = clock() + budget
    gc.collect()
    while True:
        answer = None
        start = clock()
        answer = call()
        now = clock()
        best = min(best, now - start)
        if now > end:
            return best * 1000, answer
        if now - start > COLLECT_AFTER_SECONDS:
            gc.collect()


def measure(shape: Shape, oracle: Oracle | None, seed: int, *, peer: bool) -> Row:
    """Milliseconds of ours, of the JVM's and of kafka-python's, None where one has no answer in time."""
    order = list(range(shape.members))
    random.Random(seed).shuffle(order)
    assign = find("classic", shape.assignor).assign
    topics, members = group(shape, order)
    if shape.join:
        members = joined(shape, members, assign(topics, members))
    # Alone, what a busy machine adds is left out: growth is about the work.
    clock = time.process_time if oracle is None else time.perf_counter
    ours, answer = best_of(lambda: assign(topics, members), clock=clock)
    row: Row = {"ours": ours, "jvm": None, "peer": None}
    if oracle is not None:
        request = {
            "family": "assignorBench",
            "limitMs": JVM_LIMIT_SECONDS * 1000,
            "budgetMs": int(BUDGET_SECONDS * 1000),
            "assignor": shape.assignor,
            "members": shape.members,
            "topics": shape.topics,
            "partitions": shape.partitions,
            "buckets": shape.buckets,
            "join": shape.join,
            "joinFirst": shape.join_first,
            "racks": shape.racks,
            "order": order,
        }
        (given,) = oracle.ask([request])
        if "error" not in given:
            row["jvm"] = given["ms"]
            if given["checksum"] != checksum(answer):
                raise SystemExit(f"{shape}: the answer differs from the JVM's")
        elif given["error"]["type"] != "oracle.Timeout":
            raise SystemExit(f"{shape}: {given['error']}")
    if peer:
        row["peer"] = _peer(shape, topics, members)
    return row


def _peer(shape: Shape, topics: dict[str, Topic], members: list[Member]) -> float | None:
    """kafka-python's assignor on the same group; None when it fails or takes too long."""
    from benchmarks._kafka_python import assigner

    call = assigner(shape.assignor, topics, members)
    if call is None:
        return None
    previous = signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, PEER_LIMIT_SECONDS)
    try:
        return best_of(call)[0]
    except (_TooLongError, KeyError):  # KeyError: its round-robin under unequal subscriptions
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


class _TooLongError(BaseException):
    """Past the limit; no ``except Exception`` on the way catches it."""


def _too_long(*_: object) -> None:
    raise _TooLongError


def shapes(*, quick: bool) -> Iterator[Shape]:
    """What is measured, smallest first."""
    sizes = [(100, 10, 10), (1000, 10, 100)]
    if not quick:
        sizes += [(100, 50, 100), (1000, 50, 100), (1000, 10, 1000), (5000, 10, 1000), (10000, 10, 1000)]
        sizes += [(10000, 50, 100)]
    for members, ratio, topics in sizes:
        for assignor in ("range", "roundrobin", "cooperative-sticky"):
            for buckets in (1, 5):
                for join in (False, True):
                    for racks in (False, True) if assignor != "roundrobin" else (False,):
                        yield Shape(assignor, members, ratio, topics, buckets, join, racks)
    for members in (1000,) if quick else (1000, 5000):  # the newcomer in the first bucket: Java's slow case
        yield Shape("cooperative-sticky", members, 10, 100, 5, join=True, join_first=True)
    if not quick:
        for join in (False, True):
            yield Shape("cooperative-sticky", 2000, 500, 500, join=join)


def doubling() -> Iterator[Shape]:
    """The same shapes, each twice as large as the one before."""
    for assignor in ("range", "roundrobin", "cooperative-sticky"):
        for buckets in (1, 5):
            for step in range(5):
                yield Shape(assignor, 500 << step, 10, 100, buckets, join=True)


def cell(milliseconds: float | None) -> str:
    """A time as a table shows it."""
    return (
        "–"
        if milliseconds is None
        else f"{milliseconds:.3g}"
        if milliseconds < 1000
        else f"{milliseconds:.0f}"
    )


def ratio(ours: float, theirs: float | None) -> str:
    """How long we take in units of the other."""
    return "" if theirs is None else f"{ours / theirs:.2f}"


def header(seed: int) -> list[str]:
    """What was measured and how, and the head of the table."""
    return [
        (
            f"{machine()}, seed {seed}; fastest of as many runs as fit into {BUDGET_SECONDS:g} s, in ms; JVM: the "
            f"classes of Kafka 4.3.1, warmed up in the same budget, serial collector. No answer within "
            f"{JVM_LIMIT_SECONDS} s (JVM) or {PEER_LIMIT_SECONDS} s (kafka-python), or an exception: –. "
            f"kafka-python is asked up to {PEER_LARGEST} members, without racks. Unequal: five disjoint buckets of "
            "topics. +1 first: the newcomer subscribes to the first bucket, the JVM's slowest case."
        ),
        "",
        (
            "| assignor | members × ratio | topics | subscriptions | change | racks | ours | JVM | ours/JVM "
            "| kafka-python | ours/kafka-python |"
        ),
        "|---|---|---:|---|---|---|---:|---:|---:|---:|---:|",
    ]


def summary(rows: dict[str, Row]) -> str:
    """The ratios to the JVM in one sentence."""
    ratios = {name: row["ours"] / row["jvm"] for name, row in rows.items() if row["jvm"] is not None}
    if not ratios:
        return ""
    worst = max(ratios, key=ratios.__getitem__)
    slower = sum(ratio > 1 for ratio in ratios.values())
    missing = len(rows) - len(ratios)
    median = sorted(ratios.values())[len(ratios) // 2]
    return (
        f"Ours/JVM over {len(ratios)} rows: median {median:.2f}, above 1 in {slower}, at most {ratios[worst]:.2f} "
        f"({worst.replace(' | ', ', ')}). The JVM had no answer in {missing}."
    )


def growth(rows: dict[str, Row]) -> str:
    """Each doubling's time over that of the size before, beside what partitions × log members would give."""
    cells = []
    previous: tuple[Shape, float] | None = None
    for shape in doubling():
        ours = rows[str(shape)]["ours"]
        times = allowed = ""
        if previous is not None and previous[0].members * 2 == shape.members:
            times = f"{ours / previous[1]:.2f}"
            allowed = f"{2 * math.log(shape.members) / math.log(previous[0].members):.2f}"
        kind = "equal" if shape.buckets == 1 else "unequal"
        cells.append([shape.assignor, kind, f"{shape.members}×{shape.ratio}", cell(ours), times, allowed])
        previous = shape, ours
    title = [
        "assignor",
        "subscriptions",
        "members × ratio",
        "ours, ms",
        "× the row before",
        "P log M grows by",
    ]
    return table(title, cells)


def run(wanted: list[Shape], arguments: argparse.Namespace, rows: dict[str, Row]) -> None:
    """Measure what ``rows`` lacks, printing and keeping each row."""
    alone = arguments.no_jvm or arguments.doubling
    oracle = None if alone else Oracle("current", jvm_options=["-XX:+UseSerialGC", "-Xss4m", "-Xmx6g"])
    for shape in wanted:
        if str(shape) not in rows:
            peer = not (arguments.no_peer or alone or shape.racks) and shape.members <= PEER_LARGEST
            rows[str(shape)] = measure(shape, oracle, arguments.seed, peer=peer)
            if arguments.resume:
                with arguments.resume.open("a") as file:
                    file.write(json.dumps([str(shape), rows[str(shape)]]) + "\n")
        print(line_of(str(shape), rows[str(shape)]), flush=True)
    if oracle is not None:
        oracle.close()


def line_of(name: str, row: Row) -> str:
    """A row of the table."""
    ours, jvm, other = row["ours"], row["jvm"], row["peer"]
    cells = [name, cell(ours), cell(jvm), ratio(ours, jvm), cell(other), ratio(ours, other)]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two sizes only")
    parser.add_argument(
        "--doubling", action="store_true", help="growth: each shape twice the one before, no JVM"
    )
    parser.add_argument("--no-jvm", action="store_true", help="ours alone")
    parser.add_argument("--no-peer", action="store_true", help="without kafka-python")
    parser.add_argument("--seed", type=int, default=1, help="shuffles the order in which members join")
    parser.add_argument("--only", default="", help="shapes whose row contains this")
    parser.add_argument(
        "--resume", type=Path, help="keep rows in this file; those in it are not measured again"
    )
    parser.add_argument("--document", action="store_true", help="write docs/benchmarks.md too")
    arguments = parser.parse_args()
    rows: dict[str, Row] = {}
    if arguments.resume and arguments.resume.exists():
        rows.update(map(json.loads, arguments.resume.read_text().splitlines()))
    head = header(arguments.seed)
    print(*head, sep="\n", flush=True)
    every = list(doubling() if arguments.doubling else shapes(quick=arguments.quick))
    wanted = [shape for shape in every if arguments.only in str(shape)]
    run(wanted, arguments, rows)
    found = {str(shape): rows[str(shape)] for shape in wanted}
    if arguments.doubling:
        how = f"One member joins; processor time; seed {arguments.seed}."
        text = f"### Growth of the assignors' time\n\n{how}\n\n{growth(rows)}"
    else:
        lines = [line_of(name, row) for name, row in found.items()]
        text = "\n".join(["## Assignors", "", summary(found), "", *head, *lines])
    print(f"\n{text if arguments.doubling else summary(found)}")
    if arguments.document:
        put("assignors-growth" if arguments.doubling else "assignors", text)


if __name__ == "__main__":
    main()
