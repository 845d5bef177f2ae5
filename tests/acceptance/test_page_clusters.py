"""The page over several clusters: the choice in the header, links that keep the cluster, and clusters that are away."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NoReturn

import pytest
from playwright.sync_api import Browser, Page, expect

from assignors.errors import OutsideFailure
from streaming.serve.clusters import Cluster
from tests.support.axe import violations
from tests.support.browser import WIDE_ELEMENTS_SCRIPT, open_page
from tests.support.feed import MemorySource, records
from tests.support.feed_server import RunningServer, running, served_cluster
from tests.support.histories import Group
from tests.support.served_page import page_options
from tests.support.wait import eventually

pytestmark = pytest.mark.browser


def source(cluster_id: str, *group_ids: str) -> MemorySource:
    source = MemorySource(cluster_id=cluster_id)
    for number, group_id in enumerate(group_ids):
        source.put(*records(Group(group_id, {"t": 6}, 1).diffs(4), start=4 * number))
    return source


def fail() -> NoReturn:
    raise OutsideFailure("broker asia:9092 does not answer")


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("clusters")
    options = page_options(folder)
    american = source("c-2", "us-orders", "us-mail")
    others = [
        served_cluster(american, replace(options, history=folder / "us.sqlite"), name="us"),
        Cluster(fail, replace(options, history=folder / "asia.sqlite"), name="asia"),
    ]
    with running(options, source("c-1", "eu-orders"), name="eu", further_clusters=others) as feed:

        def ready() -> list[bool]:
            return [cluster["ready"] for cluster in feed.get("/api/v1/clusters")["clusters"]]

        eventually(lambda: ready() == [True, True, False])
        eventually(lambda: "asia:9092" in feed.get("/clusters/asia/api/v1/groups")["detail"])
        yield feed


@pytest.fixture
def page(browser: Browser, feed: RunningServer) -> Iterator[Page]:
    watched = open_page(browser, feed.server.address)
    yield watched.page
    # Chromium reports the 503 of the cluster that is away, and the 404 of an unknown one.
    assert [error for error in watched.errors if "Failed to load resource" not in error] == []
    watched.page.context.close()


def shown(page: Page) -> list[str]:
    return page.locator(".grid-row:not([hidden]) .name").all_inner_texts()


def test_another_cluster_is_chosen_in_the_header(page: Page, feed: RunningServer) -> None:
    url, choice = feed.server.address, page.get_by_label("Cluster", exact=True)
    expect(page.locator(".count")).to_have_text("1 group")
    expect(choice).to_have_value("eu")
    expect(choice.locator("option")).to_have_text(["eu", "us", "asia (not ready)"])
    expect(page.locator("#cluster")).to_be_hidden()
    choice.select_option("us")
    expect(page.locator(".count")).to_have_text("2 groups")
    expect(choice).to_have_value("us")
    assert page.url == f"{url}/?cluster=us"
    assert sorted(shown(page)) == ["us-mail", "us-orders"]
    page.get_by_label("Filter groups by name or member").fill("mail")
    expect(page).to_have_url(f"{url}/?cluster=us&q=mail")
    page.locator(".grid-row:not([hidden]) a").first.click()
    expect(page.locator("h1")).to_have_text("us-mail")
    expect(page).to_have_url(f"{url}/groups/us-mail?cluster=us")
    expect(page.locator(".round")).to_have_count(4)
    page.reload()
    expect(page.locator(".round")).to_have_count(4)
    hrefs = page.locator("a[data-link]").evaluate_all("links => links.map((link) => link.getAttribute('href'))")
    assert [href for href in hrefs if "cluster=us" not in href] == []
    page.keyboard.press("Control+k")
    page.get_by_label("Search groups, members, topics and partitions").fill("us-orders")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{url}/groups/us-orders?cluster=us")
    page.locator(".brand").click()
    expect(page.locator(".count")).to_have_text("2 groups")
    expect(page.locator("aside a[data-link]").first).to_be_visible()
    hrefs = page.locator("aside a[data-link]").evaluate_all("links => links.map((link) => link.getAttribute('href'))")
    assert [href for href in hrefs if "cluster=us" not in href] == []
    choice.select_option("eu")
    expect(page.locator(".count")).to_have_text("1 group")
    page.go_back()
    expect(page.locator(".count")).to_have_text("2 groups")
    expect(choice).to_have_value("us")


def test_a_cluster_that_is_away_is_reported(page: Page, feed: RunningServer) -> None:
    page.goto(f"{feed.server.address}/?cluster=asia")
    warning = page.locator("#stale")
    expect(warning).to_have_text(re.compile(r"^cluster asia: broker asia:9092 does not answer since [\d: \w]+\."))
    expect(page.locator("h1:visible")).to_have_text("Not connected")
    page.get_by_label("Cluster", exact=True).select_option("us")
    expect(page.locator(".count")).to_have_text("2 groups")
    expect(warning).to_be_hidden()


def test_an_unknown_cluster_is_reported(page: Page, feed: RunningServer) -> None:
    page.goto(f"{feed.server.address}/groups/us-mail?cluster=africa")
    expect(page.locator("h1")).to_have_text("No such cluster")
    expect(page.locator("#view")).to_contain_text("The server has eu, us, asia.")
    expect(page.locator("#live, #search").filter(visible=True)).to_have_count(0)
    page.get_by_role("link", name="All groups").click()
    expect(page.locator(".count")).to_have_text("1 group")
    assert page.url == f"{feed.server.address}/"


@pytest.mark.parametrize(("theme", "width"), [("light", 1440), ("dark", 390)])
def test_axe_finds_no_violations_with_several_clusters(page: Page, feed: RunningServer, theme: str, width: int) -> None:
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    page.set_viewport_size({"width": width, "height": 900})
    for path in ("/?cluster=us", "/groups/us-mail?cluster=us", "/?cluster=asia", "/?cluster=africa"):
        page.goto(f"{feed.server.address}{path}")
        expect(page.get_by_label("Cluster", exact=True)).to_be_visible()
        if "=us" in path:
            expect(page.locator("#live")).to_have_attribute("data-state", "live")
        expect(page.locator("h1:visible")).to_have_count(1)
        assert violations(page) == []
        assert page.evaluate(WIDE_ELEMENTS_SCRIPT) == []
