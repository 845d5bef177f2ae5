"""Use of the page (filters, sorting, zoom, keys, links, the token) over generated groups, without a broker."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.support.browser import WIDE_ELEMENTS_SCRIPT, open_page
from tests.support.command import command

pytestmark = pytest.mark.browser

PAGE = Path(__file__).parents[2] / "streaming" / "serve" / "page"


@contextmanager
def run_page_server(folder: Path, *options: str) -> Iterator[str]:
    started = command("--database", str(folder / "h.sqlite"), *options, module="tests.support.memory_server")
    with subprocess.Popen(started, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with run_page_server(tmp_path_factory.mktemp("page"), "--groups", "120", "--rounds", "30") as url:
        yield url


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    watched = open_page(browser, "about:blank")
    watched.page.goto(url)
    expect(watched.page.locator("#live")).to_have_attribute("data-state", "live")
    watched.requested_origins.discard("about://")
    yield watched.page
    assert watched.errors == []
    assert watched.requested_origins == {url}
    watched.page.context.close()


def names(page: Page) -> list[str]:
    return page.locator(".grid-row:not([hidden]) .name").all_inner_texts()


def test_only_visible_rows_are_in_the_page(page: Page) -> None:
    expect(page.locator(".count")).to_have_text("120 groups")
    assert page.locator(".grid-row").count() < 60
    page.locator(".grid-body").evaluate("body => body.scrollTop = 1e6")
    expect(page.locator(".grid-row[aria-rowindex='120']")).to_be_visible()


def test_filters_and_order_are_in_the_address(page: Page, url: str) -> None:
    page.get_by_label("Filter groups by name or member").fill("ledger")
    page.get_by_role("button", name="Rounds", exact=True).click()
    expect(page.locator(".count")).to_have_text(re.compile(r"^15 of 120"))
    assert page.url == f"{url}/?q=ledger&sort=-rounds"
    page.get_by_label("All causes").select_option("member.fenced")
    shown = names(page)
    second_page = page.context.new_page()
    second_page.goto(page.url)
    expect(second_page.locator(".count")).to_have_text(page.locator(".count").inner_text())
    assert sorted(names(second_page)) == sorted(shown)
    assert second_page.locator("[aria-sort=descending]").inner_text().startswith("Rounds")


def test_kind_filter_lists_groups_of_that_kind(page: Page, url: str) -> None:
    page.get_by_label("All kinds").select_option("streams")
    expect(page.locator(".count")).to_have_text("15 of 120 groups")
    assert page.url == f"{url}/?kind=streams"
    shown = page.locator(".grid-row:not([hidden]) [data-column=kind]").all_inner_texts()
    assert set(shown) == {"streams"}
    page.reload()
    expect(page.get_by_label("All kinds")).to_have_value("streams")
    expect(page.locator(".count")).to_have_text("15 of 120 groups")


def test_members_have_display_names_and_ids_in_tooltips(page: Page, url: str) -> None:
    page.goto(f"{url}/groups/orders")
    display_name = re.compile(r"^orders-app \(10\.1\.0\.\d+\)")
    expect(page.locator(".round .cause").first).to_have_text(re.compile(r"orders-app|partitions changed"))
    name_chips = page.locator(".round .who .chip[title]")
    expect(name_chips.first).to_have_text(display_name)
    expect(name_chips.first).to_have_attribute("title", re.compile(r"^orders-\d+$"))
    expect(page.locator(".legend button[title]").first).to_have_text(display_name)
    page.locator(".round > button").first.click()
    cell = page.locator(".round[data-selected] .diff td:first-child").first
    expect(cell).to_have_text(re.compile(display_name.pattern + r" orders-\d+"))


def test_round_opens_from_the_groups_table_and_by_its_link(page: Page) -> None:
    page.locator(".grid-row").first.click()
    expect(page.locator("h1")).to_have_text(re.compile(r"\w"))
    page.locator(".round > button").nth(3).click()
    expect(page.locator(".round[data-selected] .diff th")).to_have_text(
        ["Member", "Owned before", "Revoked", "Assigned", "Kept"]
    )
    link = page.url
    assert re.search(r"round=\d+", link)
    page.go_back()
    expect(page.locator(".overview")).to_be_visible()
    page.goto(link)
    expect(page.locator(".round[data-selected] .diff table")).to_be_visible()


def rows(page: Page) -> list[list[str]]:
    return [row.locator("td").all_inner_texts() for row in page.locator(".outlook tbody tr").all()]


def test_forecast_and_advice_are_shown_on_request(page: Page, url: str) -> None:
    page.goto(f"{url}/groups/orders-1")
    preview = page.get_by_role("region", name="Forecast and advice")
    expect(preview.locator(".segmented button")).to_have_count(4)
    restart, more, migration, advice = preview.locator(".segmented button").all()
    expect(preview.locator("table")).to_have_count(0)
    restart.click()
    expect(preview.get_by_role("status")).to_have_text(re.compile(r"^This rolling restart costs \d"))
    forecast = page.request.get(f"{url}/api/v1/groups/orders-1/forecast").json()
    assert preview.get_by_role("status").inner_text() == forecast["sentence"]
    assert [[row[0].removesuffix("now"), *row[1:5]] for row in rows(page)] == [
        [name, way["assignor"], *(str(way[what]) for what in ("rebalances", "roundCount", "moved"))]
        for name, way in zip(
            ["Eager", "Cooperative", "Static members", "KIP-848"], forecast["protocols"].values(), strict=True
        )
    ]
    own = preview.locator("tr[data-own]")
    expect(own).to_have_count(1)
    expect(own).to_contain_text(re.compile(f"^{forecast['now']}now", re.IGNORECASE))
    preview.locator("summary").click()
    assert preview.locator("li").all_inner_texts() == forecast["unsure"]
    members = len(page.request.get(f"{url}/api/v1/groups/orders-1").json()["assignment"]["members"])
    more.click()
    expect(preview.get_by_role("status")).to_have_text(re.compile(f"^Scaling to {members + 1} members costs "))
    migration.click()
    expect(preview.get_by_role("status")).to_have_text(re.compile(r"^Another assignor would move "))
    answers = page.request.get(f"{url}/api/v1/groups/orders-1/what-if").json()["answers"]
    assert [[row[1], row[3]] for row in rows(page)] == [
        [answer["assignor"], str(answer["moved"])] for answer in answers
    ]
    expect(migration).to_have_attribute("aria-pressed", "true")
    migration.click()
    expect(preview.locator("table")).to_have_count(0)
    expect(migration).to_have_attribute("aria-pressed", "false")
    page.goto(f"{page.url}?forecast=one-more-member")
    expect(preview.get_by_role("status")).to_have_text(re.compile(f"^Scaling to {members + 1} members costs "))
    advice.click()
    expect(preview.get_by_role("status")).to_have_text(
        re.compile(r"^(\d+ suggestions?, the worst first|The history .* no change)")
    )
    suggested_advice = page.request.get(f"{url}/api/v1/groups/orders-1/advice").json()["advice"]
    assert [row[0].lower() for row in rows(page)] == [advice_item["severity"] for advice_item in suggested_advice]
    page.set_viewport_size({"width": 390, "height": 844})
    restart.click()
    expect(preview.locator("table")).to_be_visible()
    assert page.evaluate(WIDE_ELEMENTS_SCRIPT) == []


def test_streams_groups_have_advice_and_no_forecast(page: Page, url: str) -> None:
    page.goto(f"{url}/groups/ml")
    expect(page.locator(".facts")).to_contain_text("streams")
    buttons = page.get_by_role("region", name="Forecast and advice").locator(".segmented button:visible")
    expect(buttons).to_have_text(["Suggested changes"])


def test_timeline_zooms_by_button_key_and_mouse(page: Page, url: str) -> None:
    page.goto(f"{url}/groups/orders?axis=rounds")
    expect(page.locator(".round")).not_to_have_count(0)
    before = page.locator(".range").inner_text()
    page.get_by_label("Zoom in").click()
    expect(page.locator(".range")).not_to_have_text(before)
    canvas = page.locator(".stage canvas")
    canvas.focus()
    page.keyboard.press("ArrowLeft")
    newest = page.locator(".round").first.get_attribute("data-seq")
    expect(page.locator(".round[data-selected]")).to_have_attribute("data-seq", newest or "")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".round[data-selected]")).not_to_have_attribute("data-seq", newest or "")
    expect(canvas).to_have_attribute("aria-valuetext", re.compile("moved"))
    bounds = canvas.bounding_box()
    assert bounds is not None
    page.mouse.move(bounds["x"] + bounds["width"] * 0.7, bounds["y"] + 60)
    expect(page.locator(".tip")).to_contain_text("orders.events / ")
    page.mouse.down()
    page.mouse.move(bounds["x"] + bounds["width"] * 0.9, bounds["y"] + 60)
    page.mouse.up()
    page.wait_for_url(re.compile(r"from="))


def test_a_phone_folds_rows_and_diffs_and_scrolls_down_only(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    row = page.locator(".grid-row:not([hidden])").first
    bounds = row.bounding_box()
    assert bounds is not None
    assert bounds["height"] > 50
    assert "moved" in page.evaluate("getComputedStyle(document.querySelector('.moved span'), '::after').content")
    page.locator(".grid-body").evaluate("body => body.scrollTop = 1e6")
    expect(page.locator(".grid-row[aria-rowindex='120']")).to_be_in_viewport()
    page.goto(f"{url}/groups/orders")
    page.locator(".round > button").first.click()
    cell = page.locator(".diff td[data-label='Owned before']:not([data-none])").first
    expect(cell).to_be_visible()
    assert page.evaluate(WIDE_ELEMENTS_SCRIPT) == []


UNNAMED_ELEMENTS = """() => [...document.querySelectorAll("button, a[href], input, select, canvas, [tabindex='0']")]
  .filter((one) => one.checkVisibility() && !one.closest("[aria-hidden=true]"))
  .filter((one) => !(one.ariaLabel || one.textContent.trim() || one.placeholder || one.labels?.length))
  .map((one) => one.outerHTML)"""


def test_page_elements_have_names_and_new_views_the_focus(page: Page) -> None:
    assert page.evaluate(UNNAMED_ELEMENTS) == []
    page.locator(".grid-row:not([hidden]) a").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_count(1)
    expect(page.locator("main")).to_be_focused()
    expect(page.locator("[data-loading]")).to_have_count(0)
    expect(page.locator(".round")).not_to_have_count(0)
    assert page.evaluate(UNNAMED_ELEMENTS) == []
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def test_chosen_theme_survives_a_reload(page: Page) -> None:
    page.get_by_label("Switch between light and dark").click()
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_unknown_group_is_reported_until_another_is_chosen(browser: Browser, url: str) -> None:
    watched = open_page(browser, f"{url}/groups/nobody")
    expect(watched.page.locator(".empty")).to_contain_text("Group not found")
    expect(watched.page.locator(".facts")).to_be_hidden()
    watched.page.goto(f"{url}/groups/order")
    watched.page.get_by_role("link", name="orders-1", exact=True).click()
    expect(watched.page.locator(".round")).not_to_have_count(0)
    expect(watched.page.locator(".empty")).to_have_count(0)
    watched.page.context.close()


def test_unknown_page_address_links_to_the_groups(browser: Browser, url: str) -> None:
    watched = open_page(browser, f"{url}/nothing")
    expect(watched.page.locator(".empty")).to_contain_text("No page has the address /nothing")
    watched.page.get_by_role("link", name="All groups").click()
    expect(watched.page.locator(".count")).to_have_text("120 groups")
    watched.page.context.close()


#: Requests whose first attempt fails, by the view that sends them.
FAILING_PATHS = ["/api/v1/stream", "/api/v1/rounds", "/groups/orders", "/timeline", "/episodes", "/incidents"]


def test_page_repeats_requests_aborted_by_a_network_change(browser: Browser, url: str) -> None:
    watched = open_page(browser, "about:blank")
    page = watched.page
    aborted_paths: set[str] = set()

    def abort_first_request(route: Route) -> None:
        path = urlsplit(route.request.url).path
        if path in aborted_paths:
            route.continue_()
        else:
            aborted_paths.add(path)
            route.abort("internetdisconnected")

    page.route(re.compile("/api/v1/"), abort_first_request)
    for path in ("/groups/orders", "/"):
        page.goto(f"{url}{path}")
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
        if path == "/":
            expect(page.locator(".activity li")).not_to_have_count(0)
            expect(page.locator(".grid-row:not([hidden])")).not_to_have_count(0)
        else:
            expect(page.locator(".round")).not_to_have_count(0)
            expect(page.locator(".members li")).not_to_have_count(0)
    assert {path for path in FAILING_PATHS if not any(address.endswith(path) for address in aborted_paths)} == set()
    page.context.close()


def test_token_is_requested(browser: Browser, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef0123")
    token.chmod(0o600)
    with run_page_server(tmp_path, "--groups", "3", "--token-file", str(token)) as url:
        watched = open_page(browser, url)
        field = watched.page.get_by_label("Access token").and_(watched.page.locator("input"))
        field.fill("not-the-token-at-all")
        field.press("Enter")
        expect(watched.page.locator("dialog[open]")).to_contain_text("was not accepted")
        field.fill(token.read_text())
        field.press("Enter")
        expect(watched.page.locator("#live")).to_have_attribute("data-state", "live")
        expect(watched.page.locator(".count")).to_have_text("3 groups")
        watched.page.context.close()


OWNERSHIP = """async (group) => {
  const { Ownership } = await import("/modules/components/timeline/model.js");
  const { Owners } = await import("/modules/core/owners.js");
  const owners = new Owners();
  const pages = new Ownership(owners);
  const live = new Ownership(new Owners());
  let cursor = "";
  do {
    const where = `/api/v1/groups/${group}/timeline?limit=7${cursor && `&cursor=${cursor}`}`;
    const page = await (await fetch(where)).json();
    pages.load(page);
    cursor = page.next;
  } while (cursor);
  const { rounds } = await (await fetch(`/api/v1/groups/${group}/rounds?limit=500`)).json();
  for (const round of rounds.reverse()) live.append(round);
  const { assignment } = await (await fetch(`/api/v1/groups/${group}`)).json();
  const told = (model) => {
    const ids = [...model.owners.index.keys()];
    const found = {};
    for (const { topic, number, owners } of model.partitions) {
      if (owners.at(-1) >= 0) ((found[ids[owners.at(-1)]] ??= {})[topic] ??= []).push(number);
    }
    return found;
  };
  const held = Object.fromEntries(Object.entries(assignment.members).filter(([, one]) => Object.keys(one).length));
  return [told(pages), told(live), held];
}"""


def test_timeline_draws_history_and_live_rounds(browser: Browser, url: str) -> None:
    page = browser.new_page(bypass_csp=True)
    page.route("**/modules/**", lambda route: route.fulfill(path=PAGE / route.request.url.partition("/modules/")[2]))
    page.goto(url)
    for group in ("orders", "payments", "ml", "ledger-1"):
        pages, live, owner_names = page.evaluate(OWNERSHIP, group)
        assert pages == live == owner_names
    page.close()
