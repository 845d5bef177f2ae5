"""The page's timeline, members and lag of generated groups, and groups as of a past moment."""

import re

import pytest
from playwright.sync_api import Locator, expect

from streaming.kafka.lag_reader import GroupLag
from streaming.records.diffs import Diff
from streaming.records.events import Annotation, Event
from tests.support.axe import violations
from tests.support.built_diffs import START_MS, DiffBuilder
from tests.support.compacted import checkout_group
from tests.support.served_page import StoryPage

pytestmark = pytest.mark.browser


def test_members_are_listed_with_names_hosts_and_partitions(shown: StoryPage) -> None:
    builder = shown.add(
        DiffBuilder(6, group_id="shop").join("pay@h1#1").join("pay@h2#1", "web@h1#1=web-0"), racks={"pay@h2#1": "eu-1a"}
    )
    page = shown.open("/groups/shop")
    members = shown.region("Members")
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
    builder = shown.add(checkout_group("shop"))
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
        partitions = f"{len(change.assigned['t'])} partitions"
        expect(page.locator(f"[data-member='{member_id}'] .end")).to_have_text(partitions)
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
    shop_group = shown.add(checkout_group("shop"))
    first = shop_group.diffs[0][1]
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
    shop_builder = shown.add(checkout_group("shop"))
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
    builder = shown.add(checkout_group("shop"))
    page = shown.open("/groups/shop")
    lag = page.locator(".lag")
    expect(page.locator("[data-member]").first).to_be_visible()
    expect(lag).to_be_hidden()
    times = [diff.timestamp for _, diff in builder.diffs]
    samples = tuple((at, 100 * number) for number, at in enumerate(times))
    partitions: dict[str, dict[str, int | None]] = {"t": {"0": 300, "1": 100, "2": 0, "3": None}}
    shown.feed.lags["shop"] = GroupLag(times[-1], 400, partitions, samples)
    text = r"Lag 400 records at 14 Nov [\d:]+ · without 1 partition that nobody has committed"
    expect(lag).to_contain_text(re.compile(text))
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
