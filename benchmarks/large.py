"""Measures the whole monitor for large groups, and which component reaches its limit first: ``make bench-large``.

The benchmark writes records of KIP-848 groups as a coordinator does, to ``__consumer_offsets`` of an embedded broker.
`collect`, `stream` and `serve` run as users start them.

* ``group``: one group of many members, in which one member restarts; then the API and the page with it.
* ``rolling``: many groups of 20 members; in each group one member restarts at the same time, with a crowd on the feed.
"""

from __future__ import annotations

import argparse
import bisect
import json
import time
from pathlib import Path
from random import Random
from typing import Any

from benchmarks._document import describe_machine, write_section
from benchmarks._large_report import group_table, rolling_table
from benchmarks._large_stage import (
    EVENT_TIMEOUT_SECONDS,
    OffsetsTopicWriter,
    RoundArrivals,
    create_consumed_topic,
    measured_monitor,
)
from benchmarks._large_watch import TopicCounts, feed_clients
from streaming.kafka.producer import EventProducer
from streaming.records.events import Event, MemberJoined, PartitionsChanged, TopicMetadata
from tests.support.browser import chromium
from tests.support.coordinated import CoordinatorBatch, SimulatedConsumerGroup, topic_ids
from tests.support.monitor import Monitor
from tests.support.wait import eventually

PARTITIONS_PER_MEMBER = 10
_TOPICS = 10
_GROUP = "large"
_SIZE = 20
BENCHMARKS_PAGE = Path(__file__).parents[1] / "docs" / "design" / "large.md"


def group(members: int, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one group of this many members: its first snapshot, the restart of one member, the API, and the page."""
    random = Random(options.seed)
    topics = dict.fromkeys(topic_ids(options.topics, random), members * PARTITIONS_PER_MEMBER // options.topics)
    coordinated = SimulatedConsumerGroup(_GROUP, members, topics, {topic: topic for topic in topics}, options.seed)
    figures: dict[str, Any] = {"members": members}
    with measured_monitor(options.longest, 4) as (monitor, parts, log):
        settings = monitor.serve.settings
        names = [settings.topics.membership, settings.topics.diffs, settings.topics.assignments]
        names += [settings.topics.episodes, settings.topics.dead_letters]
        _publish_counts(monitor, topics)
        into = TopicCounts(monitor.servers, names)
        for part in parts:
            part.next_lap()
        begun = time.monotonic()
        log.write(coordinated.start(), 0, int(time.time() * 1000))
        log.flush()
        refused = settings.topics.dead_letters
        eventually(
            lambda: _members(monitor) == members or into.next_lap()[refused][0],
            timeout=EVENT_TIMEOUT_SECONDS,
            every=0.2,
        )
        if _members(monitor) != members:
            return figures | {"first": None, "why": "the view is longer than its topic takes"}
        figures["first"] = time.monotonic() - begun
        figures["first cpu"] = {part.name: part.next_lap() for part in parts}
        figures["first bytes"] = into.total()
        print(f"  first view: {figures}", flush=True)
        arrivals = RoundArrivals(monitor.serve.port)
        eventually(lambda: arrivals._client.last, timeout=EVENT_TIMEOUT_SECONDS)  # noqa: SLF001 - it has its snapshot
        _restart_member_in_steps(coordinated, log, monitor, arrivals, options)
        figures["delays"] = sorted(arrivals.delays[: options.paced])
        figures["steps"] = log.writes - 1
        figures["cpu"] = {part.name: part.next_lap() for part in parts}
        figures["bytes"] = into.next_lap()
        arrivals.end()
        print(f"  steps: {figures['steps']} {figures['cpu']} {figures['bytes']}", flush=True)
        figures["api"] = _api(monitor)
        print(f"  api: {figures['api']}", flush=True)
        if not options.no_page:
            figures["page"] = _page(monitor)
            print(f"  page: {figures['page']}", flush=True)
        figures["memory"] = {part.name: part.memory for part in parts}
        figures["history"] = sum(path.stat().st_size for path in monitor.history.parent.glob("history.sqlite*"))
        into.close()
    return figures


def _restart_member_in_steps(
    coordinated: SimulatedConsumerGroup,
    log: OffsetsTopicWriter,
    monitor: Monitor,
    arrivals: RoundArrivals,
    options: argparse.Namespace,
) -> None:
    """Restart one member: write its first records one by one, each once its round is in the feed, then all others."""
    rest: list[CoordinatorBatch] = []
    separate_writes = 0
    for write in coordinated.restart_member(len(coordinated.held) // 2, options.others):
        if separate_writes < options.paced:
            seen = len(arrivals.delays)
            log.write(write, 0, int(time.time() * 1000))
            log.flush()
            arrivals.await_rounds(seen + 1)
            separate_writes += 1
        else:
            rest.append(write)
    begun = int(time.time() * 1000)
    for number, write in enumerate(rest):
        log.write(write, 0, begun + number)
    log.flush()
    eventually(
        lambda: (
            _feed_status(monitor)["groupEpoch"] == coordinated.epoch
            and _feed_status(monitor)["unassigned"] == 0
            and _members(monitor) == len(coordinated.held)
        ),
        timeout=EVENT_TIMEOUT_SECONDS,
        every=0.2,
    )


def _publish_counts(monitor: Monitor, topics: dict[str, int]) -> None:
    """Publish partition counts as the collector would, because no single broker has 100 000 partitions."""
    producer = EventProducer(monitor.serve.settings)
    counts = {name: TopicMetadata(partitions=count) for name, count in topics.items()}
    change = PartitionsChanged(group_id=_GROUP, timestamp=int(time.time() * 1000), topics=counts)
    producer.send(Event("bench", "topics", change))
    joined = MemberJoined(group_id="first", timestamp=change.timestamp, member_id="c", topics=[])
    producer.send(Event("bench", "first", joined))
    producer.flush(30)
    # All components have done some work before anything is measured.
    eventually(lambda: monitor.serve.ask("/api/v1/groups")[1]["groups"], timeout=EVENT_TIMEOUT_SECONDS)


def _feed_status(monitor: Monitor) -> dict[str, Any]:
    groups = monitor.serve.ask("/api/v1/groups")[1]["groups"]
    return next((group for group in groups if group["groupId"] == _GROUP), {})


def _members(monitor: Monitor) -> int:
    return int(_feed_status(monitor).get("members", 0))


def _api(monitor: Monitor) -> dict[str, tuple[int, int, float]]:
    """Return status, bytes and duration (ms) of the API's response to each request, by the request's path."""
    newest = monitor.serve.ask(f"/api/v1/groups/{_GROUP}/rounds?view=summary&limit=1")[1]["rounds"][0]["seq"]
    answers = {}
    for path in ("", "/timeline?limit=300", "/rounds?limit=10", f"/rounds/{newest}", "/episodes"):
        answers[path] = _request(monitor, f"/api/v1/groups/{_GROUP}{path}")
    answers["/what-if?remove=…"] = _request(monitor, f"/api/v1/groups/{_GROUP}/what-if?add=x")
    return answers


def _request(monitor: Monitor, path: str) -> tuple[int, int, float]:
    begun = time.perf_counter()
    try:
        status, body = monitor.serve.get(path)
    except TimeoutError:
        return 0, 0, (time.perf_counter() - begun) * 1000
    return status, len(body), (time.perf_counter() - begun) * 1000


def _page(monitor: Monitor) -> dict[str, float]:
    """Measure the group's page: times until it is shown and responds (ms), number of elements, MB of its heap."""
    seconds: dict[str, float] = {}
    with chromium() as browser:
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        page.set_default_timeout(120_000)

        def timed(name: str, action: Any, ready: str) -> None:
            begun = time.perf_counter()
            action()
            page.locator(ready).first.wait_for(state="attached")
            page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            seconds[name] = (time.perf_counter() - begun) * 1000

        timed("open", lambda: page.goto(f"{monitor.serve.url}/groups/{_GROUP}"), ".round")
        timed("members", lambda: None, ".members li")
        seconds["elements"] = page.evaluate("document.querySelectorAll('*').length")
        page.evaluate(
            "window.stops = []; new PerformanceObserver((list) => stops.push(...list.getEntries()"
            ".map((one) => one.duration))).observe({ type: 'longtask' })"
        )
        timed("a round", lambda: page.click(".round button"), ".round .diff")
        timed("all members", lambda: page.click(".members .more"), ".members li:nth-child(13)")
        seconds["elements then"] = page.evaluate("document.querySelectorAll('*').length")
        page.wait_for_timeout(3000)
        seconds["longest task"] = page.evaluate("Math.max(0, ...stops)")
        session = page.context.new_cdp_session(page)
        seconds["heap MB"] = session.send("Runtime.getHeapUsage")["usedSize"] / 2**20
    return seconds


def rolling(count: int, options: argparse.Namespace) -> dict[str, Any]:
    """Measure many groups of 20 members with feed clients; one member of each group restarts at the same time."""
    figures: dict[str, Any] = {"groups": count, "clients": options.clients}
    with measured_monitor(options.longest, max(16, count // 64)) as (monitor, parts, log):
        topic = create_consumed_topic(monitor.servers)
        groups = [
            SimulatedConsumerGroup(f"group-{number:05d}", _SIZE, {topic: 2 * _SIZE}, {topic: "orders"}, number)
            for number in range(count)
        ]
        settings = monitor.serve.settings
        into = TopicCounts(
            monitor.servers, [settings.topics.membership, settings.topics.diffs, settings.topics.episodes]
        )
        for part in parts:
            part.next_lap()
        begun = time.monotonic()
        for number, group in enumerate(groups):
            log.write(group.start(), number % log.partitions, int(time.time() * 1000))
        log.flush()
        eventually(
            lambda: len(monitor.serve.ask("/api/v1/groups")[1]["groups"]) == count,
            timeout=max(EVENT_TIMEOUT_SECONDS, options.patience),
            every=1,
        )
        figures["first"] = time.monotonic() - begun
        figures["first cpu"] = {part.name: part.next_lap() for part in parts}
        into.next_lap()
        print(f"  {count} groups are there after {figures['first']:.1f} s: {figures['first cpu']}", flush=True)
        newest: list[tuple[float, int]] = []
        with feed_clients(monitor.serve.port, options.clients) as clients:
            eventually(lambda: clients.reports and clients.reports[-1]["seqs"][0], timeout=EVENT_TIMEOUT_SECONDS)
            begun, before = time.monotonic(), log.writes
            _restart_members(groups, log, options.others)
            figures["written"] = time.monotonic() - begun
            figures["writes"] = log.writes - before
            print(f"  {figures['writes']} writes in {figures['written']:.1f} s", flush=True)
            _wait_for_last_epoch(monitor, groups, newest, options.patience)
            figures["seconds"] = time.monotonic() - begun
            figures["cpu"] = {part.name: part.next_lap() for part in parts}
            eventually(lambda: clients.reports[-1]["seqs"][0] >= newest[-1][1], timeout=options.patience, every=0.5)
            figures["until all clients"] = time.monotonic() - begun
            figures["serve after"] = parts[2].next_lap()
        figures["behind"] = clients.behind(lambda at: newest[max(0, bisect.bisect(newest, (at, 1 << 60)) - 1)][1])
        figures["last"] = clients.reports[-1]
        figures["bytes"] = into.next_lap()
        figures["memory"] = {part.name: part.memory for part in parts}
        figures["history"] = sum(path.stat().st_size for path in monitor.history.parent.glob("history.sqlite*"))
        counted = {name: value for (name, _), value in monitor.metrics().items()}
        figures["cut off"] = sum(value for name, value in counted.items() if "clients_cut_off" in name)
        figures["fell behind"] = sum(value for name, value in counted.items() if "clients_behind" in name)
        into.close()
    return figures


def _restart_members(groups: list[SimulatedConsumerGroup], log: OffsetsTopicWriter, other_members: int) -> None:
    """Restart one member of each group: the first write of all groups, then the second write of all groups."""
    stamp = int(time.time() * 1000)
    for turn in zip(*(group.restart_member(0, other_members) for group in groups), strict=True):
        stamp += 1
        for number, write in enumerate(turn):
            log.write(write, number % log.partitions, stamp)
    log.flush()


def _wait_for_last_epoch(
    monitor: Monitor, groups: list[SimulatedConsumerGroup], newest: list[tuple[float, int]], patience: float
) -> None:
    """Wait until every group has reached the last epoch; meanwhile, record the newest round's number in ``serve``."""
    by = time.monotonic() + patience
    while True:
        answer = monitor.serve.ask("/api/v1/rounds?view=summary&limit=1")[1]["rounds"]
        newest.append((time.time(), answer[0]["seq"] if answer else 0))
        if len(newest) % 10 == 0:
            board = monitor.serve.ask("/api/v1/groups")[1]
            there = sum(
                group["groupEpoch"] == groups[0].epoch and group["state"] == "Stable" for group in board["groups"]
            )
            print(f"    {there} of {len(groups)} done, round {newest[-1][1]}, lag {board['lag']}", flush=True)
            if there == len(groups):
                return
            if time.monotonic() > by:
                print(f"  {len(groups) - there} groups not done in {patience:g} s", flush=True)
                return
        time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=_TOPICS, help="number of topics that the single group consumes")
    parser.add_argument(
        "--members", type=int, nargs="*", default=[1000, 3000, 10_000], help="numbers of members of the single group"
    )
    parser.add_argument(
        "--groups", type=int, nargs="*", default=[1000, 10_000], help="numbers of groups that restart at once"
    )
    parser.add_argument("--only", choices=["group", "rolling"])
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument(
        "--paced", type=int, default=11, help="number of writes, each made once the page shows the previous one"
    )
    parser.add_argument("--others", type=int, default=20, help="number of members that only move to the new epoch")
    parser.add_argument("--longest", type=int, default=10, help="largest record that the topics accept, MiB")
    parser.add_argument("--patience", type=float, default=300, help="timeout for each expected event, seconds")
    parser.add_argument("--no-page", action="store_true")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--document", action="store_true", help="write the tables to docs/benchmarks.md")
    options = parser.parse_args()
    sizes = f"{describe_machine()}, broker, clients and browser on the same machine; seed {options.seed}"
    print(sizes, flush=True)
    parts = ["## Large things", f"{sizes}."]
    if options.only != "rolling":
        parts.append(group_table(_measure_each(group, options.members, options), options))
    if options.only != "group":
        parts.append(rolling_table(_measure_each(rolling, options.groups, options), options))
    text = "\n\n".join(parts)
    print(text)
    if options.document:
        write_section("large", text, BENCHMARKS_PAGE)


def _measure_each(measure: Any, sizes: list[int], options: argparse.Namespace) -> list[dict[str, Any]]:
    figures = []
    for size in sizes:
        figures.append(measure(size, options))
        print(json.dumps(figures[-1]), flush=True)
    return figures


if __name__ == "__main__":
    main()
