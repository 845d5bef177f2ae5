"""The page's incidents, episode bands and waiting groups, over generated groups."""

import re
import time

import msgspec
import pytest
from playwright.sync_api import expect

from streaming.records.episodes import Acknowledged, Cost, Downtime, PartitionDowntime, Rebalancing, Waiting
from streaming.records.events import CLUSTER, GroupPauses
from tests.support.axe import violations
from tests.support.browser import PAINT_SCRIPT, WIDE_ELEMENTS_SCRIPT
from tests.support.built_diffs import START_MS, DiffBuilder
from tests.support.compacted import checkout_group, episode_updates
from tests.support.incidents import incident
from tests.support.served_page import StoryPage

pytestmark = pytest.mark.browser


def test_attention_card_lists_the_urgent_groups(shown: StoryPage) -> None:
    shown.add(checkout_group("shop"))
    page = shown.open("/")
    attention_card = shown.region("Needs attention")
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
    awaited = Waiting(since=START_MS, reason="to give up partitions", member_id="a@h1#1", partitions={"t": [1]})
    shown.update(starting_group, over=False, status="settling", waiting_for=[awaited])
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

    shown.close(open_incident)
    expect(attention_card.locator("li")).to_have_count(1)
    shown.update(starting_group, over=False)
    expect(attention_card.locator("li")).to_have_count(0)


def test_cluster_incidents_come_first(shown: StoryPage) -> None:
    shown.add(checkout_group("shop"))
    shown.put(incident("shop", 1, opened_at=START_MS + 9))
    page = shown.open("/")
    attention_card = shown.region("Needs attention")
    expect(attention_card.locator("li")).to_have_count(1)
    story = "Broker 1 was away for 36 s; 2 groups paused."
    whole = incident(
        CLUSTER, kind="broker-restart", scope="cluster", groups=["shop", "mail"], opened_at=START_MS, story=story
    )
    shown.put(whole)
    expect(attention_card.locator("li")).to_have_count(2)
    expect(attention_card.locator("li").first).to_have_text(re.compile(rf"^Broker restart\s*Cluster.*{story}$"))
    expect(attention_card.locator("li").first.get_by_role("link")).to_have_count(0)
    expect(page.locator(".grid-row:not([hidden])")).to_have_count(1)
    page.goto(f"{shown.feed.server.address}/groups/shop")
    incidents = shown.region("Incidents").locator("li")
    expect(incidents).to_have_count(2)
    expect(incidents.first).to_have_text(re.compile(rf"^Cluster: broker restart\s*since .*{story}$"))

    shown.close(whole, groups=["shop"], pauses=GroupPauses(groups={"shop": (31_000, 39_000)}))
    text = re.compile(rf"^Cluster: broker restart.*{story} This group: 31 s to 39 s.$")
    expect(incidents.nth(1)).to_have_text(text)
    page.reload()
    expect(incidents.nth(1)).to_have_text(text)


def test_page_shows_one_status_for_a_rebalance_in_progress(shown: StoryPage) -> None:
    builder = shown.add(checkout_group("shop"))
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
    page = shown.open("/")
    status = page.locator(".grid-row:not([hidden]) [data-column=status]")
    expect(status).to_have_text("Stable")
    shown.update(builder, status="rebalancing", closed_at=None, rebalancing=running)
    expect(status).to_have_text("Rebalancing")
    attention_card = shown.region("Needs attention").locator("li")
    expect(attention_card).to_have_text(re.compile(r"^Rebalancing\s*shop.*joined$"))
    expect(page.locator(".story-text")).to_have_attribute("data-tone", "warn")
    page.get_by_label("All statuses").select_option("stable")
    expect(page.locator(".count")).to_have_text("0 of 1 group")
    page.goto(f"{shown.feed.server.address}/groups/shop")
    expect(page.locator(".badge")).to_have_text("Rebalancing")
    waits = shown.region("Waiting for")
    expect(waits).to_contain_text(re.compile(r"Rebalancing since [\d:]+, \d+ s · .* joined · PreparingRebalance"))
    expect(waits).to_contain_text("1 member rejoined")
    expect(waits).to_contain_text(re.compile(r"has not rejoined removed in 2 min \d+ s"))
    shown.update(builder)
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
    attention_card = shown.region("Needs attention").locator("li")
    expect(attention_card).to_have_count(1)
    expect(attention_card).to_contain_text("Members crashed")
    page.goto(f"{shown.feed.server.address}/groups/resting")
    expect(page.locator(".legend .none")).to_contain_text("6 shut down")
    expect(page.locator(".badge")).to_have_text("Empty, shut down")
    expect(page.locator(".facts [data-tone=bad]")).to_have_count(0)


def test_rounds_are_in_bands_that_collapse_to_their_story(shown: StoryPage) -> None:
    builder = shown.add(checkout_group("shop"))
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
    incidents = shown.region("Incidents")
    expect(incidents).to_contain_text("1 open")
    expect(incidents.locator("li")).to_have_count(4)
    expect(incidents.locator("li").first).to_contain_text(re.compile(r"Idle members\s*since .*, 2 times"))
    incidents.get_by_role("button", name="Show 2 more").click()
    expect(incidents.locator("li")).to_have_count(6)
    acknowledged = Acknowledged(at=START_MS, by="ann", text="rolled back")
    shown.put(msgspec.structs.replace(open_incident, acknowledged=acknowledged, times=3))
    expect(incidents.locator("li").first).to_contain_text("Acknowledged by ann: rolled back")
    shown.close(open_incident, at=START_MS + 99_999)
    expect(incidents).to_contain_text("none open")
    assert page.evaluate("document.querySelectorAll('.incidents [data-tone=bad]').length") == 0


def test_awaited_members_are_named(shown: StoryPage) -> None:
    builder = shown.add(checkout_group("shop"))
    waiting = Waiting(
        since=START_MS + 700_000,
        reason="to give up partitions",
        member_id="pay@h1#2",
        partitions={"t": [1, 2, 4]},
        usual_ms=3200,
        usual_of=8,
    )
    page = shown.open("/groups/shop")
    waits = shown.region("Waiting for")
    expect(waits).to_be_hidden()
    shown.update(builder, status="stuck", closed_at=None, waiting_for=[waiting])
    expect(waits.locator(".chip")).to_have_text("pay (h1)")
    expect(waits).to_contain_text(re.compile(r"to give up partitions t 1, 2, 4 since"))
    expect(waits).to_contain_text(re.compile(r"usually 3\.2 s \(8 rebalances\) longer than usual"))
    expect(page.locator(".badge")).to_have_text("Stuck")
    shown.update(builder)
    expect(waits).to_be_hidden()


def test_a_story_is_copied_with_its_cost_and_a_link(shown: StoryPage) -> None:
    builder = shown.add(checkout_group("shop"))
    shown.update(builder, downtime=LONG_DOWNTIME)
    shown.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = shown.open("/groups/shop")
    page.get_by_role("button", name="Copy story").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied_time, story_line, downtime, link = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert copied_time.startswith("shop, 14 Nov 22:")
    assert (story_line, downtime[:18]) == (episode_updates(builder)[-1].story, "Downtime: longest ")
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
    builder = shown.add(checkout_group("shop"))
    now = int(time.time() * 1000)
    shown.update(builder, updated_at=now, downtime=LONG_DOWNTIME)
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
    shown.update(builder, updated_at=now + 1, downtime=unbounded)
    expect(today).to_have_text("Downtime today≥ 900 ms")
    expect(band.locator(".details")).to_contain_text("no upper limit known for 1 partition")


def test_cost_comes_first_with_its_bounds(shown: StoryPage) -> None:
    builder = shown.add(checkout_group("shop"))
    cost = Cost(
        delayed_messages=(48_120, 50_000),
        worst_delay_ms=(30_000, 31_000),
        peak_lag=(48_000, None),
        catch_up_ms=(9_000, 9_000),
        caught_up_at=START_MS + 99_000,
        evidence=["progress"],
    )
    shown.update(builder, downtime=LONG_DOWNTIME, cost=cost)
    band = shown.open("/groups/shop").locator(".band").first
    sentence = "48,120 to 50,000 messages delayed, worst 30 s to 31 s"
    expect(band.locator(".still")).to_have_text(sentence)
    notes = band.locator(".details .note")
    text = rf"^Cost: {sentence}; peak lag ≥ 48,000 messages; caught up at .*:\d\d:\d\d, after 9\.0 s \(progress\)$"
    expect(notes.first).to_have_text(re.compile(text))
    expect(notes.nth(1)).to_contain_text("Downtime: ")


def busy(shown: StoryPage) -> None:
    """Show everything on the web page at once: incidents, a stuck group, a quiet group, episodes and members."""
    builder = shown.add(checkout_group("shop"))
    waiting = Waiting(START_MS, "to give up partitions", "pay@h1#2", partitions={"t": [1]}, usual_ms=9, usual_of=2)
    rounds = [f"shop/{ce_id}" for ce_id in episode_updates(builder)[-1].rounds]
    shown.update(builder, status="stuck", closed_at=None, waiting_for=[waiting], rounds=rounds, downtime=LONG_DOWNTIME)
    shown.put(incident("shop", 1, opened_at=START_MS, closed_at=START_MS + 9))
    shown.put(incident("shop", 2, kind="stuck", opened_at=START_MS + 60_000, story="shop does not get on."))
    empty_group = DiffBuilder(6, group_id="resting").join("a@h1#1")
    empty_group.round("member.left", gone=("a@h1#1",), shares={}, unassigned={"t": [0, 1, 2]})
    shown.add(empty_group)
    settling = shown.add(DiffBuilder(6, group_id="mail").join("a@h1#1"), over=False)
    shown.update(settling, over=False, status="settling", waiting_for=[waiting])


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
    expect(shown.region("Needs attention").locator("li")).to_have_count(2)
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    assert violations(page) == []
    page = shown.open("/groups/shop")
    page.get_by_role("button", name="Unfold all").click()
    page.locator(".round > button").first.click()
    expect(page.locator(".diff table")).to_be_visible()
    expect(page.locator(".members li")).to_have_count(3)
    expect(shown.region("Waiting for")).to_be_visible()
    page.get_by_role("button", name="Rolling restart", exact=True).click()
    expect(page.locator(".outlook table")).to_be_visible()
    page.locator(".outlook summary").click()
    assert violations(page) == []
    page = shown.open("/groups/resting")
    expect(page.locator(".badge")).to_have_text("Empty, shut down")
    assert violations(page) == []
    assert page.evaluate(WIDE_ELEMENTS_SCRIPT) == []
