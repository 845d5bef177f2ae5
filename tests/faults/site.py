"""The monitor that faults befall, what is told of them, and the account of ids."""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from streaming.kafka.runtime import free_ports
from streaming.wire.codec import ce_attributes
from streaming.wire.events import Event
from tests.support.command import Running
from tests.support.kafka import eventually, read, unique
from tests.support.monitor import PATIENCE, Monitor, diff_ids
from tests.support.offsets_topic import assignment, subscription
from tests.support.raw_leader import RawLeader, Refused

TOPIC = "faults.orders"
_SAID = subscription([TOPIC])


@dataclass(frozen=True)
class Told:
    """Who tells of a fault, in which words, and whether it has."""

    component: str
    words: str
    seen: Callable[[], object]
    within: float = 15.0


@dataclass
class Site(Monitor):
    """A monitor with what its faults need.

    Attributes:
        ports: component → where its metrics are.
        past: membership logs of topics that were deleted.
        written: ids in diff topics that were deleted.
    """

    ports: dict[str, int] = field(default_factory=dict)
    past: list[list[Event]] = field(default_factory=list)
    written: set[str] = field(default_factory=set)

    @property
    def parts(self) -> dict[str, Running]:
        return {"collect": self.collect, "stream": self.stream, "serve": self.serve}

    def measured(self) -> None:
        """Let `collect` and `stream` serve their metrics from their next start on."""
        for name in ("collect", "stream"):
            (self.ports[name],) = free_ports(1)
            self.parts[name].command += ["--metrics-port", str(self.ports[name])]
        self.ports["serve"] = self.serve.port

    def answers(self, name: str) -> bool:
        """Whether Prometheus would get the component's metrics."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[name]}/metrics", timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def stand(self) -> None:
        """Start what a failed case has left lying."""
        self.broker.start()
        for part in self.parts.values():
            if part.process is None or part.process.poll() is not None:
                part.start()
        self.serve.await_status("/health", 200, PATIENCE)

    def change(self) -> None:
        """A group changes; tried again while the coordinator is not there yet."""

        def changed() -> bool:
            try:
                self.change_once()
            except (OSError, Refused):
                return False
            return True

        eventually(changed, timeout=PATIENCE, every=0.2)

    def change_once(self) -> None:
        """A group comes to be, moves its partitions and goes: three generations."""
        with RawLeader(self.servers, unique("group"), 300_000) as leader:
            for numbers in ([0, 1, 2], [0, 2]):
                leader.generation(_SAID, assignment({TOPIC: numbers}))
            leader.end()

    def expected(self) -> list[str]:
        """Of deleted membership topics too."""
        return sorted({one for log in (*self.past, self.log()) for one in diff_ids(log)})

    def topic_ids(self) -> list[str]:
        """The ids in the diff topic, repeats included."""
        return [
            ce_attributes(one.headers()).get("id", "")
            for one in read(self.servers, self.diffs, isolation="read_uncommitted")
        ]

    def account(self) -> tuple[int, int]:
        """How many diffs are lost, at the server or in the topic, and how many doubled at the server."""
        served, expected = self.ids(), {*self.expected()}
        lost = (expected - {*served}) | (expected - {*self.topic_ids()} - self.written)
        return len(lost), len(served) - len({*served})

    def faces_say(self, kind: str, within: float = 15.0) -> Told:
        """The server tells it."""
        wanted = {"ready": kind, "metrics": kind}
        return Told("serve", f"`/ready` 503 and metrics: `{kind}`", lambda: self.faces() == wanted, within)

    def log_says(self, name: str, *words: str, within: float = 15.0) -> Told:
        """A component's log tells it, from now on."""
        part, mark = self.parts[name], len(self.parts[name].said())
        return Told(
            name,
            f"log: “{self._shown(words)}”",
            lambda: all(one in part.said()[mark:] for one in words),
            within,
        )

    def _shown(self, words: Iterable[str]) -> str:
        """Words for the table, without where this run has its files."""
        return " … ".join(word.replace(f"{self.folder}/", "") for word in words)

    def ends(self, name: str, *words: str, within: float = 15.0, status: int = 3) -> Told:
        """A component ends with one line that has these words."""
        part, mark = self.parts[name], len(self.parts[name].said())

        def ended() -> bool:
            assert part.process is not None
            if part.process.poll() is None:
                return False
            errors = [line for line in part.said()[mark:].splitlines() if line.startswith("error:")]
            assert (part.process.poll(), len(errors)) == (status, 1), part.said()[mark:]
            assert all(one in errors[0] for one in words), errors
            assert "Traceback" not in part.said()[mark:]
            return True

        return Told(name, f"exit status {status}: “{self._shown(words)}”", ended, within)

    def gone_dark(self, name: str, within: float = 15.0) -> Told:
        """Its metrics can't be had: Prometheus' ``up`` is 0, for which there is an alert."""
        words = "its metrics do not answer (`up` 0: alert `RebalanceMonitorDown`)"
        return Told(name, words, lambda: not self.answers(name), within)

    def nothing(self, name: str) -> Told:
        """Nothing needs to be told."""
        return Told(name, "nothing: it goes on", lambda: True)


#: Strikes on entering, gives what will be told, heals on leaving.
Strike = Callable[[Site], AbstractContextManager[list[Told]]]


@dataclass(frozen=True)
class Case:
    """One fault of one part.

    Attributes:
        where: the part that it befalls.
        fault: its name in the table.
        strike: does it.
        during: whether groups can change while it lasts.
    """

    where: str
    fault: str
    strike: Strike
    during: bool = True

    def __str__(self) -> str:
        words = re.findall(r"\w+", self.fault)
        return "-".join((self.where, *words))


@dataclass(frozen=True)
class Outcome:
    """A row of the table; seconds."""

    component: str
    fault: str
    told: str
    within: float
    took: float
    back: float
    lost: int
    doubled: int


def run(site: Site, case: Case) -> list[Outcome]:
    """Strike, wait for what is told, heal, and wait until all diffs are there."""
    site.stand()
    site.change()
    before = site.complete()
    site.says(None)
    with case.strike(site) as tellers:
        took = _await(site, tellers)
        if case.during:
            site.change()
    healed = time.monotonic()
    site.change()
    site.complete(before)
    site.says(None)
    back = time.monotonic() - healed
    for part in site.parts.values():
        part.check()
    lost, doubled = site.account()
    fault = case.fault if case.where != "broker" else f"the broker: {case.fault.removeprefix('broker ')}"
    return [
        Outcome(told.component, fault, told.words, told.within, seconds, back, lost, doubled)
        for told, seconds in zip(tellers, took, strict=True)
    ]


def _await(site: Site, tellers: list[Told]) -> list[float]:
    """The seconds after which each has told; AssertionError when one does not in its time."""
    begin = time.monotonic()
    took: dict[int, float] = {}

    def all_have() -> bool:
        for number, told in enumerate(tellers):
            if number in took:
                continue
            now = time.monotonic() - begin
            if told.seen():
                took[number] = now
            elif now > told.within:
                said = "\n".join(f"{name}: {part.said()[-2000:]}" for name, part in site.parts.items())
                raise AssertionError(
                    f"{told.component} does not tell “{told.words}” within {told.within:g} s\n{said}"
                )
        return len(took) == len(tellers)

    eventually(all_have, timeout=max(told.within for told in tellers) + PATIENCE, every=0.1)
    return [took[number] for number in range(len(tellers))]
