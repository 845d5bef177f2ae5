"""Classic and server-side assignors against the JVM classes and kafka-python's, on the shapes of Kafka's benchmark.

The shapes are those of ``ClientSideAssignorBenchmark``: so many members, so many partitions a member, over so many
topics; all subscribe to everything, or each to one of five disjoint buckets of topics; everyone is new, or one
member joins a group that is balanced. With racks a partition is in two of three racks (were it in all three, as in
Kafka's version, no rack would decide anything). Members join in an order shuffled by the seed. Every answer is
compared with the JVM's by a checksum. The assignors of the consumer protocol (KIP-848) run inside the coordinator's
builder, of which the JVM's time leaves out everything but the assignor.

    python -m benchmarks.assignors [--quick | --doubling] [--protocol classic] [--seed 1] [--document]
"""

from __future__ import annotations

import argparse
import base64
import gc
import json
import math
import random
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from assignors.java import string_hash
from assignors.model import Assignment, Member, Topic
from assignors.registry import find
from benchmarks._assignor_shapes import Shape, doubling, shapes
from benchmarks._document import machine, put, table
from tests.oracle.driver import Oracle

NEWCOMER = "newMember"
BUDGET_SECONDS = 1.0
COLLECT_AFTER_SECONDS = 0.02
JVM_LIMIT_SECONDS = 30
PEER_LIMIT_SECONDS = 10
PEER_LARGEST = 1000  # members: beyond, kafka-python takes minutes a row

#: By protocol: the section of the document, and its title.
SECTIONS = {
    "classic": ("assignors", "## Assignors"),
    "consumer": ("assignors-consumer", "## Assignors of the consumer protocol"),
}

#: Beside ours and the JVM's: another's answer, or the coordinator's builder with the assignor in it.
PEERS = {"classic": "kafka-python", "consumer": "builder"}

#: Milliseconds: ``ours``, ``jvm``, ``peer``; None where there was no answer. ``over``: when the JVM was stopped.
Row = dict[str, Any]


def topic_ids(shape: Shape, seed: int) -> list[str]:
    """Uuids as Kafka prints them."""
    rng = random.Random(seed)
    return [base64.urlsafe_b64encode(rng.randbytes(16)).decode().rstrip("=") for _ in range(shape.topics)]


def group(shape: Shape, order: list[int], ids: list[str]) -> tuple[dict[str, Topic], list[Member]]:
    """The shape's topics and members before anyone joins."""
    racks = tuple((f"rack{p % 3}", f"rack{(p + 1) % 3}") for p in range(shape.partitions))
    topics = {
        name: Topic(name, shape.partitions, racks, topic_id)
        for name, topic_id in ((f"topic{number}", topic_id) for number, topic_id in enumerate(ids))
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
    if (
        shape.protocol == "consumer"
    ):  # by name: a coordinator's map depends on the order in which it got the topics
        assignment = {member: dict(sorted(share.items())) for member, share in assignment.items()}
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


def measure(shape: Shape, oracle: Oracle | None, seed: int, *, peer: bool, processor: bool) -> Row:
    """Milliseconds of ours, of the JVM's and of kafka-python's, None where one has no answer in time."""
    order = list(range(shape.members))
    random.Random(seed).shuffle(order)
    assign = find(shape.protocol, shape.assignor).assign
    ids = topic_ids(shape, seed)
    topics, members = group(shape, order, ids)
    if shape.join:
        members = joined(shape, members, assign(topics, members))
    clock = time.process_time if processor else time.perf_counter
    ours, answer = best_of(lambda: assign(topics, members), clock=clock)
    row: Row = {"ours": ours, "jvm": None, "peer": None}
    if oracle is not None:
        request = {
            "family": "consumerBench" if shape.protocol == "consumer" else "assignorBench",
            "processorTime": processor,
            "topicIds": ids,
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
            row["peer"] = given.get("builderMs")
            if given["checksum"] != checksum(answer):
                raise SystemExit(f"{shape}: the answer differs from the JVM's")
        elif given["error"]["type"] == "oracle.Timeout":
            row["over"] = JVM_LIMIT_SECONDS * 1000
        else:
            raise SystemExit(f"{shape}: {given['error']}")
    if peer:
        row["peer"] = _peer(shape, topics, members, clock)
    return row


def _peer(
    shape: Shape, topics: dict[str, Topic], members: list[Member], clock: Callable[[], float]
) -> float | None:
    """kafka-python's assignor on the same group; None when it fails or takes too long."""
    from benchmarks._kafka_python import assigner

    call = assigner(shape.assignor, topics, members)
    if call is None:
        return None
    previous = signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, PEER_LIMIT_SECONDS)
    try:
        return best_of(call, clock=clock)[0]
    except (_TooLongError, KeyError):  # KeyError: its round-robin under unequal subscriptions
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


class _TooLongError(BaseException):
    """Past the limit; no ``except Exception`` on the way catches it."""


def _too_long(*_: object) -> None:
    raise _TooLongError


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


def header(seed: int, protocol: str, *, processor: bool) -> list[str]:
    """What was measured and how, and the head of the table."""
    spent = (
        " of processor time (the JVM's of its assigning thread, without its collector)" if processor else ""
    )
    how = (
        f"{machine()}, seed {seed}; fastest of as many runs as fit into {BUDGET_SECONDS:g} s, in ms{spent}; JVM: "
        "the classes of Kafka 4.3.1, warmed up in the same budget, serial collector. Unequal: five disjoint "
        "buckets of topics. "
    )
    if protocol == "classic":
        how += (
            f"The JVM is stopped after {JVM_LIMIT_SECONDS} s. kafka-python: no answer within "
            f"{PEER_LIMIT_SECONDS} s, or an exception: –; it is asked up to {PEER_LARGEST} members, without "
            "racks. +1 first: the newcomer subscribes to the first bucket, the JVM's slowest case."
        )
    else:
        how += (
            "JVM: the assignor alone; builder: TargetAssignmentBuilder with the assignor in it, which resolves "
            "names and orders members as ours does, and writes the records of what changed."
        )
    peer = PEERS[protocol]
    return [
        how,
        "",
        (
            "| assignor | members × ratio | topics | subscriptions | change | racks | ours | JVM | ours/JVM "
            f"| {peer} | ours/{peer} |"
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
    # Alone, what a busy machine adds is left out: growth is about the work.
    processor = arguments.processor_time or alone
    oracle = None if alone else Oracle("current", jvm_options=["-XX:+UseSerialGC", "-Xss4m", "-Xmx6g"])
    for shape in wanted:
        if str(shape) not in rows:
            peer = not (arguments.no_peer or alone or shape.racks) and shape.members <= PEER_LARGEST
            peer = peer and shape.protocol == "classic"
            rows[str(shape)] = measure(shape, oracle, arguments.seed, peer=peer, processor=processor)
            if arguments.resume:
                with arguments.resume.open("a") as file:
                    file.write(json.dumps([str(shape), rows[str(shape)]]) + "\n")
        print(line_of(str(shape), rows[str(shape)]), flush=True)
    if oracle is not None:
        oracle.close()


def line_of(name: str, row: Row) -> str:
    """A row of the table."""
    ours, jvm, other = row["ours"], row["jvm"], row["peer"]
    over = row.get("over")  # the JVM was stopped: how long it would have taken is known from below
    theirs = (
        [cell(jvm), ratio(ours, jvm)]
        if over is None
        else [f">{over}", f"<{math.ceil(100 * ours / over) / 100:.2f}"]
    )
    cells = [name, cell(ours), *theirs, cell(other), ratio(ours, other)]
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
    parser.add_argument("--protocol", choices=["classic", "consumer"], help="one protocol's assignors alone")
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="what each computed: for a machine that does other things too",
    )
    arguments = parser.parse_args()
    rows: dict[str, Row] = {}
    if arguments.resume and arguments.resume.exists():
        rows.update(map(json.loads, arguments.resume.read_text().splitlines()))
    if arguments.doubling:
        wanted = [shape for shape in doubling() if arguments.only in str(shape)]
        run(wanted, arguments, rows)
        how = f"One member joins; processor time; seed {arguments.seed}."
        text = f"### Growth of the assignors' time\n\n{how}\n\n{growth(rows)}"
        print(f"\n{text}")
        if arguments.document:
            put("assignors-growth", text)
        return
    for protocol in [arguments.protocol] if arguments.protocol else SECTIONS:
        head = header(arguments.seed, protocol, processor=arguments.processor_time)
        print(*head, sep="\n", flush=True)
        wanted = [shape for shape in shapes(protocol, quick=arguments.quick) if arguments.only in str(shape)]
        run(wanted, arguments, rows)
        found = {str(shape): rows[str(shape)] for shape in wanted}
        print(f"\n{summary(found)}\n")
        if arguments.document:
            section, title = SECTIONS[protocol]
            put(
                section,
                "\n".join([title, "", summary(found), "", *head, *(line_of(*row) for row in found.items())]),
            )


if __name__ == "__main__":
    main()
