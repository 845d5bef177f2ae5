import re
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, expect

from streaming.freshness import ComponentState, Freshness, Lateness
from streaming.serve.board import Stale
from tests.support.browser import open_page
from tests.support.built_diffs import START_MS
from tests.support.compacted import checkout_group, episode_updates
from tests.support.feed import MemorySource, records, story
from tests.support.feed_server import running
from tests.support.histories import Group, diffs, play, static_member_handover
from tests.support.served_page import page_options, served_page

pytestmark = pytest.mark.browser


def orders() -> MemorySource:
    """Return a source with five rounds of the group ``orders``."""
    source = MemorySource()
    source.put(*records(Group("orders", {"t": 6}, 1).diffs(5)))
    return source


def test_outdated_data_is_reported(browser: Browser, tmp_path: Path) -> None:
    source = orders()
    with running(page_options(tmp_path), source) as feed:
        watched = open_page(browser, feed.server.address)
        page = watched.page
        live, warning = page.locator("#live"), page.locator("#stale")
        expect(live).to_have_text("Live")
        expect(warning).to_be_hidden()
        source.stale = Stale("kafka-unreachable", "No contact with Kafka", int(time.time() * 1000) - 60_000)
        expect(live).to_have_text("Not up to date")
        text = r"^No contact with Kafka since .*\d\d:\d\d:\d\d; the page shows the state of that time\. 1 min ago$"
        expect(warning).to_have_text(re.compile(text))
        state = page.locator(".grid-row:not([hidden]) .state").first
        style_script = "element => getComputedStyle(element, '::before').content"
        assert state.evaluate(style_script) == '"was"'
        page.reload()  # the snapshot contains the warning as well
        expect(warning).to_be_visible()
        source.stale = None
        expect(live).to_have_text("Live")
        expect(warning).to_be_hidden()
        assert state.evaluate(style_script) == "none"
        assert watched.errors == []
    expect(warning).to_contain_text("No contact with the server since")
    page.context.close()


def test_stopped_component_is_reported_and_tooltip_lists_all(browser: Browser, tmp_path: Path) -> None:
    now = int(time.time() * 1000)
    stream = ComponentState(part="stream", id="s", by=None, state="alive", last_heartbeat=now, up_to=now)
    gone = ComponentState(
        part="collector", id="<b>\u202ec", by="offsets", state="silent", last_heartbeat=now - 780_000, up_to=now
    )
    states = [Freshness()]
    with served_page(browser, tmp_path, orders(), freshness=lambda: states[0]) as (_, page):
        live, warning = page.locator("#live"), page.locator("#stale")
        expect(live).to_have_text("Live")
        health = page.locator("#health")
        expect(health).to_have_text(re.compile("^No heartbeats from a collector or the stream"))
        late = Lateness("collector-silent", f"No heartbeat from collector {gone.id}", gone.last_heartbeat)
        states[0] = Freshness(parts=(gone, stream), late=late)
        expect(live).to_have_text("Not up to date")
        text = r"^No heartbeat from collector <b>\\u202ec since .*of that time\. 13 min ago$"
        expect(warning).to_have_text(re.compile(text))
        live.focus()
        page.keyboard.press("Enter")
        expect(health).to_be_visible()
        text = r"^collector <b>\\u202ec: no heartbeat, last one 13 min ago\s+stream s: running, last heartbeat "
        expect(health).to_have_text(re.compile(text))
        states[0] = Freshness(parts=(stream,))
        expect(live).to_have_text("Live")
        expect(warning).to_be_hidden()


def test_any_valid_group_id_works(browser: Browser, tmp_path: Path) -> None:
    names = ["a\nb", "50%/x", "<b>bold</b>", "\x1b]0;title\x07", "\u202egnp"]
    source = MemorySource()
    for number, name in enumerate(names):
        source.put(*records(Group(name, {"t": 6}, 1).diffs(3), start=3 * number))
    with served_page(browser, tmp_path, source) as (_, page):
        shown = ["a␊b", "50%/x", "<b>bold</b>", "␛]0;title␇", "\\u202egnp"]
        for name in shown:
            page.locator(".grid-row:not([hidden]) a").get_by_text(name, exact=True).click()
            expect(page.locator("h1")).to_have_text(name)
            expect(page.locator(".round")).to_have_count(3)
            page.reload()
            expect(page.locator(".round")).to_have_count(3)
            page.go_back()
            expect(page.locator(".count")).to_have_text("5 groups")


def test_unchanged_members_are_counted_below_a_round(browser: Browser, tmp_path: Path) -> None:
    handover_diffs = diffs(play(static_member_handover())[1], "changed")
    *before, last = records(handover_diffs)
    others = handover_diffs[-1].unchanged
    assert others
    source = MemorySource()
    source.put(*before)
    with served_page(browser, tmp_path, source) as (_, page):
        page.locator(".grid-row:not([hidden]) a").get_by_text("g", exact=True).click()
        expect(page.locator(".round")).to_have_count(len(before))
        expect(page.locator(".members li")).to_have_count(0)
        source.put(last)
        expect(page.locator(".round")).to_have_count(len(handover_diffs))
        page.locator(".round > button").first.click()
        expect(page.locator(".round[data-selected] .diff")).to_contain_text(f"… {others} other members unchanged")
        expect(page.locator(".round[data-selected] .diff tbody tr")).to_have_count(len(handover_diffs[-1].members))
        page.reload()
        expect(page.locator(".round")).to_have_count(len(handover_diffs))


def test_empty_tables_explain_the_next_step(browser: Browser, tmp_path: Path) -> None:
    source = MemorySource()
    with served_page(browser, tmp_path, source) as (feed, page):
        nothing = page.locator(".nothing")
        expect(nothing).to_contain_text("No consumer group yet, and no heartbeat of a collector")
        expect(nothing.locator("code").first).to_have_text("rebalance-monitor run")
        expect(page.locator(".grid")).to_be_hidden()
        source.put(*records(Group("orders", {"t": 6}, 1).diffs(1)))
        expect(nothing).to_be_hidden()
        name = page.get_by_label("Filter groups by name or member")
        expect(name).to_be_visible()
        page.keyboard.press("/")
        expect(name).to_be_focused()
        page.keyboard.type("none/")
        expect(name).to_have_value("none/")
        expect(nothing).to_have_text("No group matches the filters.")
        page.goto(f"{feed.server.address}/?cluster={source.cluster_id}")
        expect(page.locator(".count")).to_have_text("1 group")


def test_times_are_local_with_their_zone_or_utc(browser: Browser, tmp_path: Path) -> None:
    source = MemorySource()
    text = "Rolling restart of 3 members 2023-11-14 22:13–22:15 UTC. Waiting since 22:13:22."
    episode = replace(
        episode_updates(checkout_group("shop"))[-1], story=text, opened_at=START_MS + 3_000, closed_at=START_MS + 93_000
    )
    source.put(*records(Group("shop", {"t": 6}, 1).diffs(1)))
    source.put(story(replace(episode, updated_at=START_MS + 93_000, rounds=[])))
    with served_page(browser, tmp_path, source, "/groups/shop", timezone="Asia/Tokyo") as (_, page):
        band = page.locator(".band[data-episode]").first
        expect(band.locator(".story")).to_have_text(
            "Rolling restart of 3 members 2023-11-15 07:13–07:15. Waiting since 07:13:22."
        )
        expect(band.locator(".when").first).to_have_text("15 Nov 07:13:23 – 07:14:53")
        expect(page.locator("#zone")).to_have_text("UTC+9")
        page.locator("#zone").click()
        expect(page.locator("#zone")).to_have_text("UTC")
        expect(band.locator(".story")).to_have_text(text)
        expect(band.locator(".when").first).to_have_text("14 Nov 22:13:23 – 22:14:53")
