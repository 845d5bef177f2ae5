"""A hundred groups rebalance at once: each episode has every figure of its cost, and the requests are bounded."""

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from subprocess import Popen

import pytest
from confluent_kafka import Producer

from streaming.kafka.broker import EmbeddedBroker
from streaming.records.episodes import Cost, Episode
from tests.integration.streaming.collect.collector_process import CollectorProcess
from tests.support.background import produce_in_background
from tests.support.command import command
from tests.support.kafka import LONG_BROKER_SESSION, PROPERTIES, unique_name
from tests.support.live_stream import LiveStream
from tests.support.load import cpu_seconds_of
from tests.support.processes import process_lock
from tests.support.topics import create_topic
from tests.support.wait import eventually

_log = logging.getLogger(__name__)
pytestmark = [pytest.mark.broker, pytest.mark.full, pytest.mark.timeout(900)]

GROUPS = 100
TOPICS, PARTITIONS = 10, 4
#: Each process has one consumer of each of so many groups.
GROUPS_PER_PROCESS = 50
SESSION_MS = 10_000
#: At most four batches a second for all groups, each of which may request first offsets besides end offsets, and one
#: request a second for the offsets topic itself.
MAX_REQUESTS_PER_SECOND = 4 * 2 + 1
#: Seconds until the slowest of so many consumers on a busy machine have joined or caught up.
PATIENCE = 300.0
#: JVM option with which the broker logs each request.
_REQUEST_LOG = "-Dorg.slf4j.simpleLogger.log.kafka.request.logger=debug"
#: Parts of the broker's log line of a ListOffsets request of the collector.
_LIST_OFFSETS = ('"requestApiKeyName":"LIST_OFFSETS"', '"clientId":"rebalance-monitor"')


@contextmanager
def traffic(servers: str) -> Iterator[list[str]]:
    """Yield the topics, to whose partitions records are written five times a second until the block ends."""
    topics = [create_topic(servers, unique_name("topic"), PARTITIONS) for _ in range(TOPICS)]

    def write(producer: Producer, stop: threading.Event) -> None:
        for _ in count():
            if stop.wait(0.2):
                return
            for topic in topics:
                for partition in range(PARTITIONS):
                    producer.produce(topic, b"v", partition=partition)
            producer.poll(0)

    with produce_in_background(servers, write):
        yield topics


@contextmanager
def members(servers: str, name: str, topics: Mapping[str, str]) -> Iterator[list[Popen[bytes]]]:
    """Run one consumer of each group with this client id, in few processes; ``topics``: by group."""
    config = {
        "bootstrap.servers": servers,
        "client.id": name,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 1000,
        "session.timeout.ms": SESSION_MS,
        "fetch.min.bytes": 100_000,  # fewer fetches: each waits for half a second
        "queued.max.messages.kbytes": 256,
    }
    groups = sorted(topics)
    module = "tests.integration.streaming.collect.many_consumers"
    with ExitStack() as stack:
        processes = []
        for start in range(0, len(groups), GROUPS_PER_PROCESS):
            own = {group: topics[group] for group in groups[start : start + GROUPS_PER_PROCESS]}
            process = Popen(command(json.dumps({"topics": own, "config": config}), module=module))
            processes.append(process)
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield processes


def test_each_of_a_hundred_groups_in_flux_has_its_cost(tmp_path: Path) -> None:
    properties = PROPERTIES | LONG_BROKER_SESSION
    prefix = unique_name("flux")
    with ExitStack() as stack:
        stack.enter_context(process_lock("crowd"))
        broker = stack.enter_context(EmbeddedBroker(properties=properties, jvm_options=[_REQUEST_LOG]))
        servers = broker.bootstrap_servers
        topics = stack.enter_context(traffic(servers))
        groups = {f"{prefix}-{number}": topics[number % TOPICS] for number in range(GROUPS)}
        collecting = CollectorProcess(servers, f"{prefix}-.*", log=tmp_path / "collect.log")
        stack.enter_context(collecting)
        stream = stack.enter_context(LiveStream(collecting.settings))

        def are_owned(*clients: str) -> bool:
            """Return true if the consumers with these client ids, and no others, own partitions in every group."""
            return all(
                {c for c, share in stream.shares(g).items() if any(share.values())} == {*clients} for g in groups
            )

        stack.enter_context(members(servers, "a", groups))
        with members(servers, "b", groups) as crashing:
            eventually(lambda: are_owned("a", "b"), timeout=PATIENCE, every=0.5)
            resting = set[str]()
            eventually(
                lambda: (
                    len(resting.update(g for g in groups if g not in resting and stream.rest(g)) or resting) == GROUPS
                ),
                timeout=PATIENCE,
                every=1,
            )
            before = {group: len(stream.episodes(group)) for group in groups}
            log_bytes, cpu_before = broker.log_path.stat().st_size, cpu_seconds_of(collecting.pid)
            begin = time.monotonic()
            for process in crashing:
                process.kill()
        eventually(lambda: are_owned("a"), timeout=PATIENCE, every=0.5)  # after the end of the sessions
        stack.enter_context(members(servers, "c", groups))
        eventually(lambda: are_owned("a", "c"), timeout=PATIENCE, every=0.5)

        def newest(group: str) -> Episode | None:
            episodes = stream.episodes(group)
            return episodes[-1] if len(episodes) > before[group] else None

        def incomplete() -> list[Episode | None]:
            return [last for last in map(newest, groups) if last is None or not has_every_figure(last.cost)]

        # A group has caught up before its last delayed message is surely committed: the next sample bounds the delay.
        eventually(lambda: not incomplete(), timeout=PATIENCE, every=0.5)
        seconds, cpu_seconds = time.monotonic() - begin, cpu_seconds_of(collecting.pid) - cpu_before
        with broker.log_path.open("rb") as log:
            log.seek(log_bytes)
            lines = log.read().decode(errors="replace").splitlines()
        requests = [line[: len("2026-11-28 19:00:00")] for line in lines if all(part in line for part in _LIST_OFFSETS)]
        episodes = [episode for group in groups if (episode := newest(group)) is not None]
        assert collecting.stop() == 0, collecting.output()
    begun = [episode.opened_at for episode in episodes]
    _log.info(
        "%d episodes that began within %d ms, %.0f s: %.1f ListOffsets a second (at most %d), %.1f %% of a core",
        *(len(episodes), max(begun) - min(begun), seconds, len(requests) / seconds, max(Counter(requests).values())),
        100 * cpu_seconds / seconds,
    )
    assert len(episodes) == GROUPS
    assert 0 < len(requests) <= MAX_REQUESTS_PER_SECOND * seconds


def has_every_figure(cost: Cost | None) -> bool:
    """Return true if all figures of a cost have upper bounds, and messages may have been delayed."""
    if cost is None or cost.caught_up_at is None:
        return False
    bounds = (cost.delayed_messages, cost.worst_delay_ms, cost.peak_lag, cost.catch_up_ms)
    return all(upper is not None for _, upper in bounds) and cost.delayed_messages[1] != 0
