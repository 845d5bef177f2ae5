"""A monitor under load and faults for as long as is asked: ``make soak MINUTES=30``.

An embedded broker, `collect`, `stream`, `serve` and clients of its feed, on this machine alone. Members of
thousands of groups come and go (:mod:`tests.soak.groups`) while each program is killed, the broker is restarted and
the disk of the history is full. At the end every diff that follows from the groups' changes has to be in the topic,
in the history and at each client, each once by its id. Exit status 0 says so, 1 that something is not as promised.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from benchmarks._document import TRUST, machine, put, table
from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.topics import ensure_topics
from streaming.wire.codec import ce_attributes
from streaming.wire.events import Event, GroupObserved
from tests.soak.figures import Recorder, Slope, slope, tree_bytes
from tests.soak.groups import PARTITIONS, TOPIC, Traffic
from tests.support.command import Running
from tests.support.disks import full, small_disk
from tests.support.kafka import PROPERTIES, eventually, read
from tests.support.monitor import Monitor, diff_ids, events, running_monitor, views
from tests.support.stream_job import processes_of

#: When what happens, as a share of the time; what is measured at rest begins after the last.
_SCHEDULE = {"collect": 0.15, "stream": 0.22, "serve": 0.29, "broker": 0.36, "disk": 0.43}
_REST = 0.55
_FULL_SECONDS = 15.0
_KEEP_MIB = 16
#: What a busy machine may take for what is not measured.
_PATIENCE = 600.0
_PREFIX = "soak."
#: What a JVM takes is bounded by its heap, and grows into it.
_HEAPS = ("broker", "stream: JVM")
#: Another process whose memory surely grows by more than this, MB an hour, is not flat.
_FLAT = 60.0


class Crowd(threading.Thread):
    """The clients' process, and what it told last; a context manager."""

    def __init__(self, port: int, clients: int) -> None:
        super().__init__(daemon=True)
        self.told: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.crowd", str(port), str(clients)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.told.append(json.loads(line))

    @property
    def last(self) -> dict[str, Any]:
        return self.told[-1] if self.told else {"fewest": 0, "newest": 0, "worst": 0.0, "twice": 0, "ids": 0}

    def end(self) -> dict[str, Any]:
        """The last word, with the ids."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        self._process.wait(60)
        self.join()
        return self.last

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


@dataclass
class Recovery:
    """A fault, and the seconds from its end until the clients had what was new, and had it as fast as before."""

    fault: str
    new: float | None = None
    usual: float | None = None

    def __str__(self) -> str:
        return " and ".join("?" if one is None else f"{one:.0f} s" for one in (self.new, self.usual))


@dataclass
class Soak:
    """One soak; ``wrong`` says what is not as promised."""

    options: argparse.Namespace
    monitor: Monitor
    disk: Path | None
    traffic: Traffic
    crowd: Crowd
    recorder: Recorder
    begin: float = field(default_factory=time.monotonic)
    rest: float = 0.0
    recoveries: list[Recovery] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return float(self.options.minutes * 60)

    def say(self, text: str) -> None:
        last = self.crowd.last
        show(
            f"{time.monotonic() - self.begin:6.0f} s  {text}; changes {len(self.traffic.acknowledged)}, "
            f"diffs at every client {last['fewest']}, delay {last['worst'] / 1000:.1f} s"
        )

    def until(self, share: float, what: str = "load") -> None:
        """Let it run until so much of the time has gone by."""
        while (left := self.begin + share * self.seconds - time.monotonic()) > 0:
            self.say(what)
            time.sleep(min(left, 15))

    def disturb(self) -> None:
        """All faults, one after the other."""
        faults: dict[str, tuple[str, Callable[[], None]]] = {
            "collect": ("SIGKILL of collect", lambda: restart(self.monitor.collect)),
            "stream": ("SIGKILL of stream", lambda: restart(self.monitor.stream)),
            "serve": ("SIGKILL of serve", lambda: restart(self.monitor.serve)),
            "broker": ("the broker restarted", lambda: void(self.monitor.broker.restart())),
            "disk": (f"the history's disk full for {_FULL_SECONDS:.0f} s", self._fill),
        }
        ends = [*_SCHEDULE.values(), _REST][1:]
        for (name, share), end in zip(_SCHEDULE.items(), ends, strict=True):
            if name == "disk" and self.disk is None:
                continue
            self.until(share)
            usual = max(3 * statistics.median(one["worst"] for one in self.crowd.told[-30:]), 5000.0)
            fault, act = faults[name]
            self.say(fault)
            act()
            by = self.begin + end * self.seconds
            self.recoveries.append(self._recovered(fault, time.time(), usual, by))

    def _fill(self) -> None:
        assert self.disk is not None
        with full(self.disk):
            self.monitor.says("history-blocked", _PATIENCE)
            time.sleep(_FULL_SECONDS)

    def _recovered(self, fault: str, healed: float, usual: float, by: float) -> Recovery:
        """Waits for what is new, and until ``by`` for it to come within ``usual`` ms again."""
        found = Recovery(fault)

        def new() -> bool:
            return bool(self.crowd.last["newest"] >= healed * 1000)

        def fast() -> bool:
            return 0 < self.crowd.last["worst"] <= usual

        try:
            eventually(new, timeout=_PATIENCE, every=0.2)
            found.new = self.crowd.last["at"] - healed
            eventually(fast, timeout=max(0.0, by - time.monotonic()), every=0.2)
            found.usual = self.crowd.last["at"] - healed
        except AssertionError:
            if found.new is None:
                self.wrong.append(f"{fault}: nothing new at the clients in {_PATIENCE:.0f} s")
        self.say(f"{fault}: recovered after {found}")
        return found

    def check(self) -> dict[str, Any]:
        """Wait for what is on its way, and compare ids; returns the figures."""
        servers, topics = self.monitor.servers, self.monitor.serve.settings.topics
        self.say("waiting for the membership log")
        log = self._whole_log()
        wanted = Counter(diff_ids(log))
        self.say(f"{len(wanted)} diffs follow from {len(log)} events")

        def arrived() -> bool:
            served = self.monitor.metrics()["rebalance_monitor_feed_rounds_total", ""]
            return served >= len(wanted) and self.crowd.last["fewest"] >= len(wanted)

        try:
            eventually(arrived, timeout=_PATIENCE, every=1)
        except AssertionError:
            self.wrong.append("not every diff has arrived")
        written = Counter(
            ce_attributes(one.headers()).get("id")
            for one in read(servers, topics.diffs)
            if one.error() is None
        )
        served, history = self.monitor.metrics(), self.monitor.ids()
        last = self.crowd.end()
        self._same("topic", set(written), set(wanted))
        self._same("history", {*history} - {*wanted}, set())
        self._same("clients", set(last["all"]), set(wanted))
        rounds = int(served["rebalance_monitor_feed_rounds_total", ""])
        checks = {
            "a diff id twice in the log's replay": max(wanted.values()) - 1,
            "rounds stored more or less than diffs": rounds - len(wanted),
            "a round twice in the history": len(history) - len({*history}),
            "diffs missing at a client": len(wanted) - last["fewest"],
            "diffs twice at a client": last["twice"],
            "clients told that rounds are gone": last["resets"],
        }
        self.wrong += [f"{what}: {number}" for what, number in checks.items() if number]
        return {
            "events": len(log),
            "diffs": len(wanted),
            "again": sum(written.values()) - len(written),
            "rounds": rounds,
            "kept": len(history),
            "wrong": len(self.wrong),
        }

    def _whole_log(self) -> list[Event]:
        """The membership log once it shows every change that the coordinator confirmed, and what another collector
        makes of the same records.
        """
        servers, name = self.monitor.servers, self.monitor.membership
        confirmed = {*self.traffic.acknowledged}
        log: list[Event] = []

        def whole() -> bool:
            log[:] = events(servers, name)
            return confirmed <= generations(log)

        try:
            eventually(whole, timeout=_PATIENCE, every=5)
        except AssertionError:
            lacking = sorted(confirmed - generations(log))
            self.wrong.append(f"{len(lacking)} confirmed generations not collected, as {lacking[:3]}")
        self.say("asking another collector")
        again = self.monitor.undisturbed_views(_PATIENCE)
        seen = views(servers, name)
        self._same("views", {one.id for one in seen}, {one.id for one in again})
        if seen != again:
            self.wrong.append("the membership log differs from what an undisturbed collector gives")
        return events(servers, name)

    def _same(self, where: str, found: set[Any], wanted: set[Any]) -> None:
        for what, ids in (("missing", wanted - found), ("too many", found - wanted)):
            if ids:
                self.wrong.append(f"{where}: {len(ids)} {what}, as {sorted(map(str, ids))[:3]}")


def generations(log: list[Event]) -> set[tuple[str, int]]:
    """Group and generation of each view."""
    return {
        (event.data.group_id, event.data.generation or 0)
        for event in log
        if isinstance(event.data, GroupObserved)
    }


def restart(part: Running) -> None:
    """SIGKILL, and at once a new start."""
    part.kill()
    part.start()


def rounded(seconds: float | None) -> str:
    """As a cell of a table."""
    return "not before the next fault" if seconds is None else f"{seconds:.0f}"


def show(text: str) -> None:
    """To whoever watches."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def void(_: object) -> None:
    """Nothing."""


@contextmanager
def soak(options: argparse.Namespace, folder: Path) -> Iterator[Soak]:
    """All parts, at work."""
    from confluent_kafka.admin import AdminClient, NewTopic

    with ExitStack() as stack:
        disk = stack.enter_context(small_disk(folder / "disk", 8 * _KEEP_MIB))
        broker = stack.enter_context(
            EmbeddedBroker(
                data_dir=folder / "kafka",
                properties={**PROPERTIES, "group.max.session.timeout.ms": str(24 * 3600 * 1000)},
            )
        )
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(20)
        monitor = stack.enter_context(running_monitor(broker, folder, _PREFIX, history=disk, buckets=16))
        monitor.collect.command += ["--include-group", "soak-.*"]
        restart(monitor.collect)
        ensure_topics(monitor.serve.settings)
        monitor.serve.command += ["--keep-mib", str(_KEEP_MIB)]
        monitor.serve.start()
        recorder = Recorder(
            {
                "broker": lambda: [broker.pid or 0],
                "collect": lambda: [monitor.collect.pid],
                "serve": lambda: [monitor.serve.pid],
                **{
                    f"stream: {name}": lambda part=part: processes_of(monitor.stream.pid)[part]
                    for name, part in (("driver", "driver"), ("JVM", "jvm"), ("workers", "worker"))
                },
            },
            {
                "checkpoint": lambda: tree_bytes(monitor.checkpoint),
                "history": lambda: tree_bytes(monitor.history.parent, f"{monitor.history.name}*"),
            },
        )
        crowd = stack.enter_context(Crowd(monitor.serve.port, options.clients))
        traffic = stack.enter_context(Traffic(broker.bootstrap_servers, options.groups, options.rate))
        stack.enter_context(recorder)
        yield Soak(options, monitor, disk, traffic, crowd, recorder)


def report(run: Soak, figures: dict[str, Any], load: dict[str, float]) -> str:
    """The tables."""
    options = run.options
    lines = [
        "### Soak",
        (
            f"`make soak MINUTES={options.minutes:g}`, {time.strftime('%Y-%m-%d')}: {machine()}"
            f"{', ' + options.note if options.note else ''}. {options.groups} groups, {load['rate']:.1f} "
            f"membership changes a second ({options.rate:g} asked for), {options.clients} clients of the feed."
        ),
        table(
            ["by id", "number"],
            [
                ["membership changes that the coordinator confirmed", str(int(load["changes"]))],
                ["events in the membership log", str(figures["events"])],
                ["diffs that follow from it", str(figures["diffs"])],
                ["records that the topic holds twice, with the same id", str(figures["again"])],
                ["rounds that `serve` stored", str(figures["rounds"])],
                [f"of these in the history at the end (`--keep-mib {_KEEP_MIB}`)", str(figures["kept"])],
                ["checks of ids that failed", str(figures["wrong"])],
            ],
        ),
        *(["Not as promised:\n" + "\n".join(f"- {one}" for one in run.wrong)] if run.wrong else []),
        "Seconds from the end of the fault (of a kill: from the new start):",
        table(
            ["fault", "a new diff at the clients", "as fast as before"],
            [[one.fault, *map(rounded, (one.new, one.usual))] for one in run.recoveries],
        ),
        (
            f"Memory (RSS) over the last {(1 - _REST) * options.minutes:.0f} minutes, after all faults, by least "
            "squares over means of 30 s:"
        ),
        table(
            ["process", "MB", "MB an hour, 95 % interval"],
            [[name, f"{one.mean:.0f}", str(one)] for name, one in slopes(run).items()],
        ),
        "Bytes on disk, MB, and their growth over the same time:",
        table(
            ["", "at 25 %", "at 50 %", "at 75 %", "at the end", "most", "MB an hour"],
            [
                [name, *sizes(run, name), str(slope(run.recorder.since(name, run.rest)))]
                for name in ("checkpoint", "history")
            ],
        ),
    ]
    return "\n\n".join(lines)


def slopes(run: Soak) -> dict[str, Slope]:
    """Of each process's memory, at rest."""
    return {
        name: slope(run.recorder.since(name, run.rest))
        for name in run.recorder.samples
        if name not in ("checkpoint", "history")
    }


def sizes(run: Soak, name: str) -> list[str]:
    """In MB: at each quarter of the time, and the most."""
    samples = run.recorder.samples[name]
    whole = samples[-1][0] - run.begin
    quarters = [run.begin + share * whole for share in (0.25, 0.5, 0.75, 1)]
    at = [min(samples, key=lambda sample: abs(sample[0] - one))[1] for one in quarters]
    return [f"{value:.1f}" for value in (*at, max(value for _, value in samples))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--groups", type=int, default=2000)
    parser.add_argument("--rate", type=float, default=50, help="membership changes a second")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--note", default="", help="what the table says of the machine")
    parser.add_argument("--document", action="store_true", help="write docs/explanation/trust.md too")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as Ctrl-C: nothing that was started stays
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, soak(options, Path(folder)) as run:
        run.say("starting")
        if not run.traffic.await_first_members(_PATIENCE):
            show("the groups have not got their first members in time")
            return 1
        run.say("waiting for each group's first diff")
        eventually(lambda: run.crowd.last["fewest"] >= options.groups, timeout=_PATIENCE, every=1)
        run.begin, before = time.monotonic(), len(run.traffic.acknowledged)
        run.disturb()
        run.until(_REST)
        run.rest = time.monotonic()
        run.until((run.rest - run.begin) / run.seconds + 1 - _REST, "at rest")
        changes = len(run.traffic.acknowledged)
        load = {"changes": changes, "rate": (changes - before) / (time.monotonic() - run.begin)}
        run.recorder.__exit__()
        run.traffic.__exit__()
        load["changes"] = len(run.traffic.acknowledged)
        figures = run.check()
        grown = {name: one for name, one in slopes(run).items() if one.low > _FLAT and name not in _HEAPS}
        run.wrong += [f"memory of {name} grows: {one} MB an hour" for name, one in grown.items()]
        text = report(run, figures, load)
        for part in (run.monitor.collect, run.monitor.stream, run.monitor.serve):
            part.check()
    show(text)
    if options.document:
        put("soak", text, TRUST)
    return 1 if run.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
