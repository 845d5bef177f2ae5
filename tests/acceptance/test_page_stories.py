"""The page's incidents, episode bands and waiting groups, over generated groups."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from streaming.kafka.lag_reader import GroupLag
from streaming.records.codec import encode
from streaming.records.diffs import Diff
from streaming.records.episodes import (
    Acknowledged,
    Cost,
    Downtime,
    Episode,
    Incident,
    PartitionDowntime,
    Rebalancing,
    Waiting,
)
from streaming.records.events import CLUSTER, Annotation, Event, GroupPauses
from streaming.serve.clusters import ServeOptions
from streaming.serve.history import Retention
from tests.support.axe import violations
from tests.support.browser import PAINT_SCRIPT, WIDE_ELEMENTS_SCRIPT, open_page
from tests.support.built_diffs import START_MS, DiffBuilder
from tests.support.compacted import checkout_group, episode_updates, latest
from tests.support.feed import ASSIGNMENTS, DIFFS, MemorySource, story
from tests.support.feed_server import RunningServer, running
from tests.support.incidents import incident
from tests.support.wait import eventually

pytestmark = pytest.mark.browser


@dataclass
class StoryPage:
    """The page in a browser, and the feed behind it, whose records the test writes."""

    page: Page
    feed: RunningServer
    shown_counts: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, builder: DiffBuilder, *, over: bool = True, racks: dict[str, str] | None = None) -> None:
        source = self.feed.source
        rounds, shown_story_count = self.shown_counts.get(builder.group_id, (0, 0))
        for ce_id, diff in builder.diffs[rounds:]:
            value, made = encode(diff), f"{diff.group_id}/{ce_id}"
            source.put(record(DIFFS, len(source.log), diff.group_id, value, made))
        stories = episode_updates(builder, over=over)
        for episode in stories[shown_story_count:]:
            round_keys = [f"{episode.group_id}/{ce_id}" for ce_id in episode.rounds]
            self.put(msgspec.structs.replace(episode, rounds=round_keys))
        value = encode(msgspec.structs.replace(latest(builder), racks=racks or msgspec.UNSET))
        source.put(record(ASSIGNMENTS, len(source.log), builder.group_id, value, None))
        # A longer story replaces the record that ends the last episode.
        self.shown_counts[builder.group_id] = len(builder.diffs), len(stories) - over

    def put(self, episode_or_incident: Episode | Incident) -> None:
        self.feed.source.put(story(episode_or_incident, offset=len(self.feed.source.log)))

    def open(self, path: str) -> Page:
        # The console lists each 404 of a group that the server has not read yet.
        eventually(
            lambda: {*self.shown_counts} <= {group["groupId"] for group in self.feed.get("/api/v1/groups")["groups"]}
        )
        self.page.goto(f"{self.feed.server.address}{path}")
        expect(self.page.locator("#live")).to_have_attribute("data-state", "live")
        expect(self.page.locator("[data-loading]")).to_have_count(0)
        return self.page

    def waiting(self, label: str) -> Locator:
        return self.page.get_by_role("region", name=label)


def record(topic: str, offset: int, group_id: str, value: bytes, ce_id: str | None) -> Any:
    from streaming.serve.records import TopicRecord

    return TopicRecord(topic, 0, offset, group_id.encode(), value, ce_id)


@pytest.fixture
def shown(browser: Browser, tmp_path: Path) -> Iterator[StoryPage]:
    source = MemorySource()
    # The diffs have timestamps of 2023.
    options = ServeOptions(tmp_path / "h.sqlite", port=0, limits=Retention(2**50, 2**40))
    with running(options, source) as feed:
        watched = open_page(browser, "about:blank")
        yield StoryPage(watched.page, feed)
        assert watched.errors == []
        watched.page.context.close()


def test_attention_card_lists_the_urgent_groups(shown: StoryPage) -> None:
    shown.add(checkout_group("shop"))
    page = shown.open("/")
    attention_card = shown.waiting("Needs attention")
    expect(attention_card).to_contain_text("None: no group needs attention")
    row = page.locator(".grid-row:not([hidden])")
    expect(row.locator(".story")).to_contain_text("Rolling restart of 2 of 3 members")
    expect(row.locator(".story-text")).to_have_attribute("data-tone", "good")

    starting_group = DiffBuilder(6, group_id="mail")
    starting_group.now += 900_000
    starting_group.join("a@h1#1").join("b@h2#1")
    shown.add(starting_group, over=False)
    expect(row).to_have_count(2)
    expect(row.locator("[data-column=status]")).to_have_text(["Stable", "Stable"])
    expect(attention_card.locator("li")).to_have_count(0)
    awaited_revocation = Waiting(
        since=START_MS, reason="to give up partitions", member_id="a@h1#1", partitions={"t": [1]}
    )
    newest = episode_updates(starting_group, over=False)[-1]
    shown.put(
        msgspec.structs.replace(
            newest, status="settling", waiting_for=[awaited_revocation], updated_at=newest.updated_at + 1, rounds=[]
        )
    )
    expect(attention_card.locator("li")).to_have_count(1)
    expect(attention_card.locator("li")).to_contain_text("Settling")
    expect(attention_card.locator("li")).to_contain_text("to give up partitions")
    open_incident = incident("shop", 3, opened_at=START_MS, story="shop does not settle because of pay.")
    shown.put(open_incident)
    expect(attention_card.locator("li")).to_have_count(2)
    first = attention_card.locator("li").first
    expect(first).to_have_attribute("data-tone", "bad")
    expect(first.locator(".mark")).to_have_text("Storm")
    expect(first.locator(".story")).to_have_text(open_incident.story)
    expect(first.get_by_role("link")).to_have_attribute("href", "/groups/shop")

    shown.put(msgspec.structs.replace(open_incident, status="closed", closed_at=START_MS + 9, updated_at=START_MS + 9))
    expect(attention_card.locator("li")).to_have_count(1)
    shown.put(msgspec.structs.replace(newest, updated_at=newest.updated_at + 2, rounds=[]))
    expect(attention_card.locator("li")).to_have_count(0)


def test_cluster_incidents_come_first(shown: StoryPage) -> None:
    shown.add(checkout_group("shop"))
    shown.put(incident("shop", 1, opened_at=START_MS + 9))
    page = shown.open("/")
    attention_card = shown.waiting("Needs attention")
    expect(attention_card.locator("li")).to_have_count(1)
    story = "Broker 1 was away for 36 s; 2 groups paused."
    whole = incident(CLUSTER, 1, kind="broker-restart", opened_at=START_MS, story=story)
    shown.put(msgspec.structs.replace(whole, scope="cluster", groups=["shop", "mail"]))
    expect(attention_card.locator("li")).to_have_count(2)
    expect(attention_card.locator("li").first).to_have_text(re.compile(rf"^Broker restart\s*Cluster.*{story}$"))
    expect(attention_card.locator("li").first.get_by_role("link")).to_have_count(0)
    expect(page.locator(".grid-row:not([hidden])")).to_have_count(1)
    page.goto(f"{shown.feed.server.address}/groups/shop")
    incidents = shown.waiting("Incidents").locator("li")
    expect(incidents).to_have_count(2)
    expect(incidents.first).to_have_text(re.compile(rf"^Cluster: broker restart\s*since .*{story}$"))

    pauses = GroupPauses(groups={"shop": (31_000, 39_000)})
    over = msgspec.structs.replace(
        whole,
        scope="cluster",
        groups=["shop"],
        status="closed",
        closed_at=START_MS + 9,
        updated_at=START_MS + 9,
        pauses=pauses,
    )
    shown.put(over)
    expect(incidents.nth(1)).to_have_text(re.compile(rf"^Cluster: broker restart.*{story} This group: 31 s to 39 s.$"))
    page.reload()
    expect(incidents.nth(1)).to_have_text(re.compile(rf"^Cluster: broker restart.*{story} This group: 31 s to 39 s.$"))


def test_page_shows_one_status_for_a_rebalance_in_progress(shown: StoryPage) -> None:
    builder = checkout_group("shop")
    shown.add(builder)
    settled = episode_updates(builder)[-1]
    slow, joined = sorted(builder.members)[:2]
    now = round(time.time() * 1000)
    running = Rebalancing(
        since=now - 12_000,
        reason=f"{joined} joined",
        joined=[joined],
        awaited=[slow],
        state="PreparingRebalance",
        until={slow: now + 170_000},
    )
    opened = msgspec.structs.replace(
        settled, status="rebalancing", closed_at=None, updated_at=settled.updated_at + 1, rebalancing=running, rounds=[]
    )
    page = shown.open("/")
    status = page.locator(".grid-row:not([hidden]) [data-column=status]")
    expect(status).to_have_text("Stable")
    shown.put(opened)
    expect(status).to_have_text("Rebalancing")
    attention_card = shown.waiting("Needs attention").locator("li")
    expect(attention_card).to_have_text(re.compile(r"^Rebalancing\s*shop.*joined$"))
    expect(page.locator(".story-text")).to_have_attribute("data-tone", "warn")
    page.get_by_label("All statuses").select_option("stable")
    expect(page.locator(".count")).to_have_text("0 of 1 group")
    page.goto(f"{shown.feed.server.address}/groups/shop")
    expect(page.locator(".badge")).to_have_text("Rebalancing")
    waits = shown.waiting("Waiting for")
    expect(waits).to_contain_text(re.compile(r"Rebalancing since [\d:]+, \d+ s · .* joined · PreparingRebalance"))
    expect(waits).to_contain_text("1 member rejoined")
    expect(waits).to_contain_text(re.compile(r"has not rejoined removed in 2 min \d+ s"))
    shown.put(msgspec.structs.replace(settled, updated_at=settled.updated_at + 2, rounds=[]))
    expect(page.locator(".badge")).to_have_text("Stable")
    expect(waits).to_be_hidden()


def test_empty_group_is_shut_down_or_has_lost_its_members(shown: StoryPage) -> None:
    empty_group, lost = DiffBuilder(6, group_id="resting"), DiffBuilder(6, group_id="lost")
    for builder in (empty_group, lost):
        builder.join("a@h1#1", "b@h2#1")
    empty_group.round("member.left", gone=("a@h1#1", "b@h2#1"), shares={}, unassigned={"t": [0, 1, 2, 3, 4, 5]})
    lost.fence("a@h1#1").round("member.fenced", gone=("b@h2#1",), shares={}, unassigned={"t": list(range(6))})
    shown.add(empty_group)
    shown.add(lost)
    page = shown.open("/?sort=group")
    rows = page.locator(".grid-row:not([hidden])")
    expect(rows.locator("[data-column=unassigned]")).to_have_text(["6", "–"])
    expect(rows.locator("[data-column=status]")).to_have_text(["Empty", "Empty, shut down"])
    expect(page.locator(".tiles [data-tone=bad]")).to_have_text("6")
    attention_card = shown.waiting("Needs attention").locator("li")
    expect(attention_card).to_have_count(1)
    expect(attention_card).to_contain_text("Members crashed")
    page.goto(f"{shown.feed.server.address}/groups/resting")
    expect(page.locator(".legend .none")).to_contain_text("6 shut down")
    expect(page.locator(".badge")).to_have_text("Empty, shut down")
    expect(page.locator(".facts [data-tone=bad]")).to_have_count(0)


def test_rounds_are_in_bands_that_collapse_to_their_story(shown: StoryPage) -> None:
    builder = checkout_group("shop")
    shown.add(builder)
    page = shown.open("/groups/shop")
    bands = page.locator(".band")
    expect(bands.locator(".mark")).to_have_text(["Rolling restart", "First start"])
    expect(bands.first.get_by_role("button", expanded=True).first).to_contain_text("Rolling restart of")
    expect(bands.first.locator(".round")).to_have_count(4)
    expect(bands.first.locator(".details")).to_contain_text("left and rejoined")
    expect(bands.first.locator(".details .chip").first).to_have_text(re.compile(r"^pay \(h\d\)$"))
    expect(bands.last.locator(".round")).to_have_count(0)
    fold = bands.last.locator("> button")
    fold.focus()
    page.keyboard.press("Enter")
    expect(fold).to_have_attribute("aria-expanded", "true")
    expect(fold).to_be_focused()
    expect(bands.last.locator(".round")).to_have_count(1)
    page.get_by_role("button", name="Fold all").click()
    expect(page.locator(".round")).to_have_count(0)
    bounds = bands.first.bounding_box()
    assert bounds is not None
    assert bounds["height"] < 50

    # A link to a round unfolds its episode; new rounds join their own band.
    page.get_by_role("button", name="Unfold all").click()
    expect(page.locator(".round")).to_have_count(5)
    page.locator(".round > button").last.click()
    page.reload()
    expect(bands.last.locator(".round[data-selected] .diff")).to_be_visible()
    builder.join("new@h9#1", after=900)
    shown.add(builder, over=False)
    expect(bands).to_have_count(3)
    expect(bands.first).to_have_attribute("data-status", "settled")
    expect(bands.first.locator(".round")).to_have_count(1)
    expect(page.locator(".badge")).to_have_text("Stable")


def test_incidents_are_listed_beside_the_rounds(shown: StoryPage) -> None:
    shown.add(checkout_group("shop"))
    for number in range(1, 6):
        shown.put(incident("shop", number, opened_at=START_MS + number, closed_at=START_MS + 9))
    open_incident = incident("shop", 6, kind="idle-members", opened_at=START_MS + 60_000, times=2)
    shown.put(open_incident)
    page = shown.open("/groups/shop")
    incidents = shown.waiting("Incidents")
    expect(incidents).to_contain_text("1 open")
    expect(incidents.locator("li")).to_have_count(4)
    expect(incidents.locator("li").first).to_contain_text(re.compile(r"Idle members\s*since .*, 2 times"))
    incidents.get_by_role("button", name="Show 2 more").click()
    expect(incidents.locator("li")).to_have_count(6)
    shown.put(
        msgspec.structs.replace(
            open_incident, acknowledged=Acknowledged(at=START_MS, by="ann", text="rolled back"), times=3
        )
    )
    expect(incidents.locator("li").first).to_contain_text("Acknowledged by ann: rolled back")
    shown.put(
        msgspec.structs.replace(open_incident, status="closed", closed_at=START_MS + 9, updated_at=START_MS + 99_999)
    )
    expect(incidents).to_contain_text("none open")
    assert page.evaluate("document.querySelectorAll('.incidents [data-tone=bad]').length") == 0


def test_awaited_members_are_named(shown: StoryPage) -> None:
    builder = checkout_group("shop")
    shown.add(builder)
    newest = episode_updates(builder)[-1]
    member = newest.members.replaced[0].joined
    waiting = Waiting(
        since=START_MS + 700_000,
        reason="to give up partitions",
        member_id=member,
        partitions={"t": [1, 2, 4]},
        usual_ms=3200,
        usual_of=8,
    )
    opened = msgspec.structs.replace(
        newest, status="stuck", closed_at=None, updated_at=newest.updated_at + 1, waiting_for=[waiting], rounds=[]
    )
    page = shown.open("/groups/shop")
    waits = shown.waiting("Waiting for")
    expect(waits).to_be_hidden()
    shown.put(opened)
    expect(waits.locator(".chip")).to_have_text("pay (h1)")
    expect(waits).to_contain_text(re.compile(r"to give up partitions t 1, 2, 4 since"))
    expect(waits).to_contain_text(re.compile(r"usually 3\.2 s \(8 rebalances\) longer than usual"))
    expect(page.locator(".badge")).to_have_text("Stuck")
    shown.put(msgspec.structs.replace(newest, updated_at=newest.updated_at + 2, rounds=[]))
    expect(waits).to_be_hidden()


def test_members_are_listed_with_names_hosts_and_partitions(shown: StoryPage) -> None:
    builder = DiffBuilder(6, group_id="shop").join("pay@h1#1").join("pay@h2#1", "web@h1#1=web-0")
    shown.add(builder, racks={"pay@h2#1": "eu-1a"})
    page = shown.open("/groups/shop")
    members = shown.waiting("Members")
    expect(members.locator("b")).to_have_text(["pay (h1)", "pay (h2)", "web-0"])
    expect(members.locator(".where").nth(1)).to_have_text(re.compile(r"^h2 · rack eu-1a · since .*:\d\d:\d\d, \d+ d$"))
    expect(members.locator("li p")).to_have_text(["t 0, 1", "t 2, 3", "t 4, 5"])
    builder.leave("pay@h1#1").join("new@h7#1")
    shown.add(builder)
    expect(members.locator("b")).to_have_text(["new", "pay", "web-0"])
    expect(members.locator(".where").nth(1)).to_contain_text("rack eu-1a")
    expect(members.locator(".where").first).to_have_text(re.compile(r"^h7 · since "))
    expect(page.locator("[data-member='pay@h2#1'] .end")).to_have_text("2 partitions")


def test_palette_finds_the_owner_of_a_partition_by_keyboard(shown: StoryPage) -> None:
    shown.add(checkout_group("shop"))
    shown.add(DiffBuilder(6, group_id="mail").join("postman@h1#1"))
    page = shown.open("/")
    expect(page.locator("#cluster")).to_have_text("c")
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Search")
    results = palette.get_by_role("option")
    expect(results.locator("b")).to_have_text(["mail", "shop"])
    page.keyboard.type("who owns t-5?")
    expect(results).to_have_count(2)
    expect(results.first).to_have_text("t-5owned by postman in mail")
    expect(results.last).to_have_text(re.compile(r"^t-5owned by pay \(h\d\) in shop$"))
    assert violations(page) == []
    page.keyboard.press("ArrowDown")
    expect(results.last).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(palette).to_be_hidden()
    expect(page.locator("h1")).to_have_text("shop")
    expect(page.get_by_label("Find partition or member")).to_have_value("t-5")
    page.get_by_role("button", name="Search").click()
    palette.get_by_role("combobox").fill("POSTMAN")
    expect(results).to_have_text(["postmanmember of mail"])
    palette.get_by_role("combobox").fill("nobody")
    expect(palette.get_by_role("status")).to_contain_text("No result for “nobody”")
    page.keyboard.press("Escape")
    expect(palette).to_be_hidden()


def test_a_story_is_copied_with_its_cost_and_a_link(shown: StoryPage) -> None:
    builder = checkout_group("shop")
    shown.add(builder)
    newest = episode_updates(builder)[-1]
    shown.put(msgspec.structs.replace(newest, updated_at=newest.updated_at + 1, rounds=[], downtime=LONG_DOWNTIME))
    shown.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = shown.open("/groups/shop")
    page.get_by_role("button", name="Copy story").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied_time, story_line, downtime, link = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert copied_time.startswith("shop, 14 Nov 22:")
    assert (story_line, downtime[:18]) == (newest.story, "Downtime: longest ")
    page.goto(link)
    expect(page.locator(".band").first).to_be_visible()


def test_two_episodes_are_compared_under_a_link_of_their_own(shown: StoryPage) -> None:
    shown.add(checkout_group("shop"))
    page = shown.open("/groups/shop")
    page.get_by_role("button", name="Unfold all").click()
    compare = page.get_by_role("button", name="Compare")
    compare.first.click()
    comparison = page.get_by_role("region", name="Comparison of two episodes")
    expect(comparison.get_by_role("status")).to_have_text("Episode 2: choose “Compare” in another episode.")
    compare.last.click()
    rows = comparison.get_by_role("row")
    expect(rows.nth(1)).to_contain_text("rebalances")
    expect(rows.first).to_contain_text("1: ")
    assert violations(page) == []
    page.reload()
    expect(comparison.get_by_role("row").first).to_contain_text("2: ")
    comparison.get_by_role("button", name="Close").click()
    expect(comparison).to_be_hidden()
    assert "compare" not in page.url


LEGEND_NAMES = ".legend button > span:nth-child(2)"


def test_restarted_member_keeps_its_colour(shown: StoryPage) -> None:
    builder = DiffBuilder(6, group_id="shop").join("pay@h1#1", "web@h2#1")
    for number in range(1, 8):
        builder.leave(f"pay@h1#{number}").join(f"pay@h1#{number + 1}")
    shown.add(builder)
    page = shown.open("/groups/shop")
    legend = page.locator(".legend button")
    expect(page.locator(LEGEND_NAMES)).to_have_text(["web", "pay", "unassigned"])
    expect(legend.nth(1)).to_have_attribute("title", re.compile(r"^pay\npay@h1#1\n(.*\n)*pay@h1#8$"))
    page.get_by_role("button", name="Unfold all").click()
    colours = "chips => new Set(chips.map((chip) => chip.style.background)).size"
    expect(page.locator(".round .chip")).not_to_have_count(0)
    assert page.locator(".round .chip i").evaluate_all(colours) == 2
    legend.first.focus()
    page.keyboard.press("ArrowRight")
    expect(legend.nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(legend.nth(1)).to_have_attribute("aria-pressed", "true")
    expect(legend.nth(1)).to_be_focused()
    assert legend.evaluate_all("buttons => buttons.map((one) => one.tabIndex)") == [-1, 0, -1]


def test_partitions_that_moved_come_first_in_a_large_group(shown: StoryPage) -> None:
    builder = DiffBuilder(80, group_id="shop").join(*(f"pay-{number}@h1#1" for number in range(10)))
    shares = dict(builder.members)
    last = shares["pay-9@h1#1"]["t"].pop()
    shares["pay-0@h1#1"] = {"t": [*shares["pay-0@h1#1"]["t"], last]}
    builder.round("group.observed", shares=shares)
    shown.add(builder)
    page = shown.open("/groups/shop")
    order = page.get_by_label("Order of partitions")
    expect(order).to_have_value("moves")

    def first_row() -> Locator:
        bounds = page.locator(".stage canvas").bounding_box()
        assert bounds is not None
        page.mouse.move(bounds["x"] + bounds["width"] * 0.9, bounds["y"] + 50)
        return page.locator(".tip b")

    expect(first_row()).to_have_text(f"t / {last}")
    expect(page.locator(".tip")).to_contain_text("1 change of owner")
    page.get_by_label("Find partition or member").fill("t-17")
    expect(page.locator(LEGEND_NAMES)).to_have_text(["pay-2", "unassigned"])
    expect(first_row()).to_have_text("t / 17")
    page.get_by_label("Find partition or member").fill("pay-3")
    order.select_option("member")
    assert page.url.endswith("?find=pay-3&order=member")
    page.reload()
    expect(page.locator("[data-loading]")).to_have_count(0)
    expect(page.locator(LEGEND_NAMES)).to_have_text(["pay-3", "unassigned"])
    expect(page.get_by_label("Order of partitions")).to_have_value("member")
    expect(first_row()).to_have_text("t / 24")


LONG_DOWNTIME = Downtime(
    lower_ms=900,
    upper_ms=4000,
    longest_ms=(300, 1200),
    total_ms=(900, 4000),
    stops=(6, 7),
    worst=PartitionDowntime(topic="t", partition=1, lower_ms=400, upper_ms=1900, longest_ms=(300, 1200), stops=(2, 2)),
    evidence=["group-records"],
    partitions=5,
    bounded_ms=4000,
)


def test_downtime_has_both_bounds(shown: StoryPage) -> None:
    builder = checkout_group("shop")
    shown.add(builder)
    now = int(time.time() * 1000)
    newest = episode_updates(builder)[-1]
    shown.put(msgspec.structs.replace(newest, updated_at=now, rounds=[], downtime=LONG_DOWNTIME))
    page = shown.open("/groups/shop")
    band = page.locator(".band").first
    expect(band.locator(".still")).to_have_text("down 300 ms to 1.2 s")
    sentence = (
        "Downtime: longest 300 ms to 1.2 s; 900 ms to 4.0 s in all (5 partitions, 6 to 7 stops); "
        "worst t 1: 400 ms to 1.9 s in 2 stops"
    )
    expect(band.locator(".details")).to_contain_text(sentence)
    today = page.locator(".facts .tile").last
    expect(today).to_have_text("Downtime today900 ms to 4.0 s")
    unbounded = msgspec.structs.replace(LONG_DOWNTIME, upper_ms=None, total_ms=(900, None), unbounded=1)
    shown.put(msgspec.structs.replace(newest, updated_at=now + 1, rounds=[], downtime=unbounded))
    expect(today).to_have_text("Downtime today≥ 900 ms")
    expect(band.locator(".details")).to_contain_text("no upper limit known for 1 partition")


def test_cost_comes_first_with_its_bounds(shown: StoryPage) -> None:
    builder = checkout_group("shop")
    shown.add(builder)
    newest = episode_updates(builder)[-1]
    cost = Cost(
        delayed_messages=(48_120, 50_000),
        worst_delay_ms=(30_000, 31_000),
        peak_lag=(48_000, None),
        catch_up_ms=(9_000, 9_000),
        caught_up_at=START_MS + 99_000,
        evidence=["progress"],
    )
    shown.put(
        msgspec.structs.replace(newest, updated_at=newest.updated_at + 1, rounds=[], downtime=LONG_DOWNTIME, cost=cost)
    )
    band = shown.open("/groups/shop").locator(".band").first
    sentence = "48,120 to 50,000 messages delayed, worst 30 s to 31 s"
    expect(band.locator(".still")).to_have_text(sentence)
    notes = band.locator(".details .note")
    expect(notes.first).to_have_text(
        re.compile(
            rf"^Cost: {sentence}; peak lag ≥ 48,000 messages; "
            r"caught up at .*\d\d:\d\d:\d\d, after 9\.0 s \(progress\)$"
        )
    )
    expect(notes.nth(1)).to_contain_text("Downtime: ")


def busy(shown: StoryPage) -> None:
    """Show everything on the web page at once: incidents, a stuck group, a quiet group, episodes and members."""
    builder = checkout_group("shop")
    shown.add(builder)
    newest = episode_updates(builder)[-1]
    member = newest.members.replaced[0].joined
    waiting = Waiting(
        since=START_MS, reason="to give up partitions", member_id=member, partitions={"t": [1]}, usual_ms=9, usual_of=2
    )
    shown.put(
        msgspec.structs.replace(
            newest,
            status="stuck",
            closed_at=None,
            updated_at=newest.updated_at + 1,
            waiting_for=[waiting],
            rounds=[f"shop/{ce_id}" for ce_id in newest.rounds],
            downtime=LONG_DOWNTIME,
        )
    )
    shown.put(incident("shop", 1, opened_at=START_MS, closed_at=START_MS + 9))
    shown.put(incident("shop", 2, kind="stuck", opened_at=START_MS + 60_000, story="shop does not get on."))
    empty_group = DiffBuilder(6, group_id="resting").join("a@h1#1")
    empty_group.round("member.left", gone=("a@h1#1",), shares={}, unassigned={"t": [0, 1, 2]})
    shown.add(empty_group)
    awaited_revocation = DiffBuilder(6, group_id="mail").join("a@h1#1")
    shown.add(awaited_revocation, over=False)
    newest = episode_updates(awaited_revocation, over=False)[-1]
    shown.put(
        msgspec.structs.replace(
            newest, status="settling", waiting_for=[waiting], updated_at=newest.updated_at + 1, rounds=[]
        )
    )


@pytest.mark.parametrize("width", [1440, 390])
def test_page_load_needs_few_requests_and_has_no_layout_shift(shown: StoryPage, width: int) -> None:
    busy(shown)
    page = shown.page
    page.add_init_script(PAINT_SCRIPT)
    page.set_viewport_size({"width": width, "height": 900})
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    for path, ready in (("/", ".attention li"), ("/groups/shop", ".members li")):
        requests.clear()
        shown.open(path)
        expect(page.locator(ready).first).to_be_visible()
        assert len(requests) <= 10
        assert len(set(requests)) == len(requests)  # each answer that was requested early is used
        assert page.evaluate("paints.shift") < 0.05


@pytest.mark.parametrize(("theme", "width"), [("light", 1440), ("dark", 1440), ("light", 390), ("dark", 390)])
def test_axe_finds_no_violations(shown: StoryPage, theme: str, width: int) -> None:
    busy(shown)
    shown.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    shown.page.set_viewport_size({"width": width, "height": 900})
    page = shown.open("/")
    expect(shown.waiting("Needs attention").locator("li")).to_have_count(2)
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    assert violations(page) == []
    page = shown.open("/groups/shop")
    page.get_by_role("button", name="Unfold all").click()
    page.locator(".round > button").first.click()
    expect(page.locator(".diff table")).to_be_visible()
    expect(page.locator(".members li")).to_have_count(3)
    expect(shown.waiting("Waiting for")).to_be_visible()
    page.get_by_role("button", name="Rolling restart", exact=True).click()
    expect(page.locator(".outlook table")).to_be_visible()
    page.locator(".outlook summary").click()
    assert violations(page) == []
    page = shown.open("/groups/resting")
    expect(page.locator(".badge")).to_have_text("Empty, shut down")
    assert violations(page) == []
    assert page.evaluate(WIDE_ELEMENTS_SCRIPT) == []


#: The value of the date-and-time field for a moment, by the browser's clock.
FIELD = "at => new Date(at - new Date(at).getTimezoneOffset() * 60000).toISOString().slice(0, 19)"


#: True if something is drawn in the lower half of a canvas.
HAS_DRAWN_PIXELS = """selector => {
  const canvas = document.querySelector(selector), half = Math.floor(canvas.height / 2);
  return canvas.getContext("2d").getImageData(0, half, canvas.width, canvas.height - half).data.some(Boolean);
}"""


def members_after(diff: Diff) -> int:
    return sum(member.present is not False for member in diff.members.values())


def test_past_group_is_shown_and_the_link_keeps_the_time(shown: StoryPage) -> None:
    builder = checkout_group("shop")
    shown.add(builder)
    first, second, *_, last = (diff for _, diff in builder.diffs)
    page = shown.open("/groups/shop")
    members = page.locator("[data-member]")
    expect(members).to_have_count(members_after(last))
    page.get_by_role("button", name="Unfold all").click()
    page.locator(".round > button").last.click()
    page.get_by_role("button", name="As of round").click()
    time_travel_panel = page.get_by_role("group", name="As of a moment")
    expect(time_travel_panel).to_contain_text(re.compile(r"As of 14 Nov \d\d:13:\d\d"))
    page.wait_for_url(re.compile(f"at={first.timestamp}"))
    for member_id, change in first.members.items():
        expect(page.locator(f"[data-member='{member_id}'] .end")).to_have_text(
            f"{len(change.assigned['t'])} partitions"
        )
    time_travel_panel.get_by_role("button", name="Next round").click()
    page.wait_for_url(re.compile(f"at={second.timestamp}"))
    expect(members).to_have_count(members_after(second))
    page.reload()
    expect(time_travel_panel).to_be_visible()
    expect(members).to_have_count(members_after(second))
    time_travel_panel.get_by_role("button", name="Previous episode").click()
    page.wait_for_url(re.compile(f"at={first.timestamp}"))
    assert violations(page) == []
    time_travel_panel.get_by_role("button", name="Now").click()
    expect(time_travel_panel).to_be_hidden()
    expect(members).to_have_count(members_after(last))
    assert "at=" not in page.url


def test_all_groups_are_shown_as_of_a_moment(shown: StoryPage) -> None:
    shop_group = checkout_group("shop")
    first = shop_group.diffs[0][1]
    shown.add(shop_group)
    page = shown.open("/")
    row = page.locator(".grid-row").filter(has_text="shop")
    rounds, members = (row.locator(f"[data-column={name}]") for name in ("rounds", "members"))
    expect(rounds).to_have_text(str(len(shop_group.diffs)))
    page.get_by_label("As of", exact=True).fill(page.evaluate(FIELD, first.timestamp))
    time_travel_panel = page.get_by_role("group", name="As of a moment")
    expect(time_travel_panel).to_contain_text(re.compile(r"As of 14 Nov \d\d:13:\d\d"))
    page.wait_for_url(re.compile(f"at={first.timestamp}"))
    expect(members).to_have_text(str(members_after(first)))
    expect(rounds).to_have_text("–")
    assert violations(page) == []
    page.reload()
    expect(rounds).to_have_text("–")
    row.get_by_role("link").click()
    page.wait_for_url(re.compile(f"/groups/shop.*at={first.timestamp}"))
    expect(page.locator("[data-member]")).to_have_count(members_after(first))
    page.get_by_role("navigation").get_by_role("link", name="Groups").click()
    page.wait_for_url(re.compile(f"/[?]at={first.timestamp}"))
    page.get_by_label("As of", exact=True).fill(page.evaluate(FIELD, 1_000))
    expect(page.get_by_text("No group existed at that moment")).to_be_visible()
    time_travel_panel.get_by_role("button", name="Now").click()
    expect(rounds).to_have_text(str(len(shop_group.diffs)))
    assert "at=" not in page.url


def test_a_time_range_shows_the_groups_that_rebalanced_in_it(shown: StoryPage) -> None:
    shop_builder = checkout_group("shop")
    shown.add(shop_builder)
    later = DiffBuilder(6, group_id="mail")
    later.now += 7_200_000
    later.join("a@h1#1").join("b@h2#1")
    shown.add(later)
    first, second = (diff.timestamp for _, diff in shop_builder.diffs[:2])
    page = shown.open("/")
    rows = page.locator(".grid-row:not([hidden])")
    latest = page.get_by_role("list", name="Latest rounds").locator("li")
    expect(rows).to_have_count(2)
    page.get_by_label("From", exact=True).fill(page.evaluate(FIELD, later.diffs[0][1].timestamp))
    time_travel_form = page.get_by_role("group", name="As of a moment")
    expect(time_travel_form).to_contain_text(re.compile(r"Rebalances from 15 Nov [\d:]+ to now"))
    expect(rows.locator("[data-column=group]")).to_have_text(["mail"])
    expect(rows.locator("[data-column=rounds]")).to_have_text(str(len(later.diffs)))
    expect(latest).to_have_count(len(later.diffs))
    assert violations(page) == []
    shown.open(f"/?from={first}&at={second}")
    expect(time_travel_form).to_contain_text(re.compile(r"Rebalances from 14 Nov [\d:]+ to 14 Nov [\d:]+"))
    expect(rows.locator("[data-column=group]")).to_have_text(["shop"])
    expect(rows.locator("[data-column=rounds]")).to_have_text("2")
    expect(latest).to_have_count(2)
    rows.get_by_role("link").click()
    page.wait_for_url(re.compile(f"/groups/shop.*at={second}&from={first}&to={second}"))
    page.get_by_role("navigation").get_by_role("link", name="Groups").click()
    page.wait_for_url(re.compile(f"at={second}&from="))
    time_travel_form.get_by_role("button", name="Now").click()
    expect(rows).to_have_count(2)
    assert "from=" not in page.url


def test_lag_chart_shares_the_time_axis_of_the_timeline(shown: StoryPage) -> None:
    builder = checkout_group("shop")
    shown.add(builder)
    page = shown.open("/groups/shop")
    lag = page.locator(".lag")
    expect(page.locator("[data-member]").first).to_be_visible()
    expect(lag).to_be_hidden()
    times = [diff.timestamp for _, diff in builder.diffs]
    samples = tuple((at, 100 * number) for number, at in enumerate(times))
    partitions: dict[str, dict[str, int | None]] = {"t": {"0": 300, "1": 100, "2": 0, "3": None}}
    shown.feed.lags["shop"] = GroupLag(times[-1], 400, partitions, samples)
    expect(lag).to_contain_text(
        re.compile(r"Lag 400 records at 14 Nov [\d:]+ · without 1 partition that nobody has committed")
    )
    expect(page.get_by_role("list", name="Lag by partition").locator("li")).to_have_text(["t 0300", "t 1100"])
    lag_strip, timeline = page.locator(".lag-strip"), page.locator(".stage canvas")
    bounding_boxes = [element.bounding_box() or {} for element in (lag_strip, timeline)]
    assert bounding_boxes[0]["x"] == bounding_boxes[1]["x"]
    assert bounding_boxes[0]["width"] == bounding_boxes[1]["width"]
    page.wait_for_function(HAS_DRAWN_PIXELS, arg=".lag-strip")
    assert violations(page) == []
    page.get_by_role("button", name="Rounds", exact=True).click()
    expect(lag_strip).to_be_hidden()
    shown.open(f"/groups/shop?at={times[1]}")
    expect(lag).to_contain_text("Lag 100 records at 14 Nov")
    expect(page.get_by_role("list", name="Lag by partition").locator("li")).to_have_count(0)
    page.get_by_role("group", name="As of a moment").get_by_role("button", name="Now").click()
    expect(lag).to_contain_text("Lag 400 records at 14 Nov")


def test_deployments_are_named_with_their_links(shown: StoryPage) -> None:
    shown.add(checkout_group("shop"))
    page = shown.open("/groups/shop")
    marks = page.locator(".marks")
    expect(marks).to_be_hidden()
    for number, groups in enumerate(("mail", "sh?p")):
        deploy = Annotation(
            timestamp=START_MS + 590_000, groups=groups, text="deploy", link="https://ci.example/7", revision="a1b2c3"
        )
        shown.feed.source.publish(Event("/ci", str(number), deploy))
    expect(marks).to_have_text(re.compile(r"^Last changes · deploy a1b2c3 14 Nov \d\d:23:10$"))
    expect(marks.get_by_role("link")).to_have_attribute("href", "https://ci.example/7")
    expect(page.locator(".band .story").first).to_contain_text("after deploy a1b2c3")
