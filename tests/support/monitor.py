"""Runs a complete monitor (`collect`, `stream`, `serve`), and reads the status that each interface shows."""

import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from streaming.kafka.broker import EmbeddedBroker
from streaming.monitor.outputs import DiffOutput
from streaming.records.codec import ce_attributes, decode_event
from streaming.records.events import Event, GroupObserved
from tests.support.browser import WatchedPage
from tests.support.command import RunningCommand
from tests.support.histories import play
from tests.support.kafka import eventually, read, unique_name
from tests.support.members import Member
from tests.support.serving import ServeProcess

#: Seconds, longer than the members' session timeouts.
QUIET_SECONDS = 12.0
#: Timeout for operations without a time limit, on a busy machine.
TIMEOUT_SECONDS = 240.0


@dataclass
class Monitor:
    """The processes of a monitor, and the status that each interface shows.

    Attributes:
        watched: the page in a browser, if it is open.
        test_diff_ids: ids of diffs that the test itself wrote.
    """

    broker: EmbeddedBroker
    folder: Path
    serve: ServeProcess
    collect: RunningCommand
    stream: RunningCommand
    watched: WatchedPage | None = None
    test_diff_ids: set[str] = field(default_factory=set)

    @property
    def servers(self) -> str:
        return self.broker.bootstrap_servers

    @property
    def diffs(self) -> str:
        return self.serve.settings.topics.diffs

    @property
    def membership(self) -> str:
        return self.serve.settings.topics.membership

    @property
    def history(self) -> Path:
        return Path(self.serve.command[self.serve.command.index("--database") + 1])

    @property
    def checkpoint(self) -> Path:
        return Path(self.stream.command[self.stream.command.index("--checkpoint") + 1])

    @property
    def common(self) -> tuple[str, ...]:
        """Return the command-line options that `collect`, `stream` and `serve` share."""
        prefix = self.serve.settings.topics.prefix
        return ("--bootstrap-servers", self.servers, "--topic-prefix", prefix)

    def member(self, group: str, name: str, topic: str) -> Member:
        return Member(self.servers, group, name, [topic], protocol="cooperative")

    def metrics(self) -> dict[tuple[str, str], float]:
        """Return the feed server's own metrics as ``(name, cause)`` → value."""
        families = text_string_to_metric_families(self.serve.get("/metrics")[1].decode())
        return {(item.name, item.labels.get("cause", "")): item.value for family in families for item in family.samples}

    def statuses(self) -> dict[str, str | None]:
        """Return the problem that each interface shows (``/ready``, the metrics, an open page); None: no problem."""
        status, ready = self.serve.ask("/ready")
        assert ready["ready"] is (status == 200)
        metrics = self.metrics()
        causes = [cause for (name, cause), value in metrics.items() if name == "rebalance_monitor_feed_stale" and value]
        caught_up = metrics["rebalance_monitor_feed_caught_up", ""] == 1
        statuses: dict[str, str | None] = {
            "ready": ready["stale"]["kind"] if "stale" in ready else None if ready["ready"] else "not ready",
            "metrics": causes[0] if causes else None if caught_up else "not caught up",
        }
        return statuses if self.watched is None else {**statuses, "page": _status_of_page(self.watched.page)}

    def await_status(self, kind: str | None, seconds: float = TIMEOUT_SECONDS) -> None:
        """Wait until all interfaces show the problem ``kind`` or, for None, a healthy monitor."""
        wanted = {"ready": kind, "metrics": kind}
        if self.watched is not None:
            wanted["page"] = kind and "stale"
        try:
            eventually(lambda: self.statuses() == wanted, timeout=seconds, every=0.2)
        except AssertionError as error:
            raise AssertionError(f"wanted {wanted}, got {self.statuses()}\n{self.serve.output()[-2000:]}") from error

    def ids(self) -> list[str]:
        """Return the ids of the server's diffs, oldest first, except ids of diffs that the test itself wrote."""
        return [diff_id for diff_id in self.serve.ids() if diff_id not in self.test_diff_ids]

    def log(self) -> list[Event]:
        """Return the membership log as each group's events in order."""
        return events(self.servers, self.membership)

    def expected(self) -> list[str]:
        """Return the ids of the diffs that a replay of the membership log produces."""
        return sorted(diff_ids(self.log()))

    def quiet(self) -> None:
        """Wait until no member has joined or left for longer than a session timeout, so that no event is pending.

        The measured time begins with this call, as the broker may have been unavailable before.
        """
        began = time.time()

        def newest() -> float:
            return max(began, *(event.data.timestamp / 1000 for event in self.log()))

        eventually(lambda: time.time() - newest() > QUIET_SECONDS, timeout=TIMEOUT_SECONDS, every=0.5)

    def undisturbed_snapshots(self, seconds: float = TIMEOUT_SECONDS) -> list[Event]:
        """Return the snapshots of a new, undisturbed collector that reads all of ``__consumer_offsets``."""
        prefix = f"{unique_name('undisturbed')}."
        command = [*self.collect.command]
        if "--metrics-port" in command:  # this lock belongs to the other collector
            place = command.index("--metrics-port")
            del command[place : place + 2]
        command[command.index("--topic-prefix") + 1] = prefix
        topic = prefix + self.membership.removeprefix(self.serve.settings.topics.prefix)
        running = RunningCommand(log=self.folder / f"{prefix}log")
        running.command = command
        collected_events: list[Event] = []

        def settled() -> bool:
            before, collected_events[:] = len(collected_events), snapshots(self.servers, topic)
            return before == len(collected_events) > 0

        with running.start():
            eventually(lambda: running.check() or "following" in running.output(), timeout=seconds, every=0.5)
            eventually(settled, timeout=seconds, every=3)
            assert running.stop() == 0, running.output()
        return snapshots(self.servers, topic)

    def complete(self, min_count: int = 0) -> int:
        """Wait until the server has more diffs and each expected diff exactly once; return the number of diffs."""

        def count_if_complete() -> int:
            ids = self.ids()
            return len(ids) if len(ids) > min_count and sorted(ids) == self.expected() else 0

        try:
            return int(str(eventually(count_if_complete, timeout=TIMEOUT_SECONDS, every=0.5)))
        except AssertionError as error:
            served, expected = sorted(self.ids()), self.expected()
            state = f"{len(served)} served, more than {min_count} wanted; {served=}\n{expected=}"
            logs = (f"{name}: {part.output()[-3000:]}" for name, part in vars(self).items() if hasattr(part, "output"))
            raise AssertionError("\n".join([state, *logs])) from error


def events(servers: str, topic: str) -> list[Event]:
    """Return the events of a membership topic by group, in log order."""
    return [decode_event(row.key(), row.value(), ce_attributes(row.headers())) for row in read(servers, topic)]


def snapshots(servers: str, topic: str) -> list[Event]:
    """Return the snapshots in a membership topic by group, in order; each snapshot appears once."""
    event_by_id = {event.id: event for event in events(servers, topic) if isinstance(event.data, GroupObserved)}
    return sorted(event_by_id.values(), key=lambda event: event.data.group_id)


def generations(log: Iterable[Event]) -> set[tuple[str, int]]:
    """Return the (group, generation) pair of each snapshot."""
    return {(event.data.group_id, event.data.generation or 0) for event in log if isinstance(event.data, GroupObserved)}


def diff_ids(log: Iterable[Event]) -> list[str]:
    """Return the ids of the diffs that the pure functions compute for a membership log."""
    groups: dict[str, list[Event]] = defaultdict(list)
    for event in log:
        groups[event.data.group_id].append(event)
    outputs = (output for events in groups.values() for output in play(events)[1])
    return [output.id for output in outputs if isinstance(output, DiffOutput)]


def _status_of_page(page: Any) -> str | None:
    """Return the problem that the page shows: None for a healthy monitor, ``stale`` for outdated data."""
    state = page.get_attribute("#live", "data-state")
    warning = "" if page.is_hidden("#stale") else page.inner_text("#stale")
    if state == "live" and not warning:
        return None
    since = re.search(r"since [\d:]+.*; the page shows the state of that time\.", warning)
    return "stale" if state == "stale" and since else str(state)


@contextmanager
def running_monitor(
    broker: EmbeddedBroker,
    folder: Path,
    prefix: str,
    *,
    history: Path | None = None,
    checkpoint: Path | None = None,
    buckets: int = 4,
) -> Iterator[Monitor]:
    """Run `collect` and `stream`; a test may start `serve`. All processes are stopped at the block's end.

    Args:
        broker: the running broker.
        folder: folder for the logs of the processes.
        prefix: prefix of the monitor's topics.
        history: folder of the server's history; None: ``folder``.
        checkpoint: checkpoint of `stream`; None: in ``folder``.
        buckets: number of buckets of `stream`.
    """
    common = ("--bootstrap-servers", broker.bootstrap_servers, "--topic-prefix", prefix)
    place = ("--checkpoint", str(checkpoint or folder / "checkpoint"), "--buckets", str(buckets))
    with (
        RunningCommand("stream", *common, *place, log=folder / "stream.log") as stream,
        RunningCommand("collect", *common, log=folder / "collect.log") as collect,
        ServeProcess(broker.bootstrap_servers, prefix, history or folder) as serve,
    ):
        serve.log = folder / "serve.log"  # not on the disk that a test fills
        serve.command.remove("--verbose")
        stream.start()
        collect.start()
        yield Monitor(broker, folder, serve, collect, stream)
