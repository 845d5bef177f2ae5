"""The page for a group of thousands of members shows the first members and finds all others by search."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Route, expect

from streaming.records.codec import encode
from streaming.records.diffs import LatestAssignment, MemberNames
from streaming.serve.records import TopicRecord
from tests.support.browser import WIDE_ELEMENTS_SCRIPT
from tests.support.feed import ASSIGNMENTS, MemorySource, records
from tests.support.histories import Group, change, sample
from tests.support.memory_server import generated_group
from tests.support.served_page import served_page
from tests.support.wait import eventually

pytestmark = pytest.mark.browser

MEMBERS = 3000
MAX_SHOWN_MEMBERS = 200

#: Init script that counts the rectangles of the rows' picture, which is drawn beside the page.
COUNT_RECTANGLES_SCRIPT = """
window.rectangles = 0;
const fillRect = CanvasRenderingContext2D.prototype.fillRect;
CanvasRenderingContext2D.prototype.fillRect = function (...place) {
  window.rectangles += !this.canvas.isConnected;
  fillRect.apply(this, place);
};
"""
#: Script that returns the number of colours in the first row of the timeline.
COUNT_COLORS_SCRIPT = """() => {
  const canvas = document.querySelector(".stage canvas");
  const { data } = canvas.getContext("2d").getImageData(canvas.width / 2, 50, canvas.width / 4, 1);
  return new Set(new Uint32Array(data.buffer)).size;
}"""


def group(source: MemorySource, rounds: int) -> None:
    """Return a group whose last member takes a partition from the previous member and gives it back."""
    share = {f"c{number}": {"t": [2 * number, 2 * number + 1]} for number in range(MEMBERS)}
    first = {
        member_id: change(assigned=member_share, client_id=member_id, client_host="/h")
        for member_id, member_share in share.items()
    }
    made = [sample(group_id="large", members=first)]
    for number in range(2, rounds + 1):
        receiving_member, losing_member = (f"c{MEMBERS - 1 - (number + step) % 2}" for step in (0, 1))
        moved = share[losing_member]["t"].pop()
        kept = {
            member_id: change(owned=member_share, kept=member_share, client_id=member_id)
            for member_id, member_share in share.items()
        }
        kept[receiving_member] = change(
            owned=share[receiving_member],
            kept=share[receiving_member],
            assigned={"t": [moved]},
            client_id=receiving_member,
        )
        share[receiving_member] = {"t": sorted([*share[receiving_member]["t"], moved])}
        made.append(sample(group_id="large", members=kept, generation=number, timestamp=2000 + number, moved=1))
    latest = LatestAssignment(
        group_id="large",
        protocol="classic",
        assignor="range",
        generation=rounds,
        group_epoch=None,
        timestamp=made[-1].timestamp,
        members=share,
        names={member_id: MemberNames(client_id=member_id, client_host="/h") for member_id in share},
    )
    source.put(*records(made), TopicRecord(ASSIGNMENTS, 0, 0, b"large", encode(latest), None))


def count(rows: Locator) -> int:
    expect(rows).not_to_have_count(0)
    return rows.count()


def test_large_group_shows_first_members_and_finds_the_rest(browser: Browser, tmp_path: Path) -> None:
    source = MemorySource()
    group(source, 3)
    with served_page(browser, tmp_path, source, "/groups/large") as (_, page):
        members = page.locator(".members li")
        expect(page.locator(".members header .num")).to_have_text("3,000")
        assert count(members) == 12
        page.get_by_role("button", name="Show the first 200").click()
        expect(members).to_have_count(MAX_SHOWN_MEMBERS)
        expect(page.locator(".members .some")).to_contain_text("the first 200 of 3,000")
        page.locator(".members").get_by_label("Find a member").fill("c2999")
        expect(members).to_have_count(1)
        expect(members).to_contain_text("c2999")
        page.locator(".round > button").first.click()
        rows = page.locator(".round .diff tbody tr")
        expect(rows).to_have_count(MAX_SHOWN_MEMBERS)
        expect(rows.first).to_contain_text(re.compile("c299[89]"))  # members that gained or lost partitions are first
        find = page.locator(".diff").get_by_label("Find a member")
        find.fill("c1234")
        expect(rows).to_have_count(1)
        expect(page.locator(".diff .some")).to_contain_text("1 of 3,000")
        find.fill("nobody of this name")
        expect(rows).to_have_count(0)
        find.fill("")
        expect(rows).to_have_count(MAX_SHOWN_MEMBERS)
        assert page.evaluate("document.querySelectorAll('*').length") < 10_000
        assert page.evaluate(WIDE_ELEMENTS_SCRIPT) == []


def test_page_sends_one_request_at_a_time(browser: Browser, tmp_path: Path) -> None:
    source = MemorySource()
    rounds = Group("g", {"t": 6}, 1).diffs(3)
    source.put(*records(rounds[:1]))
    requests: list[Route] = []

    def keep(route: Route) -> None:
        requests.append(route)

    with served_page(browser, tmp_path, source, "about:blank") as (feed, page):
        eventually(lambda: feed.get("/api/v1/groups")["groups"])
        page.route(f"{feed.server.address}/api/v1/groups/g", keep)
        page.goto(f"{feed.server.address}/groups/g")
        for number in (2, 3):
            source.put(*records(rounds[number - 1 : number], start=number - 1))
            expect(page.locator(".round")).to_have_count(number)
        page.wait_for_timeout(2500)  # the tested condition: no request is sent while one is unanswered
        assert len(requests) == 1
        with page.expect_request(f"{feed.server.address}/api/v1/groups/g"):
            requests[0].continue_()


def test_a_small_diff_has_no_search(browser: Browser, tmp_path: Path) -> None:
    source = MemorySource()
    source.put(*records([sample()]))
    with served_page(browser, tmp_path, source, "/groups/g") as (_, page):
        page.locator(".round > button").first.click()
        expect(page.locator(".round .diff tbody tr")).to_have_count(1)
        expect(page.locator(".some:not([hidden])")).to_have_count(0)


def test_rounds_closer_than_pixels_are_not_drawn_one_by_one(browser: Browser, tmp_path: Path) -> None:
    rounds, source = 600, MemorySource()
    generated = generated_group(0, 160)
    source.put(*records(generated.diffs(rounds)))
    with served_page(browser, tmp_path, source, "about:blank") as (feed, page):
        eventually(lambda: [served["rounds"] for served in feed.get("/api/v1/groups")["groups"]] == [rounds])
        page.add_init_script(COUNT_RECTANGLES_SCRIPT)
        page.goto(f"{feed.server.address}/groups/{generated.group_id}?axis=rounds")
        chart, number = page.locator(".stage canvas"), page.locator(".rounds header .num")
        expect(number).to_contain_text("loaded")
        while "loaded" in number.inner_text():
            chart.press("-")
            page.wait_for_timeout(100)
        chart.press("-")
        page.wait_for_timeout(500)
        before = page.evaluate("rectangles")
        chart.press("+")
        eventually(lambda: page.evaluate("rectangles") > before)
        page.wait_for_timeout(500)
        assert page.evaluate("rectangles") - before < 1000
        assert page.evaluate(COUNT_COLORS_SCRIPT) > 3
