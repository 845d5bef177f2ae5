"""The monitor under faults, the reports of them, and the check of diff ids."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from streaming.kafka.runtime import free_ports
from streaming.records.codec import ce_attributes
from streaming.records.events import Event, GroupObserved
from tests.faults.host import Host
from tests.support.command import Running
from tests.support.kafka import eventually, read, unique
from tests.support.monitor import PATIENCE, Monitor, diff_ids
from tests.support.offsets_topic import assignment, subscription
from tests.support.raw_leader import RawLeader, Refused
from tests.support.stream_job import processes_of

TOPIC = "faults.orders"
#: Seconds that a busy machine may take to end or start a Spark job.
SPARK_SECONDS = 90.0
_SAID = subscription([TOPIC])


@dataclass(frozen=True)
class Report:
    """The expected report of a fault: its component, its words, and a function that waits for it.

    Attributes:
        seen: waits for the report; None if no report is expected.
        within: its time limit in seconds.
        fault: its name in the table, if it differs from the case's.
        took: seconds until the report, if it has already arrived.
    """

    component: str
    words: str
    seen: Callable[[], object] | None
    within: float = 15.0
    fault: str = ""
    took: float | None = None


@dataclass
class Site(Monitor):
    """A running monitor with the data that faults and checks need.

    Attributes:
        ports: component → where its metrics are.
        past: events of deleted membership topics.
        written: ids in diff topics that were deleted.
        confirmed: group and generation of each assignment that the coordinator has confirmed.
        ended: groups whose last member's leave the coordinator has confirmed.
        hosts: each part's own, where they can be had.
    """

    ports: dict[str, int] = field(default_factory=dict)
    past: list[list[Event]] = field(default_factory=list)
    written: set[str] = field(default_factory=set)
    confirmed: list[tuple[str, int]] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    hosts: dict[str, Host] = field(default_factory=dict)

    @property
    def parts(self) -> dict[str, Running]:
        return {"collect": self.collect, "stream": self.stream, "serve": self.serve}

    def pids(self, name: str) -> list[int]:
        """Return all processes of a component, or the broker's."""
        if name == "broker":
            assert self.broker.pid is not None
            return [self.broker.pid]
        if name == "stream":
            return [pid for part in processes_of(self.stream.pid).values() for pid in part]
        return [self.parts[name].pid]

    def begin(self, name: str) -> None:
        """Start a component, or the broker; wait until `serve` responds."""
        if name == "broker":
            self.broker.start()
        elif name == "serve":
            self.serve.start(wait=False)
            self.serve.await_status("/health", 200, PATIENCE)
        else:
            self.parts[name].start()

    def begin_with_options(self, name: str, *options: str) -> None:
        """Start a component with options that later starts don't have."""
        part = self.parts[name]
        usual = part.command
        part.command = [*usual, *options]
        self.begin(name)
        part.command = usual

    def end(self, name: str) -> None:
        """Stop a component cleanly."""
        assert self.parts[name].stop(seconds=PATIENCE) == 0, self.parts[name].output()[-3000:]

    def host(self, name: str) -> Host:
        """Return the host of a component, or the broker's."""
        if not self.hosts:
            pytest.skip("there is no C compiler: apt-get install gcc libc6-dev")
        return self.hosts[name]

    def prepare(self) -> None:
        """Start all components again, each on its host and with its metrics."""
        for name, part in self.parts.items():
            part.kill()
            if self.hosts:
                part.environment |= self.hosts[name].environment
            if part is not self.serve:
                (self.ports[name],) = free_ports(1)
                part.command += ["--metrics-port", str(self.ports[name])]
            self.begin(name)
        self.ports["serve"] = self.serve.port

    def is_scraped(self, name: str) -> bool:
        """Return true if Prometheus could read the component's metrics."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[name]}/metrics", timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def stand(self) -> None:
        """Start everything that a failed case left stopped."""
        self.broker.start()
        for part in self.parts.values():
            if part.process is None or part.process.poll() is not None:
                part.start()
        self.serve.await_status("/health", 200, PATIENCE)

    def change(self) -> None:
        """Change a group; retry while the coordinator is not available yet."""

        def changed() -> bool:
            try:
                self.change_once()
            except (OSError, Refused):
                return False
            return True

        eventually(changed, timeout=PATIENCE, every=0.2)

    def change_once(self) -> None:
        """Create a group, move its partitions and delete it: three generations."""
        with RawLeader(self.servers, unique("group"), 300_000) as leader:
            for numbers in ([0, 1, 2], [0, 2]):
                number = leader.generation(_SAID, assignment({TOPIC: numbers}))
                self.confirmed.append((leader.group, number))
            leader.end()
        self.ended.add(leader.group)

    def settle(self) -> None:
        """Change a group and wait until all diffs are complete, and every component is well."""

        def over() -> bool:
            last = {
                event.data.group_id: event.data
                for log in (*self.past, self.log())
                for event in log
                if isinstance(event.data, GroupObserved)
            }
            return all(group in last and not last[group].members for group in self.ended)

        self.change()
        eventually(over, timeout=PATIENCE, every=0.2)
        self.complete()
        self.await_status(None)

    def expected(self) -> list[str]:
        """Return the expected diffs, those of deleted membership topics included."""
        return sorted({diff_id for log in (*self.past, self.log()) for diff_id in diff_ids(log)})

    def topic_ids(self) -> list[str]:
        """Return the ids in the diff topic, repeats included."""
        return [
            ce_attributes(message.headers()).get("id", "")
            for message in read(self.servers, self.diffs, isolation="read_uncommitted")
        ]

    def account(self) -> tuple[int, int]:
        """Return how many diffs are lost, at the server or in the topic, and how many doubled at the server."""
        expected = {*self.expected()}  # read first: more may arrive meanwhile
        served = self.ids()
        lost = (expected - {*served}) | (expected - {*self.topic_ids()} - self.written)
        return len(lost), len(served) - len({*served})

    def server_reports(self, kind: str, within: float = 15.0) -> Report:
        """Expect that ``/ready`` and the metrics of the server report this status."""
        wanted = {"ready": kind, "metrics": kind}
        return Report("serve", f"`/ready` 503 and metrics: `{kind}`", lambda: self.statuses() == wanted, within)

    def log_contains(self, name: str, *words: str, within: float = 15.0) -> Report:
        """Expect these words in a component's log, from now on."""
        part, mark = self.parts[name], len(self.parts[name].output())
        return Report(
            name, f"log: “{self._shown(words)}”", lambda: all(word in part.output()[mark:] for word in words), within
        )

    def _shown(self, words: Iterable[str]) -> str:
        """Return the words as the table shows them, without file paths of this run."""
        return " … ".join(word.replace(f"{self.folder}/", "") for word in words)

    def ends(self, name: str, *words: str, within: float = 15.0, status: int = 3) -> Report:
        """Expect that a component ends with one line that contains these words."""
        part, mark = self.parts[name], len(self.parts[name].output())

        def ended() -> bool:
            assert part.process is not None
            if part.process.poll() is None:
                return False
            errors = [line for line in part.output()[mark:].splitlines() if line.startswith("error:")]
            assert (part.process.poll(), len(errors)) == (status, 1), part.output()[mark:]
            assert all(word in errors[0] for word in words), errors
            assert "Traceback" not in part.output()[mark:]
            return True

        return Report(name, f"exit status {status}: “{self._shown(words)}”", ended, within)

    def metrics_unavailable(self, name: str, within: float = 15.0) -> Report:
        """Expect that its metrics are unavailable: Prometheus' ``up`` is 0, for which there is an alert."""
        words = "its metrics do not answer (`up` 0: alert `RebalanceMonitorDown`)"
        return Report(name, words, lambda: not self.is_scraped(name), within)

    def nothing(self, name: str, why: str = "it goes on", fault: str = "") -> Report:
        """Expect no report."""
        return Report(name, f"nothing: {why}", None, fault=fault)

    def silence(self) -> list[Report]:
        """Expect the reports of all three components that the broker does not respond."""
        return [
            self._waits("collect", "no contact with Kafka", "is the cluster up?"),
            self._waits("stream", "no contact with Kafka", "no broker answers"),
            self.server_reports("kafka-unreachable", within=30),
        ]

    def _waits(self, name: str, *either: str) -> Report:
        """Return a report in a component's log with one of these texts, depending on its activity."""
        part, mark = self.parts[name], len(self.parts[name].output())
        words = " or ".join(f"“{phrase}”" for phrase in either)
        return Report(name, f"log: {words}", lambda: any(phrase in part.output()[mark:] for phrase in either), 60)

    def seen(self, report: Report, fault: str = "") -> Report:
        """Wait for the reports.

        Raises:
            AssertionError: it does not come in its time.
        """
        (took,) = self.await_all([report])
        return replace(report, fault=fault, took=took)

    def await_all(self, reports: Sequence[Report]) -> list[float | None]:
        """Return the seconds after which each has reported; None for those without a report.

        Raises:
            AssertionError: one does not in its time.
        """
        begin = time.monotonic()
        took = {
            number: report.took
            for number, report in enumerate(reports)
            if report.took is not None or report.seen is None
        }

        def all_have() -> bool:
            for number, report in enumerate(reports):
                if number in took or report.seen is None:
                    continue
                now = time.monotonic() - begin
                if report.seen():
                    took[number] = now
                elif now > report.within:
                    logs = "\n".join(f"{name}: {part.output()[-2000:]}" for name, part in self.parts.items())
                    raise AssertionError(
                        f"{report.component} does not report “{report.words}” within {report.within:g} s\n{logs}"
                    )
            return len(took) == len(reports)

        eventually(all_have, timeout=max(report.within for report in reports) + PATIENCE, every=0.1)
        return [took[number] for number in range(len(reports))]
