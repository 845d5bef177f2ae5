"""Compares the diff ids that a soak produced with the expected ids: missing, repeated and unexpected ones."""

import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from streaming.monitor.bucket_state import TrackedGroup
from streaming.monitor.outputs import DiffOutput
from streaming.monitor.state import MAX_FINGERPRINT_BYTES
from streaming.records.codec import ce_attributes
from streaming.records.events import Event
from tests.soak.run import TIMEOUT_SECONDS, Soak
from tests.support.histories import play
from tests.support.kafka import eventually, read
from tests.support.monitor import events, generations, snapshots


@dataclass
class SoakResult:
    """Results of a soak; ``wrong`` lists the violations.

    Attributes:
        events: number of events in the membership log.
        diffs: how often a replay of the membership log yields each diff id.
        again: number of records that the diff topic contains twice.
        rounds: number of rounds that the server stored.
        kept: number of those rounds that are still in the history.
        groups: number of groups with a state.
        state: bytes of all groups' state, compressed as in Spark's files.
        max_state: bytes of the state once each group remembers its maximum number of events, which do not compress.
    """

    events: int = 0
    diffs: Counter[str] = field(default_factory=Counter)
    again: int = 0
    rounds: int = 0
    kept: int = 0
    groups: int = 0
    state: int = 0
    max_state: int = 0
    wrong: list[str] = field(default_factory=list)

    def replay(self, log: Iterable[Event]) -> None:
        """Compute the expected diffs of the membership log with the pure functions."""
        groups: dict[str, list[Event]] = defaultdict(list)
        for event in log:
            groups[event.data.group_id].append(event)
            self.events += 1
        packed = bytearray()
        for group in groups.values():
            state, outputs = play(group)
            self.diffs.update(output.id for output in outputs if isinstance(output, DiffOutput))
            if state is not None:
                tracked = TrackedGroup()
                tracked.state = state
                packed += msgspec.msgpack.encode(tracked)
                self.groups += 1
                self.max_state += MAX_FINGERPRINT_BYTES - len(state.applied)
        self.state = len(zlib.compress(packed, level=1))
        self.max_state += self.state

    def compare_ids(self, place_name: str, present_ids: set[Any], expected_ids: set[Any]) -> None:
        """Compare present with expected ids; add a line to ``wrong`` for missing ids and for unexpected ids."""
        for what, ids in (("missing", expected_ids - present_ids), ("too many", present_ids - expected_ids)):
            if ids:
                self.wrong.append(f"{place_name}: {len(ids)} {what}, as {sorted(map(str, ids))[:3]}")


def check_results(run: Soak) -> SoakResult:
    """Wait for pending diffs, then compare the ids in the topic, in the history and at the clients."""
    result = SoakResult()
    run.print_line("waiting for the membership log")
    result.replay(_await_complete_log(run, result))
    wanted = {*result.diffs}
    run.print_line(f"{len(wanted)} diffs follow from {result.events} events")

    def arrived() -> bool:
        served_round_count = run.monitor.metrics()["rebalance_monitor_feed_rounds_total", ""]
        return served_round_count >= len(wanted) and run.crowd.last["fewest"] >= len(wanted)

    try:
        eventually(arrived, timeout=TIMEOUT_SECONDS, every=1)
    except AssertionError:
        result.wrong.append("not every diff has arrived")
    records = [message for message in read(run.monitor.servers, run.monitor.diffs) if message.error() is None]
    written = [ce_attributes(record.headers()).get("id") for record in records]
    result.rounds = int(run.monitor.metrics()["rebalance_monitor_feed_rounds_total", ""])
    history = run.monitor.ids()
    last = run.crowd.end()
    result.again, result.kept = len(written) - len({*written}), len(history)
    result.compare_ids("topic", {*written}, wanted)
    result.compare_ids("history", {*history} - wanted, set())
    result.compare_ids("clients", {*last["all"]}, wanted)
    checks = {
        "a diff id twice in the log's replay": max(result.diffs.values()) - 1,
        "rounds stored more or less than diffs": result.rounds - len(wanted),
        "a round twice in the history": len(history) - len({*history}),
        "diffs missing at a client": len(wanted) - last["fewest"],
        "diffs twice at a client": last["twice"],
        "clients told that rounds are gone": last["resets"],
    }
    result.wrong += [f"{what}: {number}" for what, number in checks.items() if number]
    return result


def _await_complete_log(run: Soak, soak_result: SoakResult) -> list[Event]:
    """Return the membership log once it contains all confirmed changes and equals the log of another collector."""
    servers, name = run.monitor.servers, run.monitor.membership
    confirmed_ids = {*run.traffic.acknowledged}
    log: list[Event] = []

    def whole() -> bool:
        log[:] = events(servers, name)
        return confirmed_ids <= generations(log)

    try:
        eventually(whole, timeout=TIMEOUT_SECONDS, every=5)
    except AssertionError:
        missing_ids = sorted(confirmed_ids - generations(log))
        soak_result.wrong.append(f"{len(missing_ids)} confirmed generations not collected, as {missing_ids[:3]}")
    run.print_line("asking another collector")
    again = run.monitor.undisturbed_snapshots(TIMEOUT_SECONDS)
    snapshot_events = snapshots(servers, name)
    soak_result.compare_ids("views", {event.id for event in snapshot_events}, {event.id for event in again})
    if snapshot_events != again:
        soak_result.wrong.append("the membership log differs from what an undisturbed collector gives")
    return events(servers, name)
