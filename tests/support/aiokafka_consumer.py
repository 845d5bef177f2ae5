"""One real consumer of aiokafka with its default client id; options and lines as in ``streaming.demo.consumer``."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterable
from signal import SIGTERM

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition

from streaming.process.children import end_with_parent


class Report(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka's base class has no types
    """Writes a line for each assignment."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """The next assignment follows."""

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        owned: dict[str, list[int]] = {}
        for partition in sorted(assigned):
            owned.setdefault(partition.topic, []).append(partition.partition)
        line = {"at": time.time_ns() // 1_000_000, "name": self._name, "event": "assigned", "owned": owned}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


async def consume(args: argparse.Namespace) -> None:
    """Consume each partition of the assignment in turn, until SIGTERM."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=args.bootstrap_servers,
        group_id=args.group,
        auto_offset_reset="earliest",
        max_poll_interval_ms=args.max_poll_interval_ms,
    )
    consumer.subscribe(args.topics.split(","), listener=Report(args.name))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(SIGTERM, stop.set)
    await consumer.start()
    try:
        while not stop.is_set():
            for partition in consumer.assignment():
                await consumer.getmany(partition)
            await asyncio.sleep(0.1)
    finally:
        await consumer.stop()


def main() -> None:
    """Run one consumer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--topics", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--max-poll-interval-ms", type=int, required=True)
    end_with_parent()
    asyncio.run(consume(parser.parse_args()))


if __name__ == "__main__":
    main()
