"""Measures the cost of a round in a snapshot, as published by a collector in production: ``make bench-observed``.

In each round one member of a group gives a partition to another, as in a KIP-848 group during a rebalance: the
collector publishes the whole group; the stream publishes the difference. As in the job, each round unpacks its
group, applies the event and packs the group again.
"""

import argparse
import gc
import statistics
import time
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks import _document
from benchmarks._stream_load import START_MS
from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import Sinks
from streaming.records import codec
from streaming.records.codec import Record
from streaming.records.events import Event, GroupObserved, GroupQuiet, ObservedMember, PartitionsChanged, TopicMetadata

#: Partitions of each member.
PARTITIONS_PER_MEMBER = 10
_TOPICS = 10
_OUTPUT_TOPICS = Sinks("m", "d", "a", "dlt", dict.fromkeys(("m", "d", "a", "dlt", "e"), 4), episodes="e")


class RoundCost(NamedTuple):
    """Median cost of one round: CPU time in ms, and the bytes of its event and of its diff."""

    ms: float
    event: int
    diff: int


def rounds(group_id: str, members: int, protocol: str) -> Iterator[Event]:
    """Return a group's events: first its topics, then one snapshot after each moved partition."""
    topics = {f"topic-{number}": members * PARTITIONS_PER_MEMBER // _TOPICS for number in range(_TOPICS)}
    shares: list[dict[str, list[int]]] = [{} for _ in range(members)]
    places = [(topic, partition) for topic, count in topics.items() for partition in range(count)]
    for number, (topic, partition) in enumerate(places):
        shares[number % members].setdefault(topic, []).append(partition)
    counts = {topic: TopicMetadata(partitions=count) for topic, count in topics.items()}
    yield Event("collector", f"{group_id}/0", PartitionsChanged(group_id=group_id, timestamp=START_MS, topics=counts))
    number = 0
    while True:
        number += 1
        giver_share, receiver_share = shares[number % members], shares[(number + 1) % members]
        topic = next(iter(giver_share))
        partition = giver_share[topic].pop()
        if not giver_share[topic]:
            del giver_share[topic]
        receiver_share[topic] = sorted([*receiver_share.get(topic, ()), partition])
        has_epochs = protocol != "classic"
        snapshot = GroupObserved(
            group_id=group_id,
            timestamp=START_MS + 1000 * number,
            members=[_member(group_id, place, share, topics, has_epochs) for place, share in enumerate(shares)],
            generation=None if has_epochs else number,
            group_epoch=number if has_epochs else None,
            group_protocol=protocol,
            protocol="uniform" if has_epochs else "cooperative-sticky",
            state="Stable",
        )
        yield Event("collector", f"{group_id}/{number}", snapshot)


def _member(
    group_id: str, place: int, share: dict[str, list[int]], topics: dict[str, int], has_epochs: bool
) -> ObservedMember:
    return ObservedMember(
        member_id=f"{group_id}-member-{place:05d}-0a1b2c3d",
        topics=list(topics),
        assigned={topic: list(partitions) for topic, partitions in share.items()},
        client_id=f"app-{place}",
        client_host=f"/10.0.{place // 250}.{place % 250}",
        member_epoch=1 if has_epochs else None,
        state="STABLE" if has_epochs else None,
        target={topic: list(partitions) for topic, partitions in share.items()} if has_epochs else None,
        rebalance_timeout_ms=300_000,
    )


def cost(events: Iterator[Event], count: int) -> RoundCost:
    """Measure this many rounds of one group, one round per batch, after the group's first episode."""
    gc.disable()  # as in the job's workers
    packed_bucket: bytes | None = None
    us_per_event, sizes = [], []
    for offset, event in zip(range(count + 3), events, strict=False):
        record = Record.of(0, offset, *codec.encode_event(event))
        begun = time.process_time()
        bucket = Bucket(packed_bucket)
        writes = process(bucket, [record], 0, _OUTPUT_TOPICS)
        packed_bucket = bucket.pack()
        if offset == 1:
            packed_bucket = _pack_after_quiet_time(bucket, event)
        if offset > 2:
            us_per_event.append((time.process_time() - begun) * 1000)
            diffs = [len(write.value or b"") for write in writes if write.topic == "d"]
            sizes.append((len(record.value or b""), sum(diffs)))
    gc.enable()
    event_bytes, diff_bytes = (round(statistics.median(size)) for size in zip(*sizes, strict=True))
    return RoundCost(statistics.median(us_per_event), event_bytes, diff_bytes)


def _pack_after_quiet_time(bucket: Bucket, event: Event) -> bytes:
    """Return the packed bucket after the group's ``group.quiet`` event."""
    episode = bucket.get(event.data.group_id).episode
    quiet = GroupQuiet(
        group_id=event.data.group_id, timestamp=event.data.timestamp, after=episode.last_note_id if episode else ""
    )
    process(bucket, [Record.of(0, 0, *codec.encode_event(Event("timer", "quiet", quiet)))], 0, _OUTPUT_TOPICS)
    return bucket.pack()


def _result_table(count: int) -> str:
    rows = []
    for members in (20, 200, 1000, 2000):
        whole = cost(rounds("group", members, "consumer"), count)
        classic = cost(rounds("group", members, "classic"), count)
        sizes = f"{whole.event:,} / {whole.diff:,}"
        rows.append([str(members), f"{classic.ms:.2f}", f"{whole.ms:.2f}", sizes])
    table = _document.table(["members", "classic, ms", "KIP-848, ms", "bytes of event and diff"], rows)
    return (
        "One member of 10 partitions gives one to another: processor time of a round, alone in its batch "
        f"(median of {count}), and the bytes of its event and of its diff.\n\n{table}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--document", action="store_true", help="write the table to docs/benchmarks.md")
    options = parser.parse_args()
    text = _result_table(options.rounds)
    print(text, flush=True)
    if options.document:
        head = f"## Observed rounds\n\n`make bench-observed`. {_document.describe_machine()}."
        _document.write_section("observed-rounds", f"{head} {text}")


if __name__ == "__main__":
    main()
