"""Measures the speed of reading ``__consumer_offsets``, compared with a bare consumer: ``make bench-collector``.

The topic contains mostly offset commits of groups without members, each with a different key (as after compaction), and
some groups that the collector follows. The same records are read in turns: by a confluent-kafka consumer with the
collector's settings that counts them, and by the collector's source, until both are at the end.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import threading
import time
from struct import pack
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from benchmarks import _document
from streaming.collect.coordinator.records import OFFSETS_TOPIC
from streaming.collect.fold import Fold
from streaming.collect.source import OffsetsTopic
from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.clients import reader_config
from streaming.settings.config import load
from streaming.settings.connection import KafkaSettings

_RECORDS_PER_BATCH = 2000


class Run(NamedTuple):
    """One measured reading of the offsets topic: records, seconds, processor seconds, and maximum memory (MiB)."""

    records: int
    seconds: float
    cpu: float
    memory: int


def write_commits(servers: str, records: int, groups: int) -> None:
    """Write commits of this many groups, one for each partition of a topic, as brokers write commits."""
    from benchmarks._large_stage import OffsetsTopicWriter  # the measured processes must not import what it needs

    log = OffsetsTopicWriter(servers)
    first_ms = int(time.time() * 1000) - records
    for number in range(records):
        group = b"group-%07d" % (number % groups)
        key = pack(">hh", 1, len(group)) + group + pack(">h", 6) + b"orders" + pack(">i", number // groups)
        value = pack(">hqihq", 3, number, 1, 0, first_ms + number)
        log.write([(key, value)], number % groups % log.partitions, first_ms + number)
    log.flush()


def read_with_bare_consumer(servers: str) -> int:
    """Return the records per second of a consumer that only reads and counts the offsets topic."""
    consumer = Consumer(reader_config(KafkaSettings(bootstrap_servers=servers), "bare"))
    numbers = consumer.list_topics(OFFSETS_TOPIC, timeout=10).topics[OFFSETS_TOPIC].partitions
    consumer.assign([TopicPartition(OFFSETS_TOPIC, number, OFFSET_BEGINNING) for number in numbers])
    unread_partitions, count = set(numbers), 0
    while unread_partitions:
        for message in consumer.consume(_RECORDS_PER_BATCH, 0.05):
            error = message.error()
            if error is None:
                count += 1
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own code
                unread_partitions.discard(message.partition())
            else:
                raise RuntimeError(error.str())
    consumer.close()
    return count


def read_with_collector(servers: str) -> int:
    """Let the collector's source read every partition to its end; return the number of records."""
    settings = load(bootstrap_servers=servers)

    def fold(partition: int) -> Fold:
        return Fold("bench", partition, {}.__getitem__)

    source = OffsetsTopic(settings.kafka, "bench", threading.Event(), fold)
    count, is_behind = 0, True
    while is_behind:
        batch = source.read()
        count += batch.records
        is_behind = batch.behind > 0
    source.close()
    return count


READ_FUNCTIONS = {"bare": read_with_bare_consumer, "collector": read_with_collector}


def measure_reader(reader: str, servers: str) -> Run:
    """Measure one reader of the offsets topic in a separate process, and return its figures."""
    command = [sys.executable, "-m", "benchmarks.collector", "--read", reader, "--servers", servers]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    records, seconds, cpu, memory = answer.stdout.split()
    return Run(int(records), float(seconds), float(cpu), int(memory))


def read(reader: str, servers: str) -> None:
    """Read the offsets topic once; print the number of records, the wall time, the CPU time and the peak memory."""
    begin, cpu = time.perf_counter(), time.process_time()
    records = READ_FUNCTIONS[reader](servers)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(records, time.perf_counter() - begin, time.process_time() - cpu, peak)


def main() -> None:
    """Fill a topic, measure each way to read it, and print the figures; ``--document`` writes them to the docs, too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--groups", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--document", action="store_true", help="write the table to docs/benchmarks.md")
    parser.add_argument("--read", choices=READ_FUNCTIONS, help=argparse.SUPPRESS)
    parser.add_argument("--servers", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        read(options.read, options.servers)
        return
    size = f"{options.records:,} commits of {options.groups:,} groups"
    print(f"{_document.describe_machine()}; {size}, {options.runs} runs each")
    with EmbeddedBroker() as broker:
        write_commits(broker.bootstrap_servers, options.records, options.groups)
        runs: dict[str, list[Run]] = {reader: [] for reader in READ_FUNCTIONS}
        for _ in range(options.runs):
            for reader in READ_FUNCTIONS:
                runs[reader].append(measure_reader(reader, broker.bootstrap_servers))
                print(reader, runs[reader][-1], flush=True)
    rows = []
    records_per_second = {
        reader: statistics.median(run.records / run.seconds for run in runs_of_reader)
        for reader, runs_of_reader in runs.items()
    }
    for reader, runs_of_reader in runs.items():
        cpu = statistics.median(run.cpu / run.records * 1e6 for run in runs_of_reader)
        seconds = statistics.median(run.seconds for run in runs_of_reader)
        memory = max(run.memory for run in runs_of_reader)
        share = records_per_second[reader] / records_per_second["bare"]
        rows.append(
            [reader, f"{records_per_second[reader]:,.0f}", f"{share:.2f}", f"{seconds:.1f}", f"{cpu:.2f}", str(memory)]
        )
    table = _document.table(["", "records/s", "of bare", "all, s", "CPU, µs a record", "memory, MiB"], rows)
    print(table)
    if options.document:
        description = f"{size}, median of {options.runs} runs by turns"
        method_text = (
            f"{_document.describe_machine()}, embedded broker on the same machine; {description}; one process each."
        )
        _document.write_section("collector", f"## Reading the offsets topic\n\n{method_text}\n\n{table}")


if __name__ == "__main__":
    main()
