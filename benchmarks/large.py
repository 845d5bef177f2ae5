"""Measures the whole monitor for large groups, and which component reaches its limit first: ``make bench-large``.

The benchmark writes records of KIP-848 groups as a coordinator does, to ``__consumer_offsets`` of an embedded broker.
`collect`, `stream` and `serve` run as users start them.

* ``group``: one group of many members, in which one member restarts; then the API and the page with it. * ``rolling``:
many groups of 20 members; in each group one member restarts at the same time, with many clients of the feed.
"""

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
_TOPIC_COUNT = 10
_GROUP_ID = "large"
_MEMBERS_PER_GROUP = 20
BENCHMARKS_PAGE = Path(__file__).parents[1] / "docs" / "design" / "large.md"


def measure_group(members: int, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one group of this many members: its first snapshot, the restart of one member, the API, and the page."""
    random = Random(options.seed)
    topics = dict.fromkeys(topic_ids(options.topics, random), members * PARTITIONS_PER_MEMBER // options.topics)
    simulated_group = SimulatedConsumerGroup(
        _GROUP_ID, members, topics, {topic: topic for topic in topics}, options.seed
    )
    figures: dict[str, Any] = {"members": members}
    with measured_monitor(options.longest, 4) as (monitor, components, log):
        settings = monitor.serve.settings
        names = [settings.topics.membership, settings.topics.diffs, settings.topics.assignments]
        names += [settings.topics.episodes, settings.topics.dead_letters]
        _publish_counts(monitor, topics)
        topic_counts = TopicCounts(monitor.servers, names)
        for component in components:
            component.usage_since_last_call()
        begin_time = time.monotonic()
        log.write(simulated_group.start(), 0, int(time.time() * 1000))
        log.flush()
        dead_letter_topic = settings.topics.dead_letters
        eventually(
            lambda: _members(monitor) == members or topic_counts.usage_since_last_call()[dead_letter_topic][0],
            timeout=EVENT_TIMEOUT_SECONDS,
            every=0.2,
        )
        if _members(monitor) != members:
            return figures | {"first": None, "why": "the view is longer than its topic takes"}
        figures["first"] = time.monotonic() - begin_time
        figures["first cpu"] = {component.name: component.usage_since_last_call() for component in components}
        figures["first bytes"] = topic_counts.total()
        print(f"  first view: {figures}", flush=True)
        arrivals = RoundArrivals(monitor.serve.port)
        eventually(lambda: arrivals._client.last, timeout=EVENT_TIMEOUT_SECONDS)  # noqa: SLF001 - it has its snapshot
        _restart_member_in_steps(simulated_group, log, monitor, arrivals, options)
        figures["delays"] = sorted(arrivals.delays[: options.paced])
        figures["steps"] = log.writes - 1
        figures["cpu"] = {component.name: component.usage_since_last_call() for component in components}
        figures["bytes"] = topic_counts.usage_since_last_call()
        arrivals.end()
        print(f"  steps: {figures['steps']} {figures['cpu']} {figures['bytes']}", flush=True)
        figures["api"] = _api(monitor)
        print(f"  api: {figures['api']}", flush=True)
        if not options.no_page:
            figures["page"] = _measure_page(monitor)
            print(f"  page: {figures['page']}", flush=True)
        figures["memory"] = {component.name: component.memory for component in components}
        figures["history"] = sum(path.stat().st_size for path in monitor.history.parent.glob("history.sqlite*"))
        topic_counts.close()
    return figures


def _restart_member_in_steps(
    simulated_group: SimulatedConsumerGroup,
    log: OffsetsTopicWriter,
    monitor: Monitor,
    arrivals: RoundArrivals,
    options: argparse.Namespace,
) -> None:
    """Restart a member: write the first batches one by one, each after the previous round is in the feed."""
    rest: list[CoordinatorBatch] = []
    separate_write_count = 0
    for write in simulated_group.restart_member(len(simulated_group.held) // 2, options.others):
        if separate_write_count < options.paced:
            seen = len(arrivals.delays)
            log.write(write, 0, int(time.time() * 1000))
            log.flush()
            arrivals.await_rounds(seen + 1)
            separate_write_count += 1
        else:
            rest.append(write)
    begin_time = int(time.time() * 1000)
    for number, write in enumerate(rest):
        log.write(write, 0, begin_time + number)
    log.flush()
    eventually(
        lambda: (
            _feed_status(monitor)["groupEpoch"] == simulated_group.epoch
            and _feed_status(monitor)["unassigned"] == 0
            and _members(monitor) == len(simulated_group.held)
        ),
        timeout=EVENT_TIMEOUT_SECONDS,
        every=0.2,
    )


def _publish_counts(monitor: Monitor, topics: dict[str, int]) -> None:
    """Publish partition counts as the collector would, because no single broker has 100 000 partitions."""
    producer = EventProducer(monitor.serve.settings)
    counts = {name: TopicMetadata(partitions=count) for name, count in topics.items()}
    change = PartitionsChanged(group_id=_GROUP_ID, timestamp=int(time.time() * 1000), topics=counts)
    producer.send(Event("bench", "topics", change))
    joined = MemberJoined(group_id="first", timestamp=change.timestamp, member_id="c", topics=[])
    producer.send(Event("bench", "first", joined))
    producer.flush(30)
    # All components have done some work before anything is measured.
    eventually(lambda: monitor.serve.ask("/api/v1/groups")[1]["groups"], timeout=EVENT_TIMEOUT_SECONDS)


def _feed_status(monitor: Monitor) -> dict[str, Any]:
    groups = monitor.serve.ask("/api/v1/groups")[1]["groups"]
    return next((group for group in groups if group["groupId"] == _GROUP_ID), {})


def _members(monitor: Monitor) -> int:
    return int(_feed_status(monitor).get("members", 0))


def _api(monitor: Monitor) -> dict[str, tuple[int, int, float]]:
    """Return status, bytes and duration (ms) of the API's response to each request, by the request's path."""
    newest = monitor.serve.ask(f"/api/v1/groups/{_GROUP_ID}/rounds?view=summary&limit=1")[1]["rounds"][0]["seq"]
    answers = {}
    for path in ("", "/timeline?limit=300", "/rounds?limit=10", f"/rounds/{newest}", "/episodes"):
        answers[path] = _request(monitor, f"/api/v1/groups/{_GROUP_ID}{path}")
    answers["/what-if?remove=…"] = _request(monitor, f"/api/v1/groups/{_GROUP_ID}/what-if?add=x")
    return answers


def _request(monitor: Monitor, path: str) -> tuple[int, int, float]:
    begin_time = time.perf_counter()
    try:
        status, body = monitor.serve.get(path)
    except TimeoutError:
        return 0, 0, (time.perf_counter() - begin_time) * 1000
    return status, len(body), (time.perf_counter() - begin_time) * 1000


def _measure_page(monitor: Monitor) -> dict[str, float]:
    """Measure the group's page: times until it is shown and responds (ms), number of elements, MB of its heap."""
    seconds: dict[str, float] = {}
    with chromium() as browser:
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        page.set_default_timeout(120_000)

        def time_action(name: str, action: Any, ready: str) -> None:
            begin_time = time.perf_counter()
            action()
            page.locator(ready).first.wait_for(state="attached")
            page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            seconds[name] = (time.perf_counter() - begin_time) * 1000

        time_action("open", lambda: page.goto(f"{monitor.serve.url}/groups/{_GROUP_ID}"), ".round")
        time_action("members", lambda: None, ".members li")
        seconds["elements"] = page.evaluate("document.querySelectorAll('*').length")
        page.evaluate(
            "window.stops = []; new PerformanceObserver((list) => stops.push(...list.getEntries()"
            ".map((one) => one.duration))).observe({ type: 'longtask' })"
        )
        time_action("a round", lambda: page.click(".round button"), ".round .diff")
        time_action("all members", lambda: page.click(".members .more"), ".members li:nth-child(13)")
        seconds["elements then"] = page.evaluate("document.querySelectorAll('*').length")
        page.wait_for_timeout(3000)
        seconds["longest task"] = page.evaluate("Math.max(0, ...stops)")
        session = page.context.new_cdp_session(page)
        seconds["heap MB"] = session.send("Runtime.getHeapUsage")["usedSize"] / 2**20
    return seconds


def measure_rolling_restart(count: int, options: argparse.Namespace) -> dict[str, Any]:
    """Measure many groups of 20 members with feed clients; one member of each group restarts at the same time."""
    figures: dict[str, Any] = {"groups": count, "clients": options.clients}
    with measured_monitor(options.longest, max(16, count // 64)) as (monitor, components, log):
        topic = create_consumed_topic(monitor.servers)
        groups = [
            SimulatedConsumerGroup(
                f"group-{number:05d}", _MEMBERS_PER_GROUP, {topic: 2 * _MEMBERS_PER_GROUP}, {topic: "orders"}, number
            )
            for number in range(count)
        ]
        settings = monitor.serve.settings
        topic_counts = TopicCounts(
            monitor.servers, [settings.topics.membership, settings.topics.diffs, settings.topics.episodes]
        )
        for component in components:
            component.usage_since_last_call()
        begin_time = time.monotonic()
        for number, group in enumerate(groups):
            log.write(group.start(), number % log.partitions, int(time.time() * 1000))
        log.flush()
        eventually(
            lambda: len(monitor.serve.ask("/api/v1/groups")[1]["groups"]) == count,
            timeout=max(EVENT_TIMEOUT_SECONDS, options.patience),
            every=1,
        )
        figures["first"] = time.monotonic() - begin_time
        figures["first cpu"] = {component.name: component.usage_since_last_call() for component in components}
        topic_counts.usage_since_last_call()
        print(f"  {count} groups are there after {figures['first']:.1f} s: {figures['first cpu']}", flush=True)
        newest: list[tuple[float, int]] = []
        with feed_clients(monitor.serve.port, options.clients) as clients:
            eventually(lambda: clients.reports and clients.reports[-1]["seqs"][0], timeout=EVENT_TIMEOUT_SECONDS)
            begin_time, before = time.monotonic(), log.writes
            _restart_members(groups, log, options.others)
            figures["written"] = time.monotonic() - begin_time
            figures["writes"] = log.writes - before
            print(f"  {figures['writes']} writes in {figures['written']:.1f} s", flush=True)
            _wait_for_last_epoch(monitor, groups, newest, options.patience)
            figures["seconds"] = time.monotonic() - begin_time
            figures["cpu"] = {component.name: component.usage_since_last_call() for component in components}
            eventually(lambda: clients.reports[-1]["seqs"][0] >= newest[-1][1], timeout=options.patience, every=0.5)
            figures["until all clients"] = time.monotonic() - begin_time
            figures["serve after"] = components[2].usage_since_last_call()
        figures["behind"] = clients.max_lag(lambda at: newest[max(0, bisect.bisect(newest, (at, 1 << 60)) - 1)][1])
        figures["last"] = clients.reports[-1]
        figures["bytes"] = topic_counts.usage_since_last_call()
        figures["memory"] = {component.name: component.memory for component in components}
        figures["history"] = sum(path.stat().st_size for path in monitor.history.parent.glob("history.sqlite*"))
        metric_values = {name: value for (name, _), value in monitor.metrics().items()}
        figures["cut off"] = sum(value for name, value in metric_values.items() if "clients_cut_off" in name)
        figures["fell behind"] = sum(value for name, value in metric_values.items() if "clients_behind" in name)
        topic_counts.close()
    return figures


def _restart_members(groups: list[SimulatedConsumerGroup], log: OffsetsTopicWriter, other_members: int) -> None:
    """Restart one member of each group: write the coordinator's batches of all groups, one batch of each at a time."""
    timestamp_ms = int(time.time() * 1000)
    for writes in zip(*(group.restart_member(0, other_members) for group in groups), strict=True):
        timestamp_ms += 1
        for number, write in enumerate(writes):
            log.write(write, number % log.partitions, timestamp_ms)
    log.flush()


def _wait_for_last_epoch(
    monitor: Monitor, groups: list[SimulatedConsumerGroup], newest: list[tuple[float, int]], timeout: float
) -> None:
    """Wait until every group has reached the last epoch; meanwhile, record the newest round's number in ``serve``."""
    deadline = time.monotonic() + timeout
    while True:
        answer = monitor.serve.ask("/api/v1/rounds?view=summary&limit=1")[1]["rounds"]
        newest.append((time.time(), answer[0]["seq"] if answer else 0))
        if len(newest) % 10 == 0:
            groups_answer = monitor.serve.ask("/api/v1/groups")[1]
            done_count = sum(
                group["groupEpoch"] == groups[0].epoch and group["state"] == "Stable"
                for group in groups_answer["groups"]
            )
            print(
                f"    {done_count} of {len(groups)} done, round {newest[-1][1]}, lag {groups_answer['lag']}", flush=True
            )
            if done_count == len(groups):
                return
            if time.monotonic() > deadline:
                print(f"  {len(groups) - done_count} groups not done in {timeout:g} s", flush=True)
                return
        time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=_TOPIC_COUNT, help="topics that the single group consumes")
    parser.add_argument(
        "--members", type=int, nargs="*", default=[1000, 3000, 10_000], help="numbers of members of the single group"
    )
    parser.add_argument("--groups", type=int, nargs="*", default=[1000, 10_000], help="groups that restart at once")
    parser.add_argument("--only", choices=["group", "rolling"])
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument(
        "--paced", type=int, default=11, help="number of writes that each wait until the page shows the previous write"
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
    components = ["## Large things", f"{sizes}."]
    if options.only != "rolling":
        components.append(group_table(_measure_each(measure_group, options.members, options), options))
    if options.only != "group":
        components.append(rolling_table(_measure_each(measure_rolling_restart, options.groups, options), options))
    text = "\n\n".join(components)
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
