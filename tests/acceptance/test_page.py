"""The page over a real broker, Spark job and consumers, as a person sees it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import expect

from streaming.kafka.reader import DiffReader
from streaming.kafka.topics import ensure_topics
from streaming.process.children import Child, Children
from streaming.wire.events import Diff
from tests.support.browser import Watched, chromium, open_page, picture
from tests.support.kafka import Kafka, eventually, unique
from tests.support.serving import Serve

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.browser]

#: Seconds from the diff reaching the topic to the page showing it; a busy machine gets as many tries.
BOUND = 2.0
TRIES = 3
#: Seconds for consumers to settle, for what a busy machine takes to start them.
PATIENCE = 240.0

#: Groups that are there for the pictures alone.
NEIGHBOURS = "pipeline"

ROUNDS_SHOWN = "() => [...document.querySelectorAll('.round')].map((round) => round.dataset.seq)"


@dataclass
class Arrivals(threading.Thread):
    """Notes when each diff of the group could be read from the topic; the broker may hold others' groups."""

    serve: Serve
    group: str
    seen: list[tuple[float, Diff]] = field(default_factory=list)
    ending: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self.start()

    def run(self) -> None:
        with DiffReader(self.serve.settings, from_beginning=True) as reader:
            while not self.ending.is_set():
                record = reader.poll(0.01)
                if record is not None and record.diff.group_id == self.group:
                    self.seen.append((time.monotonic(), record.diff))

    __hash__ = threading.Thread.__hash__


@dataclass
class Stage:
    """Broker, collector, Spark job, feed, and consumers of one group."""

    serve: Serve
    group: str
    topic: str
    folder: Path
    arrivals: Arrivals
    children: Children
    others: Children
    collector: Child
    stream: Child
    consumers: dict[str, Child] = field(default_factory=dict)

    def join(self, name: str) -> None:
        self.consumers[name] = self.consumer(self.group, name, "cooperative")

    def consumer(self, group: str, name: str, protocol: str) -> Child:
        servers = self.serve.settings.kafka.bootstrap_servers
        return Child(
            name,
            [
                *("streaming.demo.consumer", "--bootstrap-servers", servers, "--group", group),
                *("--topics", self.topic, "--name", name, "--protocol", protocol),
            ],
            log=self.folder / f"{name}.log",
            output=self.folder / f"{name}.jsonl",
        )

    def settle(self) -> None:
        """Wait until every consumer owns something; one that ended by itself says why at once."""
        eventually(self.settled, timeout=PATIENCE)

    def settled(self) -> bool:
        """Whether the newest diff has a member for each consumer, each owns something, and nothing is left over."""
        self.children.check()
        for consumer in self.consumers.values():
            consumer.check()
        if not self.arrivals.seen:
            return False
        diff = self.arrivals.seen[-1][1]
        owners = sum(bool(one.kept or one.assigned) for one in diff.members.values())
        return not diff.unassigned and owners == len(self.consumers)


@pytest.fixture(scope="module")
def stage(broker: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    from confluent_kafka.admin import AdminClient, NewTopic

    folder = tmp_path_factory.mktemp("page")
    topic, group = unique("orders"), unique("checkout")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 12, 1)])[topic].result(20)
    with (
        Serve(broker.bootstrap_servers, f"{unique('page')}.", folder) as serve,
        Children() as children,
        Children() as others,
    ):
        ensure_topics(serve.settings)
        common = [
            *("--bootstrap-servers", broker.bootstrap_servers),
            *("--topic-prefix", serve.settings.topics.prefix),
        ]
        log = getattr(getattr(broker, "broker", None), "log_path", None)
        options = [
            "--include-group",
            rf"({group}|{NEIGHBOURS}-\d)",
            *(("--coordinator-log", str(log)) if log else ()),
        ]
        collector = children.add(
            Child("collector", ["streaming", "collect", *common, *options], log=folder / "collect.log")
        )
        job = ["streaming", "stream", *common, "--checkpoint", str(folder / "checkpoint"), "--buckets", "4"]
        stream = children.add(Child("job", job, log=folder / "stream.log"))
        stage = Stage(
            *(serve.start(), group, topic, folder, Arrivals(serve, group)),
            *(children, others, collector, stream),
        )
        for name in ("c1", "c2", "c3"):
            stage.join(name)
        stage.settle()
        yield stage
        stage.arrivals.ending.set()
        for consumer in stage.consumers.values():
            consumer.kill()


def crash(stage: Stage, name: str) -> tuple[float, Diff]:
    """Kill a consumer; when the diff that tells of it could be read, and the diff."""
    known = len(stage.arrivals.seen)
    stage.consumers.pop(name).kill()
    eventually(lambda: len(stage.arrivals.seen) > known, timeout=60)
    return stage.arrivals.seen[known]


def first_round(watched: Watched, generation: int | None) -> str:
    """Text of the newest round once the page shows this generation."""
    watched.page.wait_for_function(
        "generation => document.querySelector('.round .gen')?.textContent.startsWith(`gen ${generation}`)",
        arg=generation,
        polling="raf",
        timeout=20_000,
    )
    return watched.page.locator(".round").first.inner_text()


def seconds_until_shown(stage: Stage, watched: Watched) -> float:
    """Crash a consumer: from its diff in the topic to the page with the round, its cause and what it lost."""
    arrived, diff = crash(stage, next(iter(stage.consumers)))
    text = first_round(watched, diff.generation)
    taken = round(time.monotonic() - arrived, 3)
    assert diff.cause.kind == "member.fenced"
    assert "fenced" in text
    lost = sum(len(numbers) for numbers in diff.members[diff.cause.member_ids[0]].owned.values())
    assert f"−{lost}" in text
    stage.join(f"again-{len(stage.arrivals.seen)}")
    stage.settle()
    return taken


def test_a_crash_shows_within_two_seconds_and_a_restart_is_survived(
    stage: Stage, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with chromium() as browser:
        watched = open_page(browser, f"{stage.serve.url}/groups/{stage.group}")
        watched.page.wait_for_selector("#live[data-state=live]")
        watched.page.wait_for_selector(".round")

        taken: list[float] = []
        while len(taken) < TRIES and min(taken, default=BOUND) >= BOUND:
            taken.append(seconds_until_shown(stage, watched))
        record_property("seconds_until_shown", taken)
        assert min(taken) < BOUND
        assert (watched.origins, watched.errors) == ({stage.serve.url}, [])

        assert stage.serve.stop() == 0
        watched.page.wait_for_selector("#live[data-state=lost]", timeout=20_000)
        stage.join("back")
        stage.settle()  # while the server is away
        stage.serve.start()
        watched.page.wait_for_selector("#live[data-state=live]", timeout=30_000)
        first_round(watched, stage.arrivals.seen[-1][1].generation)
        seqs = [int(seq) for seq in watched.page.evaluate(ROUNDS_SHOWN)]
        assert seqs == sorted(set(seqs), reverse=True)
        assert len(seqs) == len({(one.generation, one.round) for _, one in stage.arrivals.seen})
        assert watched.origins == {stage.serve.url}
        # The browser itself logs each refused connection while nobody listens; nothing else may be there.
        assert all("ERR_CONNECTION_REFUSED" in error or "ERR_INCOMPLETE" in error for error in watched.errors)
        assert stage.serve.ask("/ready")[0] == 200
        picture(watched.page, "page-crash.png", tmp_path)


def neighbours(stage: Stage) -> None:
    """Other groups of other protocols, each with a member that leaves."""
    for number, protocol in enumerate(("eager", "consumer", "cooperative", "eager", "consumer")):
        group = f"{NEIGHBOURS}-{number}"
        pair = [stage.others.add(stage.consumer(group, f"{group}-{name}", protocol)) for name in "ab"]
        eventually(lambda group=group: members(stage, group) == 2, timeout=PATIENCE)
        if number % 2:
            pair[0].terminate()
            eventually(lambda group=group: members(stage, group) == 1, timeout=PATIENCE)


def members(stage: Stage, group: str) -> int:
    found = {one["groupId"]: one["members"] for one in stage.serve.ask("/api/groups")[1]["groups"]}
    return found.get(group, 0)


def churn(stage: Stage) -> None:
    """Some more life, for pictures that are worth looking at."""
    neighbours(stage)
    for index in range(5):
        stage.join(f"n{index}")
        stage.settle()
        if index % 2:
            crash(stage, next(iter(stage.consumers)))
            stage.settle()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_looks_as_in_the_docs(stage: Stage, tmp_path: Path, theme: str) -> None:
    if os.environ.get("WRITE_IMAGES") and theme == "light":
        churn(stage)
    with chromium() as browser:
        watched = open_page(browser, f"{stage.serve.url}/groups/{stage.group}?axis=rounds", theme=theme)
        watched.page.wait_for_selector(".round")
        watched.page.locator(".round > button").first.click()
        watched.page.wait_for_selector(".diff table")
        picture(watched.page, f"group-{theme}.png", tmp_path)
        watched.page.goto(stage.serve.url)
        watched.page.wait_for_selector(".grid-row:not([hidden])")
        picture(watched.page, f"groups-{theme}.png", tmp_path)
        assert watched.errors == []
        background = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == {"light": "rgb(244, 245, 247)", "dark": "rgb(14, 17, 22)"}[theme]


#: A part that has stopped is told within so many seconds.
TOLD_SECONDS = 30_000


def test_a_part_that_stops_is_told_within_half_a_minute(stage: Stage) -> None:
    """The last of this file: collector and job are gone afterwards."""
    eventually(lambda: parts(stage) == {"collector": "alive", "stream": "alive"}, timeout=60)
    with chromium() as browser:
        watched = open_page(browser, f"{stage.serve.url}/groups/{stage.group}")
        warning = watched.page.locator("#stale")
        watched.page.wait_for_selector("#live[data-state=live]", timeout=60_000)
        stage.collector.kill()
        expect(warning).to_contain_text("No sign of life from collector", timeout=TOLD_SECONDS)
        assert parts(stage) == {"collector": "silent", "stream": "alive"}
        stage.stream.terminate()
        eventually(lambda: parts(stage) == {"collector": "silent", "stream": "stopped"}, timeout=60)
        standing = stage.serve.ask(f"/api/groups/{stage.group}")[1]["standing"]
        assert standing["stale"]["kind"] == "collector-silent"  # what was true for the longest time
        assert watched.errors == []


def parts(stage: Stage) -> dict[str, str]:
    """Part → state, as the server tells."""
    return {one["part"]: one["state"] for one in stage.serve.ask("/api/groups")[1].get("parts", ())}
