"""Measures the feed under load, and the page over a large history: ``make bench-feed``.

One embedded broker, one `serve` process, clients in a third process, Chromium for the page.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks._document import describe_machine, table, write_section
from streaming.kafka.broker import EmbeddedBroker
from tests.support.browser import chromium
from tests.support.histories import Group
from tests.support.load import rss, run_load
from tests.support.serving import Publisher, ServeProcess


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--stuck", type=int, default=20)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--only", choices=["load", "large"])
    parser.add_argument("--document", action="store_true", help="write the results to docs/benchmarks.md")
    options = parser.parse_args()
    parts = ["## Feed and page", f"{describe_machine()}; broker, clients and browser on the same machine; seeds fixed."]
    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as folder:
        if options.only != "large":
            parts.append(measure_load(broker.bootstrap_servers, Path(folder), options))
        if options.only != "load":
            parts.append(measure_large_history(broker.bootstrap_servers, Path(folder), options))
    text = "\n\n".join(parts)
    print(text)
    if options.document:
        write_section("feed", text)


def measure_load(bootstrap_servers: str, folder: Path, options: argparse.Namespace) -> str:
    cases: list[tuple[str, int, bool]] = [
        ("undisturbed", 0, False),
        (f"and {options.stuck} that stop reading", options.stuck, False),
        ("and a restart half-way", options.stuck, True),
    ]
    rows = []
    for index, (name, stuck_clients, has_restart) in enumerate(cases):
        with ServeProcess(bootstrap_servers, f"load{index}.", _folder(folder, f"load{index}")) as serve:
            Publisher(serve)
            serve.start().await_status("/ready", 200)
            result = run_load(
                serve,
                clients=options.clients,
                rate=options.rate,
                seconds=options.seconds,
                stuck=stuck_clients,
                restart=_restart_on_request(serve) if has_restart else None,
            )
        complete = result.complete == result.clients and not result.repeated_count
        rows.append(
            [
                name,
                "yes" if complete else f"NO: {result.complete} complete, {result.repeated_count} twice",
                *(f"{value:.0f}" for value in (result.median_ms, result.percentile_99_ms, result.max_delay_ms)),
                f"{result.rss_mb_before:.0f} → {result.max_rss:.0f}",
                f"{result.cpu_seconds / options.seconds:.0%}",
            ]
        )
    headings = ["", "every id once", "p50 ms", "p99 ms", "worst ms", "memory MB", "of a core"]
    sizes = f"{options.clients} clients, {options.rate:g} diffs a second, {options.seconds:g} s"
    note = "Delay from the publisher's send to the client's read; while the server is away it is left out."
    return f"{sizes}. {note}\n\n{table(headings, rows)}"


def _restart_on_request(serve: ServeProcess) -> Callable[[], None]:
    def restart() -> None:
        serve.stop()
        serve.start()

    return restart


def _folder(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir()
    return folder


def measure_large_history(bootstrap_servers: str, folder: Path, options: argparse.Namespace) -> str:
    with ServeProcess(bootstrap_servers, "large.", _folder(folder, "large")) as serve:
        publisher = Publisher(serve)
        for index in range(options.groups - 1):
            publisher.put(Group(f"group-{index:04}", {"events": 12}, index).diffs(3))
        publisher.put(Group("large", {"large.events": options.partitions}, 1).diffs(options.rounds))
        begin = time.monotonic()
        serve.start().await_status("/ready", 200, seconds=120)
        rows = [["read from the topics", f"{(time.monotonic() - begin) * 1000:.0f}", ""]]
        timeline = "/api/v1/groups/large/timeline"
        for path in ("/api/v1/groups", f"{timeline}?limit=300", f"{timeline}?limit=2000"):
            taken = [_request(serve, path) for _ in range(20)]
            rows.append([f"`{path}`", f"{statistics.median(taken):.0f}", f"{max(taken):.0f}"])
        rows += _measure_paint(serve)
        memory = rss(serve.pid)
        size = sum(path.stat().st_size for path in serve.log.parent.glob("history.sqlite*"))
    sizes = (
        f"{options.groups} groups, one of them of {options.partitions} partitions and {options.rounds} rounds: "
        f"server memory {memory:.0f} MB, history {size / 2**20:.0f} MB."
    )
    return f"{sizes}\n\n{table(['', 'median ms', 'worst ms'], rows)}"


def _request(serve: ServeProcess, path: str) -> float:
    begin = time.perf_counter()
    serve.ask(path)
    return (time.perf_counter() - begin) * 1000


#: Runs before the page's own code: records when the first row or ownership bar is on the screen.
_PAINT_TIMES_SCRIPT = """
window.shown = new Promise((resolve) => {
  const look = () => {
    const row = document.querySelector('.grid-row:not([hidden])');
    const rounds = document.querySelector('.round');
    if (row || rounds) requestAnimationFrame(() => resolve(performance.now()));
    else requestAnimationFrame(look);
  };
  look();
});
"""


def _measure_paint(serve: ServeProcess) -> list[list[str]]:
    rows = []
    with chromium() as browser:
        for path in ("/", "/groups/large"):
            paints, shown = [], []
            for _ in range(5):
                context = browser.new_context(viewport={"width": 1440, "height": 900})
                page = context.new_page()
                page.add_init_script(_PAINT_TIMES_SCRIPT)
                page.goto(serve.url + path)
                shown.append(page.evaluate("window.shown"))
                paints.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
                context.close()
            for name, seconds in (("first paint", paints), ("data on the screen", shown)):
                rows.append([f"page `{path}`: {name}", f"{statistics.median(seconds):.0f}", f"{max(seconds):.0f}"])
    return rows


if __name__ == "__main__":
    main()
