"""The page over a real broker, Spark job and consumers, as users see the page."""

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import Consumer
from playwright.sync_api import Page, expect

from streaming.records.diffs import Diff
from streaming.records.episodes import Episode, Incident
from tests.support.browser import WatchedPage, chromium, open_page, take_screenshot
from tests.support.kafka import Kafka, eventually
from tests.support.page_stage import OTHER_GROUPS_PREFIX, TIMEOUT_SECONDS, PageStage, run_page_stage

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.browser]

#: Seconds from the record in the topic to the page; on a busy machine ``MAX_ATTEMPTS`` attempts are made.
MAX_DELAY_SECONDS = 2.0
MAX_ATTEMPTS = 3
ROUNDS_SHOWN = "() => [...document.querySelectorAll('.round')].map((round) => round.dataset.seq)"


@pytest.fixture(scope="module")
def stage(broker: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageStage]:
    with run_page_stage(broker, tmp_path_factory.mktemp("page")) as stage:
        yield stage


def crash(stage: PageStage, name: str) -> tuple[float, Diff]:
    arrival_count = len(stage.arrivals.arrived_records)
    stage.consumers.pop(name).kill()
    eventually(lambda: len(stage.arrivals.arrived_records) > arrival_count)
    return stage.arrivals.arrived_records[arrival_count]


def first_round(watched: WatchedPage, generation: int | None) -> str:
    """Return the text of the newest round once the page shows this generation."""
    watched.page.wait_for_function(
        "generation => document.querySelector('.round .gen')?.textContent.startsWith(`gen ${generation}`)",
        arg=generation,
        polling="raf",
    )
    return watched.page.locator(".round").first.inner_text()


def seconds_until_shown(stage: PageStage, watched: WatchedPage) -> float:
    """Crash a consumer; return the seconds from its diff until the page shows the round and its cause."""
    arrived, diff = crash(stage, next(iter(stage.consumers)))
    text = first_round(watched, diff.generation)
    elapsed_seconds = round(time.monotonic() - arrived, 3)
    assert diff.cause.kind == "member.fenced"
    assert "fenced" in text
    lost = sum(len(numbers) for numbers in diff.members[diff.cause.member_ids[0]].owned.values())
    assert f"−{lost}" in text
    stage.join(f"again-{len(stage.arrivals.arrived_records)}")
    stage.settle()
    return elapsed_seconds


def test_crash_shows_in_two_seconds_and_survives_a_restart(
    stage: PageStage, record_property: Callable[[str, object], None]
) -> None:
    with chromium() as browser:
        watched = open_page(browser, f"{stage.serve.url}/groups/{stage.group}")
        watched.page.wait_for_selector("#live[data-state=live]")
        watched.page.wait_for_selector(".round")

        delays: list[float] = []
        while len(delays) < MAX_ATTEMPTS and min(delays, default=MAX_DELAY_SECONDS) >= MAX_DELAY_SECONDS:
            delays.append(seconds_until_shown(stage, watched))
        record_property("seconds_until_shown", delays)
        assert min(delays) < MAX_DELAY_SECONDS
        assert (watched.requested_origins, watched.errors) == ({stage.serve.url}, [])

        assert stage.serve.stop() == 0
        watched.page.wait_for_selector("#live[data-state=lost]")
        stage.join("back")
        stage.settle()  # while the server is away
        stage.serve.start()
        watched.page.wait_for_selector("#live[data-state=live]")
        first_round(watched, stage.arrivals.arrived_records[-1][1].generation)
        unfold_button = watched.page.get_by_role("button", name="Unfold all")
        if unfold_button.is_visible():
            unfold_button.click()
        round_numbers = [int(seq) for seq in watched.page.evaluate(ROUNDS_SHOWN)]
        assert round_numbers == sorted(set(round_numbers), reverse=True)
        assert len(round_numbers) == len({(diff.generation, diff.round) for _, diff in stage.arrivals.arrived_records})
        assert watched.requested_origins == {stage.serve.url}
        # The browser itself logs each refused connection while the server is down; no other message is allowed.
        assert all("ERR_CONNECTION_REFUSED" in error or "ERR_INCOMPLETE" in error for error in watched.errors)
        assert stage.serve.ask("/ready")[0] == 200


#: Records when each story and incident first appeared on the page.
WATCH_SCRIPT = """() => {
  window.told = {};
  const look = () => {
    for (const one of document.querySelectorAll(".story, .incidents p")) told[one.textContent] ??= Date.now();
  };
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
  look();
}"""

_Story = TypeVar("_Story", Episode, Incident)


@dataclass
class WatchedGroup:
    stage: PageStage
    group: str
    overview: Page
    page: Page
    since: int
    seconds_by_page: dict[str, float]

    def first(self, sort: type[_Story], which: Callable[[_Story], bool]) -> tuple[float, _Story]:
        """Return the first matching episode or incident, with the time when it became readable in its topic."""

        def first_matching_story() -> tuple[float, _Story] | None:
            self.stage.children.check()
            for at, record in self.stage.story_arrivals.arrived_records[self.since :]:
                if isinstance(record, sort) and record.group_id == self.group and which(record):
                    return at, record
            return None

        eventually(first_matching_story)
        match = first_matching_story()
        assert match is not None
        return match

    def shown(self, sort: type[_Story], name: str, which: Callable[[_Story], bool], *pages: Page) -> _Story:
        """Return the first matching episode or incident once these pages, or both pages, show it; record the delay."""
        arrived, record = self.first(sort, which)
        for page in pages or (self.overview, self.page):
            page.wait_for_function("story => window.told[story]", arg=record.story)
            seconds = page.evaluate("story => window.told[story]", record.story) / 1000 - arrived
            page_name = "overview" if page is self.overview else "group"
            self.seconds_by_page[f"{name}, {page_name}"] = round(seconds, 3)
        return record

    def ends(self) -> None:
        """Wait until the group's episode has ended and no incident of the group is open."""
        self.first(Episode, lambda episode: episode.closed_at is not None)
        expect(self.page.locator(".band").first).to_have_attribute("data-status", "settled")
        expect(self.page.locator(".badge")).to_have_text(re.compile("^(Stable|Empty)"))
        expect(self.page.locator(".incidents [data-tone=bad]")).to_have_count(0)
        expect(self.overview.locator(".attention li").filter(has_text=self.group)).to_have_count(0)


@contextmanager
def watched_group(
    stage: PageStage, group: str, record_property: Callable[[str, object], None]
) -> Iterator[WatchedGroup]:
    """Open the overview and the group's page; assert that both pages show the changes made in the block in time."""
    eventually(lambda: settled(stage, group))
    with chromium() as browser:
        watched = [open_page(browser, f"{stage.serve.url}{path}") for path in ("/", f"/groups/{group}")]
        for view in watched:
            expect(view.page.locator("#live")).to_have_attribute("data-state", "live")
            view.page.evaluate(WATCH_SCRIPT)
        since, seconds_by_page = len(stage.story_arrivals.arrived_records), dict[str, float]()
        yield WatchedGroup(stage, group, watched[0].page, watched[1].page, since, seconds_by_page)
        record_property("seconds_until_shown", seconds_by_page)
        assert min(seconds_by_page.values()) < MAX_DELAY_SECONDS  # the shortest of several attempts
        assert [view.errors for view in watched] == [[], []]


def settled(stage: PageStage, group: str) -> bool:
    """Return true if the newest episode of a group has ended."""
    episodes = [
        record
        for _, record in stage.story_arrivals.arrived_records
        if isinstance(record, Episode) and record.group_id == group
    ]
    return bool(episodes) and episodes[-1].closed_at is not None


def test_killed_member_is_named_until_the_episode_ends(
    stage: PageStage, record_property: Callable[[str, object], None]
) -> None:
    with watched_group(stage, stage.group, record_property) as watched:
        name, consumer = stage.consumers.popitem()
        consumer.kill()
        watched.shown(Episode, "crash", lambda episode: episode.kind == "crash")
        band = watched.page.locator(".band").first
        expect(band.locator(".mark")).to_have_text("Crash")
        expect(band.locator(".details .chip")).to_have_text([name])
        expect(band.locator(".story")).to_contain_text(f"Crash of {name}")
        expect(watched.page.locator(".members b").get_by_text(name, exact=True)).to_have_count(0)
        watched.ends()
    stage.join(name)
    stage.settle()


def test_page_shows_a_rolling_restart_as_one_band(
    stage: PageStage, record_property: Callable[[str, object], None]
) -> None:
    with watched_group(stage, stage.group, record_property) as watched:
        for name in list(stage.consumers):
            stage.restart_consumer(name)
        watched.shown(Episode, "rolling", lambda episode: episode.kind == "rolling-restart")
        band = watched.page.locator(".band").first
        expect(band.locator(".mark")).to_have_text("Rolling restart")
        watched.ends()
        size = len(stage.consumers)
        expect(band.locator(".story")).to_contain_text(f"Probably a rolling restart of {size} members")
        # A member whose earlier id is in the same round has a longer display name.
        for names in (band.locator(".details .chip"), watched.page.locator(".members b")):
            expect(names).to_have_count(size)
            assert sorted(text.split()[0] for text in names.all_inner_texts()) == sorted(stage.consumers)
        expect(watched.page.locator(".incidents li")).to_have_count(0)


def test_storm_incident_names_its_member_and_closes(
    stage: PageStage, record_property: Callable[[str, object], None]
) -> None:
    name = next(iter(stage.consumers))
    with watched_group(stage, stage.group, record_property) as watched:
        for _ in range(3):
            stage.restart_consumer(name)
        watched.shown(Incident, "storm", lambda incident: incident.kind == "storm")
        watched.shown(Episode, "storming", lambda episode: episode.status == "storming", watched.page)
        incident = watched.page.locator(".incidents [data-tone=bad]")
        expect(incident.locator(".mark")).to_have_text("Storm")
        expect(incident.locator("p")).to_contain_text(name)
        expect(watched.page.locator(".badge")).to_have_text("Storming")
        attention_row = watched.overview.locator(".attention li").filter(has_text=stage.group)
        expect(attention_row.locator(".mark")).to_have_text("Storm")
        watched.ends()
        expect(watched.page.locator(".incidents")).to_contain_text("none open")


def start_manual_poller(stage: PageStage, group: str, name: str, **options: str) -> Consumer:
    """Start a member that polls only when the test requests it."""
    common = {"bootstrap.servers": stage.serve.settings.kafka.bootstrap_servers, "group.id": group}
    consumer = Consumer({**common, "client.id": name, "log_level": 2, **options})
    consumer.subscribe([stage.topic])
    return consumer


def polled(condition: Callable[[], object], *consumers: Consumer) -> bool:
    for consumer in consumers:
        consumer.poll(0.1)
    return bool(condition())


def test_stuck_kip_848_member_is_named(stage: PageStage, record_property: Callable[[str, object], None]) -> None:
    group = f"{OTHER_GROUPS_PREFIX}-9"
    slow = start_manual_poller(stage, group, "slow", **{"group.protocol": "consumer"})
    eventually(lambda: polled(lambda: slow.assignment() and settled(stage, group), slow), timeout=TIMEOUT_SECONDS)
    with watched_group(stage, group, record_property) as watched:
        # From now on it does not poll: its heartbeats continue, and it revokes nothing.
        fast_consumer = stage.other_group_processes.add(stage.consumer(group, "fast", "consumer"))
        watched.shown(Episode, "waiting", lambda episode: "waiting for slow" in episode.story)
        waits = watched.page.locator(".waits")
        expect(waits.locator(".chip").first).to_have_text("slow")
        expect(waits).to_contain_text(re.compile(rf"to give up partitions {stage.topic} [\d–, ]+ since"))
        watched.shown(Incident, "stuck", lambda incident: "stuck" in incident.kind)
        incident = watched.page.locator(".incidents [data-tone=bad]").filter(has_text="Stuck")
        expect(incident.locator("p")).to_contain_text("slow")
        expect(watched.page.locator(".badge")).to_have_text(re.compile("Rebalancing|Stuck"))
        attention_row = watched.overview.locator(".attention li").filter(has_text=group)
        expect(attention_row.filter(has_text="Stuck").locator(".story")).to_contain_text("slow")
        eventually(lambda: polled(lambda: settled(stage, group), slow))
        watched.ends()
        expect(waits).to_be_hidden()
        expect(watched.page.locator(".members b")).to_have_text(["fast", "slow"])
    fast_consumer.terminate()
    slow.close()


def test_a_hanging_member_is_awaited_on_every_surface(
    stage: PageStage, record_property: Callable[[str, object], None]
) -> None:
    group = f"{OTHER_GROUPS_PREFIX}-8"
    slow = start_manual_poller(stage, group, "slow")

    eventually(lambda: polled(lambda: slow.assignment() and settled(stage, group), slow), timeout=TIMEOUT_SECONDS)
    with watched_group(stage, group, record_property) as watched:
        began = time.time()
        fast_consumer = start_manual_poller(stage, group, "fast")
        eventually(lambda: polled(lambda: watched.page.locator(".badge").inner_text() == "Rebalancing", fast_consumer))
        record_property("seconds_from_join_to_page", round(time.time() - began, 1))
        watched.shown(Episode, "rebalancing", lambda episode: episode.rebalancing is not None)
        waits = watched.page.locator(".waits")
        expect(waits.locator(".chip")).to_have_text(["slow"])
        text = re.compile(r"Rebalancing since .*slow has not rejoined removed in 4 min", re.DOTALL)
        expect(waits).to_contain_text(text)
        expect(watched.overview.locator(".grid-row", has_text=group).locator(".state")).to_have_text("Rebalancing")
        answer = stage.serve.ask(f"/api/v1/groups/{group}")[1]["group"]
        assert answer["status"] == "rebalancing"
        assert [answer["names"][member_id] for member_id in answer["awaited"]] == ["slow"]
        eventually(lambda: polled(lambda: slow.assignment() and fast_consumer.assignment(), slow, fast_consumer))
        eventually(lambda: polled(lambda: settled(stage, group), slow, fast_consumer))
        watched.ends()
        expect(waits).to_be_hidden()
    slow.close()
    fast_consumer.close()


def start_further_groups(stage: PageStage) -> None:
    """Start groups of other protocols, and let one member of each group leave."""
    for number, protocol in enumerate(("eager", "consumer", "cooperative", "eager", "consumer")):
        group = f"{OTHER_GROUPS_PREFIX}-{number}"
        pair = [stage.other_group_processes.add(stage.consumer(group, f"{group}-{name}", protocol)) for name in "ab"]
        eventually(lambda group=group: members(stage, group) == 2, timeout=TIMEOUT_SECONDS)
        if number % 2:
            pair[0].terminate()
            eventually(lambda group=group: members(stage, group) == 1, timeout=TIMEOUT_SECONDS)


def members(stage: PageStage, group: str) -> int:
    members_by_group = {group["groupId"]: group["members"] for group in stage.serve.ask("/api/v1/groups")[1]["groups"]}
    return members_by_group.get(group, 0)


def restart_members(stage: PageStage) -> None:
    """Restart members repeatedly, so that screenshots have content."""
    start_further_groups(stage)
    for index in range(5):
        stage.join(f"n{index}")
        stage.settle()
        if index % 2:
            crash(stage, next(iter(stage.consumers)))
            stage.settle()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_page_matches_the_screenshots_in_the_docs(stage: PageStage, tmp_path: Path, theme: str) -> None:
    if os.environ.get("WRITE_IMAGES") and theme == "light":
        restart_members(stage)
    with chromium() as browser:
        url = f"{stage.serve.url}/groups/{stage.group}?axis=rounds"
        watched = open_page(browser, url, theme=theme, height=1200)
        watched.page.wait_for_selector(".round")
        watched.page.locator(".round > button").first.click()
        watched.page.wait_for_selector(".diff table")
        watched.page.locator(".detail").evaluate("page => page.scrollTop = 0")
        take_screenshot(watched.page, f"group-{theme}.png", tmp_path)
        watched.page.set_viewport_size({"width": 1440, "height": 900})
        watched.page.goto(stage.serve.url)
        watched.page.wait_for_selector(".grid-row:not([hidden])")
        take_screenshot(watched.page, f"groups-{theme}.png", tmp_path)
        assert watched.errors == []
        background_color = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background_color == {"light": "rgb(244, 245, 247)", "dark": "rgb(14, 17, 22)"}[theme]


#: Seconds within which a stopped component is reported.
SILENCE_MS = 30_000


def test_stopped_component_is_reported_within_half_a_minute(stage: PageStage) -> None:
    """If collector and job stop, the page reports it; the last test of this file, as the other tests need both."""
    eventually(lambda: parts(stage) == {"collector": "alive", "stream": "alive"})
    with chromium() as browser:
        watched = open_page(browser, f"{stage.serve.url}/groups/{stage.group}")
        warning = watched.page.locator("#stale")
        watched.page.wait_for_selector("#live[data-state=live]")
        stage.collector.kill()
        expect(warning).to_contain_text("No heartbeat from collector", timeout=SILENCE_MS)
        assert parts(stage) == {"collector": "silent", "stream": "alive"}
        stage.stream.terminate()
        eventually(lambda: parts(stage) == {"collector": "silent", "stream": "stopped"})
        group_status = stage.serve.ask(f"/api/v1/groups/{stage.group}")[1]["standing"]
        assert group_status["stale"]["kind"] == "collector-silent"  # the oldest state
        assert watched.errors == []


def parts(stage: PageStage) -> dict[str, str]:
    return {part["part"]: part["state"] for part in stage.serve.ask("/api/v1/groups")[1].get("parts", ())}
