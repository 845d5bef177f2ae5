"""The feed under load, and the page over a large history: ``make bench-feed``.

One embedded broker, one `serve` process, clients in a third process, Chromium for the page.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from streaming.kafka.broker import EmbeddedBroker
from tests.support.browser import chromium
from tests.support.diffs import Group, diffs
from tests.support.load import Load, rss, run_load
from tests.support.serving import Publisher, Serve


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
    options = parser.parse_args()
    print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, seeds fixed")
    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as folder:
        if options.only != "large":
            load(broker.bootstrap_servers, Path(folder), options)
        if options.only != "load":
            large(broker.bootstrap_servers, Path(folder), options)


def load(bootstrap_servers: str, folder: Path, options: argparse.Namespace) -> None:
    rows: list[tuple[str, int, bool]] = [
        ("undisturbed", 0, False),
        (f"{options.stuck} stuck", options.stuck, False),
    ]
    rows.append((f"{options.stuck} stuck, restart", options.stuck, True))
    print(f"\n{options.clients} clients, {options.rate:g} diffs/s, {options.seconds:g} s")
    for index, (name, stuck, restarted) in enumerate(rows):
        with Serve(bootstrap_servers, f"load{index}.", _folder(folder, f"load{index}")) as serve:
            Publisher(serve)
            serve.start().await_status("/ready", 200)
            found = run_load(
                serve,
                clients=options.clients,
                rate=options.rate,
                seconds=options.seconds,
                stuck=stuck,
                restart=_restart(serve) if restarted else None,
            )
            print(f"  {name:24} {_line(found, options.seconds)}")


def _restart(serve: Serve) -> Callable[[], None]:
    def restart() -> None:
        serve.stop()
        serve.start()

    return restart


def _line(found: Load, seconds: float) -> str:
    every = (
        "every id once" if found.complete == found.clients and not found.twice else dataclasses.asdict(found)
    )
    return (
        f"{every}; delivery p50 {found.p50:.0f} ms, p99 {found.p99:.0f} ms, worst {found.worst:.0f} ms; "
        f"memory {found.rss_before:.0f} → {found.rss_most:.0f} MB; CPU {found.cpu_seconds / seconds:.0%} of a core"
    )


def _folder(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir()
    return folder


def large(bootstrap_servers: str, folder: Path, options: argparse.Namespace) -> None:
    print(
        f"\n{options.groups} groups of 3 rounds, and one of {options.partitions} partitions and "
        f"{options.rounds} rounds"
    )
    with Serve(bootstrap_servers, "large.", _folder(folder, "large")) as serve:
        publisher = Publisher(serve)
        for index in range(options.groups - 1):
            publisher.put(diffs(Group(f"group-{index:04}", {"events": 12}, index), 3))
        publisher.put(diffs(Group("large", {"large.events": options.partitions}, 1), options.rounds))
        begin = time.monotonic()
        serve.start().await_status("/ready", 200, seconds=120)
        print(f"  read from the topics in {time.monotonic() - begin:.1f} s")
        times = {
            path: [_ask(serve, path) for _ in range(20)]
            for path in (
                "/api/groups",
                "/api/groups/large/timeline?limit=300",
                "/api/groups/large/timeline?limit=2000",
            )
        }
        for path, taken in times.items():
            print(f"  {path}: median {statistics.median(taken):.0f} ms, worst {max(taken):.0f} ms")
        _paint(serve)
        files = sum(path.stat().st_size for path in serve.log.parent.glob("history.sqlite*"))
        print(f"  server memory {rss(serve.pid):.0f} MB, history {files / 2**20:.0f} MB")


def _ask(serve: Serve, path: str) -> float:
    begin = time.perf_counter()
    serve.ask(path)
    return (time.perf_counter() - begin) * 1000


#: Set before the page's own code runs: when the first row or the first ownership bar is on the screen.
_WATCH = """
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


def _paint(serve: Serve) -> None:
    with chromium() as browser:
        for path in ("/", "/groups/large"):
            paints, shown = [], []
            for _ in range(5):
                context = browser.new_context(viewport={"width": 1440, "height": 900})
                page = context.new_page()
                page.add_init_script(_WATCH)
                page.goto(serve.url + path)
                shown.append(page.evaluate("window.shown"))
                paints.append(
                    page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
                )
                context.close()
            print(
                f"  page {path}: first paint {statistics.median(paints):.0f} ms, data on the screen "
                f"{statistics.median(shown):.0f} ms (worst {max(shown):.0f})"
            )


if __name__ == "__main__":
    main()
