"""Runs one soak: starts the components, and injects faults over time."""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from streaming.kafka.broker import EmbeddedBroker
from streaming.kafka.topics import ensure_topics
from tests.soak.clients import FeedClients
from tests.soak.figures import ResourceSampler
from tests.soak.groups import PARTITIONS, TOPIC, MembershipTraffic
from tests.support.command import RunningCommand
from tests.support.disks import folder_bytes, full, small_disk
from tests.support.kafka import PROPERTIES, eventually
from tests.support.monitor import Monitor, running_monitor
from tests.support.stream_job import processes_of
from tests.support.topics import create_topic

#: Time of each fault as a share of the duration; growth without faults is measured after the last.
_FAULT_TIME_SHARES = {"collect": 0.15, "stream": 0.22, "serve": 0.29, "broker": 0.36, "disk": 0.43}
MEASURED_SHARE = 0.55
_FULL_DISK_SECONDS = 15.0
#: Share of the time for a recovery after a fault that took longer than planned.
_MIN_RECOVERY_SECONDS = 60.0
RETENTION_MIB = 16
#: Timeout in seconds for operations without a time limit, on a busy machine.
TIMEOUT_SECONDS = 600.0
_PREFIX = "soak."


@dataclass
class Recovery:
    """Seconds from the end of a fault until clients received new rounds, and until delays were as short as before."""

    fault: str
    new: float | None = None
    usual: float | None = None

    def __str__(self) -> str:
        return " and ".join("?" if seconds is None else f"{seconds:.0f} s" for seconds in (self.new, self.usual))


@dataclass
class Soak:
    """One soak test in progress; ``wrong`` lists the violations found."""

    options: argparse.Namespace
    monitor: Monitor
    disk: Path | None
    traffic: MembershipTraffic
    crowd: FeedClients
    recorder: ResourceSampler
    begin: float = field(default_factory=time.monotonic)
    rest: float = 0.0
    recoveries: list[Recovery] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return float(self.options.minutes * 60)

    def print_line(self, text: str) -> None:
        last = self.crowd.last
        show(
            f"{time.monotonic() - self.begin:6.0f} s  {text}; changes {len(self.traffic.acknowledged)}, "
            f"diffs at every client {last['fewest']}, delay {last['worst'] / 1000:.1f} s"
        )

    def until(self, share: float, what: str = "load") -> None:
        """Wait until this fraction of the soak test's duration has passed."""
        while (left := self.begin + share * self.seconds - time.monotonic()) > 0:
            self.print_line(what)
            time.sleep(min(left, 15))

    def inject_faults(self) -> None:
        """Inject all faults one after the other."""
        fault_actions: dict[str, tuple[str, Callable[[], None]]] = {
            "collect": ("SIGKILL of collect", lambda: restart(self.monitor.collect)),
            "stream": ("SIGKILL of stream", lambda: restart(self.monitor.stream)),
            "serve": ("SIGKILL of serve", lambda: restart(self.monitor.serve)),
            "broker": ("the broker restarted", lambda: discard_result(self.monitor.broker.restart())),
            "disk": (f"the history's disk full for {_FULL_DISK_SECONDS:.0f} s", self._fill),
        }
        ends = [*_FAULT_TIME_SHARES.values(), MEASURED_SHARE][1:]
        for (name, share), end in zip(_FAULT_TIME_SHARES.items(), ends, strict=True):
            if name == "disk" and self.disk is None:
                continue
            self.until(share)
            usual = max(3 * statistics.median(report["worst"] for report in self.crowd.reports[-30:]), 5000.0)
            fault, inject_fault = fault_actions[name]
            self.print_line(fault)
            inject_fault()
            by = max(self.begin + end * self.seconds, time.monotonic() + _MIN_RECOVERY_SECONDS)
            self.recoveries.append(self._await_recovery(fault, time.time(), usual, by))

    def _fill(self) -> None:
        assert self.disk is not None
        with full(self.disk):  # a history at its size limit reuses its space: it may block after minutes
            self.monitor.await_status("history-blocked", TIMEOUT_SECONDS)
            time.sleep(_FULL_DISK_SECONDS)

    def _await_recovery(self, fault: str, fault_end: float, usual: float, by: float) -> Recovery:
        """Wait until new rounds arrive with a delay of at most ``usual`` ms after the fault; give up at ``by``."""
        recovery = Recovery(fault)

        def new() -> bool:
            return bool(self.crowd.last["newest"] >= fault_end * 1000)

        def is_within_delay() -> bool:
            return 0 < self.crowd.last["worst"] <= usual

        try:
            eventually(new, timeout=TIMEOUT_SECONDS, every=0.2)
            recovery.new = self.crowd.last["at"] - fault_end
            eventually(is_within_delay, timeout=max(0.0, by - time.monotonic()), every=0.2)
            recovery.usual = self.crowd.last["at"] - fault_end
        except AssertionError:
            if recovery.new is None:
                self.wrong.append(f"{fault}: nothing new at the clients in {TIMEOUT_SECONDS:.0f} s")
        self.print_line(f"{fault}: recovered after {recovery}")
        return recovery


def restart(part: RunningCommand) -> None:
    """Send SIGKILL to a process and start it again at once."""
    part.kill()
    part.start()


def show(text: str) -> None:
    """Print a line for the user."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def discard_result(_: object) -> None:
    """Receive a result and do nothing."""


@contextmanager
def soak(options: argparse.Namespace, folder: Path) -> Iterator[Soak]:
    """Run all components under load and faults, and yield the running soak test."""
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk(folder / "disk", 8 * RETENTION_MIB))
        broker = stack.enter_context(
            EmbeddedBroker(
                data_dir=folder / "kafka",
                properties={**PROPERTIES, "group.max.session.timeout.ms": str(24 * 3600 * 1000)},
            )
        )
        create_topic(broker.bootstrap_servers, TOPIC, PARTITIONS)
        monitor = stack.enter_context(running_monitor(broker, folder, _PREFIX, history=disk, buckets=16))
        monitor.collect.command += ["--include-group", "soak-.*"]
        restart(monitor.collect)
        ensure_topics(monitor.serve.settings)
        monitor.serve.command += ["--keep-mib", str(RETENTION_MIB)]
        monitor.serve.start()
        recorder = ResourceSampler(
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
                "checkpoint": lambda: folder_bytes(monitor.checkpoint),
                "history": lambda: folder_bytes(monitor.history.parent, f"{monitor.history.name}*"),
            },
        )
        crowd = stack.enter_context(FeedClients(monitor.serve.port, options.clients))
        traffic = stack.enter_context(MembershipTraffic(broker.bootstrap_servers, options.groups, options.rate))
        stack.enter_context(recorder)
        yield Soak(options, monitor, disk, traffic, crowd, recorder)
