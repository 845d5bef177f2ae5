"""The monitor under faults, its expected reports, and the check that no diff id is lost or repeated."""

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from streaming.kafka.runtime import free_ports
from streaming.records.codec import ce_attributes
from streaming.records.events import Event, GroupObserved
from tests.faults.host import SimulatedHost
from tests.support.command import RunningCommand
from tests.support.kafka import eventually, read, unique_name
from tests.support.monitor import TIMEOUT_SECONDS, Monitor, diff_ids
from tests.support.offsets_topic import assignment, subscription
from tests.support.raw_leader import RawLeader, RequestRefused
from tests.support.stream_job import processes_of

TOPIC = "faults.orders"
#: Seconds that a busy machine may take to end or start a Spark job.
SPARK_SECONDS = 90.0
_SUBSCRIPTION_BYTES = subscription([TOPIC])


@dataclass(frozen=True)
class Report:
    """The expected report of a fault: the reporting component, the words, and a function that detects the report.

    Attributes:
        is_visible: returns true once the fault has been reported; None if no report is expected.
        within: time limit of the report in seconds.
        fault: the fault's name in the table, if it differs from the case's name.
        took: seconds until the report, if it has already arrived.
    """

    component: str
    words: str
    is_visible: Callable[[], object] | None
    within: float = 15.0
    fault: str = ""
    took: float | None = None


@dataclass
class TestedMonitor(Monitor):
    """A running monitor with the data that faults and checks need.

    Attributes:
        ports: component → port of the component's metrics.
        past: events in membership topics that were deleted.
        written: diff ids in diff topics that were deleted.
        confirmed_writes: group and generation of each assignment that the coordinator has confirmed.
        ended: groups whose last member's leave the coordinator has confirmed.
        hosts: the simulated host of each component, if the host library could be compiled.
    """

    ports: dict[str, int] = field(default_factory=dict)
    past: list[list[Event]] = field(default_factory=list)
    written: set[str] = field(default_factory=set)
    confirmed_writes: list[tuple[str, int]] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    hosts: dict[str, SimulatedHost] = field(default_factory=dict)

    @property
    def parts(self) -> dict[str, RunningCommand]:
        return {"collect": self.collect, "stream": self.stream, "serve": self.serve}

    def pids(self, name: str) -> list[int]:
        """Return the process ids of a component or of the broker; a Spark job has several."""
        if name == "broker":
            assert self.broker.pid is not None
            return [self.broker.pid]
        if name == "stream":
            return [pid for part in processes_of(self.stream.pid).values() for pid in part]
        return [self.parts[name].pid]

    def begin(self, name: str) -> None:
        """Start a component or the broker; after the start of `serve`, wait until it responds."""
        if name == "broker":
            self.broker.start()
        elif name == "serve":
            self.serve.start(wait=False)
            self.serve.await_status("/health", 200, TIMEOUT_SECONDS)
        else:
            self.parts[name].start()

    def restart_from_retained_records(self) -> None:
        """Start `stream` with the option that the error message about lost records names."""
        usual = self.stream.command
        self.stream.command = [*usual, "--on-data-loss", "restart"]
        self.stream.start()
        self.stream.command = usual

    def end(self, name: str) -> None:
        """Stop a component cleanly."""
        assert self.parts[name].stop(seconds=TIMEOUT_SECONDS) == 0, self.parts[name].output()[-3000:]

    def host(self, name: str) -> SimulatedHost:
        """Return the simulated host of a component or of the broker."""
        if not self.hosts:
            pytest.skip("there is no C compiler: apt-get install gcc libc6-dev")
        return self.hosts[name]

    def prepare(self) -> None:
        """Restart all components, each on its simulated host and with a metrics port."""
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
        """Return true if Prometheus can read the component's metrics."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[name]}/metrics", timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def start_stopped_components(self) -> None:
        """Start the broker and every component that a failed test case left stopped."""
        self.broker.start()
        for part in self.parts.values():
            if part.process is None or part.process.poll() is not None:
                part.start()
        self.serve.await_status("/health", 200, TIMEOUT_SECONDS)

    def change(self) -> None:
        """Change a group; retry while the group's coordinator is not available yet."""

        def changed() -> bool:
            try:
                self.change_new_group()
            except (OSError, RequestRefused):
                return False
            return True

        eventually(changed, timeout=TIMEOUT_SECONDS, every=0.2)

    def change_new_group(self) -> None:
        """Create a group, move its partitions and delete the group, which gives three generations."""
        with RawLeader(self.servers, unique_name("group"), 300_000) as leader:
            for numbers in ([0, 1, 2], [0, 2]):
                number = leader.generation(_SUBSCRIPTION_BYTES, assignment({TOPIC: numbers}))
                self.confirmed_writes.append((leader.group, number))
            leader.end()
        self.ended.add(leader.group)

    def settle(self) -> None:
        """Change a group; wait until all diffs are complete and every component reports no problem."""

        def has_closed_episode() -> bool:
            last = {
                event.data.group_id: event.data
                for log in (*self.past, self.log())
                for event in log
                if isinstance(event.data, GroupObserved)
            }
            return all(group in last and not last[group].members for group in self.ended)

        self.change()
        eventually(has_closed_episode, timeout=TIMEOUT_SECONDS, every=0.2)
        self.complete()
        self.await_status(None)

    def expected(self) -> list[str]:
        """Return the ids of the diffs that a replay of the membership topics yields, including deleted topics."""
        return sorted({diff_id for log in (*self.past, self.log()) for diff_id in diff_ids(log)})

    def topic_ids(self) -> list[str]:
        """Return the diff ids in the diff topic, including repeats."""
        return [
            ce_attributes(message.headers()).get("id", "")
            for message in read(self.servers, self.diffs, isolation_level="read_uncommitted")
        ]

    def count_lost_and_repeated(self) -> tuple[int, int]:
        """Return how many diffs are lost (in the server or the topic), and how many the server has twice."""
        expected = {*self.expected()}  # read first: more may arrive meanwhile
        served_diff_ids = self.ids()
        lost = (expected - {*served_diff_ids}) | (expected - {*self.topic_ids()} - self.written)
        return len(lost), len(served_diff_ids) - len({*served_diff_ids})

    def server_reports(self, kind: str, within: float = 15.0) -> Report:
        """Return the expected report that ``/ready`` and the metrics of the server show this problem."""
        wanted = {"ready": kind, "metrics": kind}
        return Report("serve", f"`/ready` 503 and metrics: `{kind}`", lambda: self.statuses() == wanted, within)

    def log_contains(self, name: str, *words: str, within: float = 15.0) -> Report:
        """Return the report that a test expects of a component: new log text that contains all these words."""
        part, mark = self.parts[name], len(self.parts[name].output())
        return Report(
            name,
            f"log: “{self._shorten_message(words)}”",
            lambda: all(word in part.output()[mark:] for word in words),
            within,
        )

    def _shorten_message(self, words: Iterable[str]) -> str:
        """Return words of a log message for the table of faults, with paths relative to the run's folder."""
        return " … ".join(word.replace(f"{self.folder}/", "") for word in words)

    def ends(self, name: str, *words: str, within: float = 15.0, status: int = 3) -> Report:
        """Return the expected report: the component exits with one error line that contains these words."""
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

        return Report(name, f"exit status {status}: “{self._shorten_message(words)}”", ended, within)

    def metrics_unavailable(self, name: str) -> Report:
        """Return the expected report that Prometheus can't scrape a component: ``up`` is 0, which raises an alert."""
        words = "its metrics do not answer (`up` 0: alert `RebalanceMonitorDown`)"
        return Report(name, words, lambda: not self.is_scraped(name))

    def nothing(self, name: str, why: str = "it goes on", fault: str = "") -> Report:
        """Return the expectation that a component reports nothing; ``why``: the reason, for the table of faults."""
        return Report(name, f"nothing: {why}", None, fault=fault)

    def wait_without_reports(self) -> list[Report]:
        """Return the reports of all three components that the broker does not respond."""
        return [
            self._expect_log_phrase("collect", "no contact with Kafka", "is the cluster up?"),
            self._expect_log_phrase("stream", "no contact with Kafka", "no broker answers"),
            self.server_reports("kafka-unreachable", within=30),
        ]

    def _expect_log_phrase(self, name: str, *phrases: str) -> Report:
        """Return the report that a test expects of a component: new log text that contains one of these phrases."""
        part, mark = self.parts[name], len(self.parts[name].output())
        words = " or ".join(f"“{phrase}”" for phrase in phrases)
        return Report(name, f"log: {words}", lambda: any(phrase in part.output()[mark:] for phrase in phrases), 60)

    def await_report(self, report: Report, fault: str = "") -> Report:
        """Wait for an expected report; return the report with the seconds that it took.

        Raises:
            AssertionError: the report does not arrive within its time limit.
        """
        (took,) = self.await_all([report])
        return replace(report, fault=fault, took=took)

    def await_all(self, reports: Sequence[Report]) -> list[float | None]:
        """Return the seconds until each report; None for a component that is expected not to report.

        Raises:
            AssertionError: a report does not arrive within its time limit.
        """
        begin = time.monotonic()
        took = {
            number: report.took
            for number, report in enumerate(reports)
            if report.took is not None or report.is_visible is None
        }

        def have_all_reports() -> bool:
            for number, report in enumerate(reports):
                if number in took or report.is_visible is None:
                    continue
                now = time.monotonic() - begin
                if report.is_visible():
                    took[number] = now
                elif now > report.within:
                    logs = "\n".join(f"{name}: {part.output()[-2000:]}" for name, part in self.parts.items())
                    raise AssertionError(
                        f"{report.component} does not report “{report.words}” within {report.within:g} s\n{logs}"
                    )
            return len(took) == len(reports)

        eventually(have_all_reports, timeout=max(report.within for report in reports) + TIMEOUT_SECONDS, every=0.1)
        return [took[number] for number in range(len(reports))]
