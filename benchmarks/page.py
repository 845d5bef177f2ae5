"""Measures requests, layout shift, paint times and frames a second of the page in Chromium: ``make bench-page``.

One server on the same machine serves generated groups; the results are medians of several loads. The frames are those
while the wheel zooms the ownership and the lag of one group, all of whose rounds the page has loaded.
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from msgspec import structs
from playwright.sync_api import Browser, Page, expect

from benchmarks._document import describe_machine, table, write_section
from streaming.kafka.lag_reader import GroupLag
from streaming.records.diffs import Diff
from streaming.serve.clusters import ServeOptions
from streaming.serve.history import Retention
from tests.support.browser import PAINT_SCRIPT, chromium, open_page
from tests.support.command import command
from tests.support.diff_episodes import updates
from tests.support.feed import MemorySource, diff_id, records, story
from tests.support.feed_server import running
from tests.support.histories import partitions_after
from tests.support.memory_server import generated_group
from tests.support.wait import eventually

WINDOW_SIZES = {"1440": (1440, 900), "1024": (1024, 800), "390": (390, 844), "1440 at 200 %": (720, 450)}
PAGE_VIEWS = {"overview": ("/", ".grid-row:not([hidden])"), "group": ("/groups/orders", ".members li")}
#: Turns of the wheel into one direction, with Ctrl: 77 times closer, then back.
_WHEEL_TURNS = 60
_WHEEL_PIXELS = 40
_FRAME_SECONDS = 1 / 60

#: Init script whose ``startFrames()`` records the frames from then on: [time of its begin, ms of the page's script].
FRAMES_SCRIPT = """
const requestFrame = window.requestAnimationFrame.bind(window);
let script = 0;
window.frames = [];
window.requestAnimationFrame = (work) => requestFrame((at) => {
  const begin = performance.now();
  work(at);
  script += performance.now() - begin;
});
let wheelAt = 0;
addEventListener("wheel", () => { wheelAt = performance.now(); }, { capture: true });
addEventListener("wheel", () => { script += performance.now() - wheelAt; });
window.startFrames = () => {
  window.frames = [];
  const record = (at) => {
    window.frames.push([at, script]);
    script = 0;
    requestFrame(record);
  };
  requestFrame(record);
};
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--loads", type=int, default=5)
    parser.add_argument("--partitions", type=int, default=200, help="partitions of the group that is zoomed")
    parser.add_argument("--points", type=int, default=5000, help="its rounds, and its samples of lag")
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds of zooming in and out")
    parser.add_argument("--zoom-only", action="store_true", help="measure the frames alone")
    parser.add_argument("--document", action="store_true", help="write the results to docs/benchmarks.md")
    options = parser.parse_args()
    zooming = zoom(options.partitions, options.points, options.seconds)
    print(zooming)
    if options.zoom_only:
        return
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        arguments = ("--database", str(Path(folder) / "h.sqlite"), "--stories", "--groups", str(options.groups))
        started = command(*arguments, module="tests.support.memory_server")
        with subprocess.Popen(started, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
            url = (server.stdout or sys.stdin).readline().split()[-1]
            rows = [
                (view, size, *(f"{statistics.median(of):.3g}" for of in zip(*loads, strict=True)))
                for view in PAGE_VIEWS
                for size in WINDOW_SIZES
                for loads in [[load(browser, url, view, size) for _ in range(options.loads)]]
            ]
            server.terminate()
    heads = ("view", "width", "requests", "layout shift", "first paint, ms", "largest paint, ms")
    text = f"## Loading the page\n\n{describe_machine()}; {options.groups} groups of 40 rounds.\n\n{table(heads, rows)}"
    text += f"\n\n{zooming}"
    print(text)
    if options.document:
        write_section("Loading the page", text)


def load(browser: Browser, url: str, view: str, size: str) -> tuple[float, float, float, float]:
    """Open a view of the page in a new browser context; return requests, layout shift, first and largest paint (ms)."""
    path, shown = PAGE_VIEWS[view]
    width, height = WINDOW_SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height})
    context.add_init_script(PAINT_SCRIPT)
    page = context.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(f"{url}{path}")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    expect(page.locator(shown).first).to_be_visible()
    page.wait_for_timeout(500)  # later layout shifts would count
    paints = page.evaluate("paints")
    context.close()
    return len(requests), paints["shift"], paints["firstMs"], paints["largestMs"]


def zoom(partitions: int, points: int, seconds: float) -> str:
    """Return a line with the frames a second while the wheel zooms a group with all its rounds, and lag samples."""
    group = generated_group(0, partitions - partitions // 5)
    diffs = group.diffs(points)
    shift = int(time.time() * 1000) - diffs[-1].timestamp
    diffs = [structs.replace(diff, timestamp=diff.timestamp + shift) for diff in diffs]
    numbered = [(diff_id(diff), diff) for diff in diffs]
    episodes = {episode.episode: episode for episode in updates(group.group_id, numbered)}
    source = MemorySource()
    source.put(*records(diffs))
    source.put(*(story(episode, offset=offset) for offset, episode in enumerate(episodes.values())))
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        options = ServeOptions(Path(folder) / "h.sqlite", port=0, limits=Retention(2**50, 2**40))
        with running(options, source) as feed:
            feed.lags[group.group_id] = lag_of(diffs, points)
            eventually(
                lambda: [served["rounds"] for served in feed.get("/api/v1/groups")["groups"]] == [points], every=0.5
            )
            page = open_page(browser, "about:blank").page
            page.add_init_script(FRAMES_SCRIPT)
            page.goto(f"{feed.server.address}/groups/{group.group_id}")
            load_rounds(page, points)
            frames, cpu_ms = wheel(page, seconds)
            page.context.close()
    pauses = [after - before for (before, _), (after, _) in itertools.pairwise(frames)]
    scripts = sorted(script for _, script in frames[1:])
    return (
        f"Zooming {partitions} partitions × {points} rounds, {len(episodes)} episodes and {points} samples of lag by "
        f"wheel for {seconds:g} s: {1000 * len(pauses) / sum(pauses):.1f} frames a second, worst {max(pauses):.0f} ms; "
        f"script of a frame: median {statistics.median(scripts):.1f} ms, worst {scripts[-1]:.1f} ms; processor time of "
        f"a frame: script {cpu_ms['ScriptDuration'] / len(pauses):.1f} ms, main thread "
        f"{cpu_ms['TaskDuration'] / len(pauses):.1f} ms. {describe_machine()}, load {os.getloadavg()[0]:.0f}."
    )


def lag_of(diffs: Sequence[Diff], samples: int) -> GroupLag:
    """Return a group's lag from its first to its last round."""
    rng, begin, end = Random(1), diffs[0].timestamp, diffs[-1].timestamp
    times = [begin + (end - begin) * number // (samples - 1) for number in range(samples)]
    owned = partitions_after(diffs[-1]).values()
    topics = {topic for share in owned for topic in share}
    partitions: dict[str, dict[str, int | None]] = {
        topic: {str(number): rng.randrange(1000) for share in owned for number in share.get(topic, [])}
        for topic in sorted(topics)
    }
    total = sum(lag or 0 for lags in partitions.values() for lag in lags.values())
    return GroupLag(end, total, partitions, (*((at, rng.randrange(2 * total)) for at in times[:-1]), (end, total)))


def load_rounds(page: Page, rounds: int) -> None:
    """Zoom out until the page has loaded all rounds of its group."""
    chart, count = page.locator(".stage canvas"), page.locator(".rounds header .num")
    while f"{rounds:,} rounds" not in count.inner_text():  # a page that connects again begins with the newest
        chart.press("-")
        page.wait_for_timeout(200)
    for _ in range(20):
        chart.press("-")
    page.wait_for_timeout(1000)


def wheel(page: Page, seconds: float) -> tuple[list[tuple[float, float]], dict[str, float]]:
    """Zoom in and out; return each frame's time and script duration, and the page's processor times, all in ms."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def cpu_ms() -> dict[str, float]:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return {metric["name"]: 1000 * metric["value"] for metric in metrics}

    chart = page.locator(".stage canvas")
    chart.scroll_into_view_if_needed()
    left, top, width, height = chart.evaluate("one => Object.values(one.getBoundingClientRect().toJSON()).slice(0, 4)")
    page.mouse.move(left + 0.6 * width, top + 0.5 * height)
    page.keyboard.down("Control")
    page.evaluate("startFrames()")
    before, begin = cpu_ms(), time.monotonic()
    for turn in itertools.count():
        if time.monotonic() > begin + seconds:
            break
        page.mouse.wheel(0, _WHEEL_PIXELS if turn // _WHEEL_TURNS % 2 else -_WHEEL_PIXELS)
        time.sleep(max(0.0, begin + (turn + 1) * _FRAME_SECONDS - time.monotonic()))
    frames, after = page.evaluate("frames"), cpu_ms()
    page.keyboard.up("Control")
    return [(at, script) for at, script in frames], {name: after[name] - before[name] for name in before}


if __name__ == "__main__":
    main()
