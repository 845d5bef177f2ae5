"""Runs the stream command as a child process with its own topics, and reads the records that the command wrote."""

import json
import os
import signal
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from streaming.kafka.access import stream_topics
from streaming.kafka.topics import ensure_topics
from streaming.monitor.outputs import Sinks
from streaming.settings.config import Settings, TopicSettings
from streaming.settings.connection import KafkaSettings
from tests.support.command import command
from tests.support.histories import Topic
from tests.support.kafka import Kafka, eventually, read, unique_name
from tests.support.processes import children
from tests.support.pure_stream import by_key, run
from tests.support.wait import TIMEOUT_SECONDS

#: A record as readers see it: value and headers.
Row = tuple[bytes | None, tuple[tuple[str, bytes | None], ...]]


class Job:
    """One membership log with its output topics and its checkpoint; ``prefix`` is generated unless it is set.

    Attributes:
        program: the command line of `rebalance-monitor`.
        options: command-line options of every start.
        environment: environment variables of the job; None: the variables of this process.
    """

    def __init__(self, kafka: Kafka, folder: Path, partitions: int = 4, prefix: str | None = None) -> None:
        self.program = command()
        self.options: tuple[str, ...] = ()
        self.environment: dict[str, str] | None = None
        #: No timer ends a quiet time while a test runs, as the pure functions only process the log.
        self.quiet_seconds = 86_400
        self.settings = Settings(
            kafka=KafkaSettings(bootstrap_servers=kafka.bootstrap_servers),
            topics=TopicSettings(
                prefix=prefix or f"{unique_name('job')}.", partitions=partitions, replication_factor=1
            ),
        )
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        ensure_topics(self.settings, stream_topics(self.settings))

    @property
    def sinks(self) -> Sinks:
        topics = self.settings.topics
        names = (*topics.names, topics.episodes, topics.incidents)
        return Sinks(
            *topics.names,
            dict.fromkeys(names, topics.partitions),
            episodes=topics.episodes,
            incidents=topics.incidents,
            quiet_ms=self.quiet_seconds * 1000,
        )

    def feed(self, log: Topic) -> None:
        """Write the membership log's records to their partitions of the membership topic."""
        self._write((key, value, headers, number) for number, rows in enumerate(log) for key, value, headers in rows)

    def _write(self, rows: Iterable[tuple[bytes | None, bytes | None, Any, int]]) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.settings.kafka.bootstrap_servers,
                "linger.ms": 20,
                "queue.buffering.max.messages": 10_000_000,
            }
        )
        for key, value, headers, partition in rows:
            producer.produce(
                self.settings.topics.membership, key=key, value=value, headers=headers, partition=partition
            )
        assert producer.flush(60) == 0

    def command(self, *options: str) -> list[str]:
        return [
            *(*self.program, "stream", "--checkpoint", str(self.checkpoint)),
            *("--bootstrap-servers", self.settings.kafka.bootstrap_servers),
            *("--topic-prefix", self.settings.topics.prefix),
            *("--episode-quiet", str(self.quiet_seconds), *self.options, *options),
        ]

    def start(self, *options: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run the job to its end. ``path``: first entry of PYTHONPATH for all Python processes of the job."""
        path_variables = {} if path is None else {"PYTHONPATH": str(path)}
        return subprocess.run(
            self.command(*options),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**(self.environment or os.environ), **path_variables},
        )

    def drain(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run the Spark job until it has processed all available records."""
        done = self.start("--available-now", *options)
        assert done.returncode == 0, done.stderr
        return done

    @contextmanager
    def running(self, *options: str, log: IO[str] | None = None) -> Iterator[subprocess.Popen[str]]:
        """Run the job as a child process that the block's end kills; its standard error goes to ``log`` or a pipe."""
        child = subprocess.Popen(
            self.command(*options),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if log is None else log,
            text=True,
            start_new_session=True,
            env=self.environment,
        )
        try:
            yield child
        finally:
            if child.poll() is None:
                os.kill(child.pid, signal.SIGKILL)
            child.communicate()

    def rows(self, topic: str) -> dict[bytes | None, list[Row]]:
        """Return all records of an output topic by key, in order."""
        records: dict[bytes | None, list[Row]] = defaultdict(list)
        for message in read(self.settings.kafka.bootstrap_servers, topic):
            records[message.key()].append((message.value(), tuple(message.headers() or ())))
        return dict(records)

    def count(self, topic: str) -> int:
        """Return the number of records in a topic."""
        consumer = Consumer(
            {"bootstrap.servers": self.settings.kafka.bootstrap_servers, "group.id": unique_name("reader")}
        )

        def ends() -> int | None:
            try:
                partitions = consumer.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic].partitions
                return sum(
                    consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=TIMEOUT_SECONDS)[1]
                    for number in partitions
                )
            except KafkaException:  # a new topic has no leader yet, or a broker is unavailable
                return None

        try:
            eventually(lambda: ends() is not None, timeout=60)
            return ends() or 0
        finally:
            consumer.close()


def expected(job: Job, log: Topic) -> dict[str, dict[bytes | None, list[Row]]]:
    """Return the expected output for a log, by topic and key, computed without Spark."""
    sinks = job.sinks
    output: dict[str, dict[bytes | None, list[Row]]] = {
        name: {} for name in (*sinks[:4], sinks.episodes or "", sinks.incidents or "")
    }
    for (topic, key), rows in by_key(run(log, batch=10**9, buckets=1, sinks=sinks)).items():
        output[topic][key] = [(value, tuple(headers)) for value, headers in rows]
    return output


def newest_records_by_key(rows: dict[bytes | None, list[Row]]) -> dict[bytes | None, list[Row]]:
    """Return the last record of each key, as compaction keeps it."""
    return {key: records[-1:] for key, records in rows.items()}


def remove_repeats(rows: dict[bytes | None, list[Row]]) -> dict[bytes | None, list[Row]]:
    """Return the records with each ``ce_id`` once; repeats of a ``ce_id`` must be equal byte by byte."""
    result: dict[bytes | None, list[Row]] = {}
    for key, records in rows.items():
        newest_rows: dict[bytes | None, Row] = {}
        for row in records:
            first = newest_rows.setdefault(dict(row[1])["ce_id"], row)
            assert first == row
        result[key] = list(newest_rows.values())
    return result


def problems(errors: str) -> list[str]:
    """Return a command's output, without log lines that report normal operation."""
    return [line for line in errors.splitlines() if " INFO " not in line]


def write_with_pauses(job: Job, log: Topic, stop: threading.Event) -> None:
    """Write the log in a hundred pieces with pauses, each partition in order; once ``stop`` is set, without pauses."""
    longest = max(map(len, log))
    step = max(1, longest // 100)
    for start in range(0, longest, step):
        job.feed([rows[start : start + step] for rows in log])
        stop.wait(0.5)


def behind(job: Job) -> int:
    """Return the number of events in the log that the checkpoint's newest batch does not include."""
    offsets = {int(file.name): file for file in (job.checkpoint / "offsets").glob("[0-9]*")}
    membership = job.settings.topics.membership
    written_record_count = 0
    for line in offsets[max(offsets)].read_text().splitlines() if offsets else ():
        if f'"{membership}"' in line:
            written_record_count = sum(json.loads(line)[membership].values())
    return job.count(membership) - written_record_count


def processes_of(driver: int) -> dict[str, list[int]]:
    """Return the process ids of a job: its driver, its JVM, its Python workers, and last their daemon."""
    jvms = children(driver)
    daemons = [pid for jvm in jvms for pid in children(jvm)]
    workers = [pid for daemon in daemons for pid in children(daemon)]
    return {"driver": [driver], "jvm": jvms, "worker": [*workers, *daemons]}
