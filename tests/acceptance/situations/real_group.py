"""Applies changes to one real group, and records the episodes that each data source reports for each change."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from streaming.records.episodes import Episode, Incident
from tests.acceptance.situations.member_kind import MemberKind
from tests.acceptance.situations.poller import Poller
from tests.acceptance.situations.stage import LISTENER, LOG, OFFSETS, POLLING, SituationStage
from tests.support.callbacks import distinct
from tests.support.kafka import eventually, unique_name
from tests.support.live_stream import LiveStream
from tests.support.members import CONSUMER, COOPERATIVE, EAGER, Member, Share

#: kafka-python's leader may request one more generation within a heartbeat (3 s), for metadata that arrives after all
#: members have their partitions.
_LATE_METADATA_AGE_MS: Final = 5000
_PYTHON_CONFIGS: Final = {"eager": EAGER, "cooperative": COOPERATIVE, "consumer": CONSUMER}


@dataclass
class Step:
    """One step of a test, which changes a group: its episode's expected kind, and the episodes by each data source.

    Attributes:
        kind: the expected kind of the step's episode.
        at: start time, ms.
        joined, left, rejoined: client ids that joined, client ids that left or crashed, and client ids that left or
        crashed and then joined again.
        unsure_kinds: kinds, besides ``unknown``, that a view without the coordinator's log may report as not sure.
        expected_second_kind: the expected kind of a second episode that follows without a quiet time.
        is_provable: whether the coordinator's log proves the kind; if not, ``unsure_kinds`` also applies to the view
            with the log.
        is_measured: whether all members recorded their consumption until the end of the step.
        episodes: reported episodes by view.
    """

    kind: str
    at: int
    joined: frozenset[str]
    left: frozenset[str]
    rejoined: frozenset[str]
    unsure_kinds: frozenset[str]
    is_provable: bool = True
    expected_second_kind: str = ""
    is_measured: bool = False
    episodes: dict[str, list[Episode]] = field(default_factory=dict)


class RealGroup:
    """A group of real members under test; each :meth:`step` is a change that causes one episode."""

    def __init__(self, stage: SituationStage, name: str, member_kind: MemberKind, partitions: int = 6) -> None:
        self.stage, self.member_kind = stage, member_kind
        self.group_id = unique_name(name)
        self.topics = {stage.topic(partitions, self.group_id): partitions}
        self.subscribed: dict[str, tuple[str, ...]] = {}
        self.python: dict[str, Member | Poller] = {}
        #: All members that ever joined, in the order of their starts.
        self.processes: list[Member | Poller] = []
        #: File in which Java consumers record what they consume.
        self.marks: list[Path] = []
        #: Expected kinds of incidents, in addition to storms of killed members.
        self.expected_incidents: tuple[str, ...] = ()
        self.java: dict[str, str] = {}
        self.steps: list[Step] = []
        #: Times at which members were killed, in seconds.
        self.kill_times: list[float] = []
        self._started = 0
        self._new_members: set[str] = set()
        self._fenced_members: set[str] = set()
        self.views = {name: view for name, view in stage.views.items() if name != LISTENER or member_kind.has_listener}

    # Methods that change the group.

    def start(self, *names: str, member_kind: MemberKind | None = None) -> None:
        """Start all these members at once."""
        for name in names:
            self._start(name, member_kind or self.member_kind)
            self._new_members.add(name)

    def _start(self, name: str, member_kind: MemberKind) -> None:
        topics = self.subscribed.setdefault(name, tuple(self.topics))
        if member_kind.client == "java":
            self._started += 1
            self.java[name] = java_id = f"{self.group_id}/{name}/{self._started}"
            self.marks.append(self.stage.folder / f"{java_id.replace('/', '-')}.marks")
            config = member_kind.java_config(self.stage.servers, self.group_id, name)
            self.stage.java.start(java_id, config, list(topics), marks=self.marks[-1])
            return
        if member_kind.client == "poller":
            self._run(name, Poller(self.stage.servers, self.group_id, name, topics, member_kind.poll_ms))
            return
        options: dict[str, Any] = dict(_PYTHON_CONFIGS[member_kind.protocol])
        if member_kind.client == "kafka-python":
            options = {"protocol": member_kind.protocol}
        if member_kind.placed:
            self._started += 1
            options["host"] = f"127.9.{len(self.group_id) % 250}.{self._started}"
        if member_kind.racks:
            options["properties"] = (*options["properties"], f"client.rack={dict(member_kind.racks)[name]}")
        if member_kind.has_listener:
            options |= {"listener": self.stage.servers, "listener_prefix": self.stage.reports_prefix}
        member = Member(
            self.stage.servers,
            self.group_id,
            name,
            [f"^{self.group_id}-.*"] if member_kind.pattern else topics,
            client=member_kind.client,
            session_timeout_ms=member_kind.session_ms,
            instance_id=name if member_kind.static else None,
            **options,
        )
        self._run(name, member)

    def _run(self, name: str, process: Member | Poller) -> None:
        self.python[name] = process
        self.processes.append(process)

    def leave(self, *names: str) -> None:
        """Let these members leave at once with a LeaveGroup, which a static member sends only on request."""
        self._end(names, "LEAVE_GROUP")

    def stop(self, *names: str) -> None:
        """Stop these members as their clients do by default; a static member then sends no LeaveGroup."""
        self._end(names, "DEFAULT")

    def crash(self, *names: str) -> None:
        """Crash these members, without a LeaveGroup."""
        self._end(names, "REMAIN_IN_GROUP")

    def _end(self, names: Iterable[str], how: str) -> None:
        ending = []
        for name in names:
            self.subscribed.pop(name)
            if name in self.java:
                java_id = self.java.pop(name)
                self.stage.java.begin_close(java_id, how)
                ending.append(java_id)
            elif how == "REMAIN_IN_GROUP":
                self.python.pop(name).crash()
            else:
                self.python.pop(name).close()
        owned = self.stage.java.owned
        eventually(lambda: all(owned[java_id] is None for java_id in ending) or self.failures)

    def exceed_poll_interval(self, name: str) -> None:
        """Let a member exceed max.poll.interval.ms, and then poll again."""
        member = self.python.get(name)
        if isinstance(member, Poller):
            member.pause_polling(2 * self.member_kind.poll_ms)
            return
        java, java_id = self.stage.java, self.java[name]
        before = len(java.callbacks)
        java.pause_polling(java_id, 2 * self.member_kind.poll_ms)
        eventually(lambda: any(callback.name == java_id and not callback.owned for callback in java.callbacks[before:]))

    def rejoin(self, name: str, reason: str) -> None:
        """Let a member request a rebalance, and wait until it has rejoined."""
        java, java_id = self.stage.java, self.java[name]
        before = len(java.callbacks)
        java.rejoin(java_id, reason)
        eventually(lambda: any((call.name, call.event) == (java_id, "assigned") for call in java.callbacks[before:]))
        self.whole()

    def share(self, name: str) -> None:
        """Start another process with the same instance id; the coordinator then fences the first process."""
        fenced = self.java[name]
        earlier_ids = {v: self.views[v].ids(self.group_id).get(name) for v in (LOG, OFFSETS) if v in self.views}
        self._start(name, self.member_kind)
        self._new_members.add(name)
        java = self.stage.java
        eventually(lambda: any(call.name == fenced and call.event.startswith("failed") for call in java.callbacks))
        self._fenced_members.add(fenced)
        self.whole()
        eventually(
            lambda: all(
                self.views[v].ids(self.group_id).get(name) != earlier_id for v, earlier_id in earlier_ids.items()
            )
        )

    def reset(self) -> None:
        """Reset the offsets of the group to the beginning; the group must have no members."""
        topic, partitions = next(iter(self.topics.items()))
        self.stage.reset(self.group_id, topic, partitions)

    def delete(self, topic: str) -> None:
        """Delete a topic to which members subscribe."""
        self.topics[topic] = 0
        self.stage.delete(topic)

    def subscribe(self, name: str, *topics: str) -> None:
        """Let a member subscribe to these topics instead of its present topics."""
        self.subscribed[name] = topics
        self.stage.java.subscribe(self.java[name], list(topics))

    def topic(self, partitions: int, prefix: str = "topic") -> str:
        """Create one more topic, to which members will subscribe."""
        name = self.stage.topic(partitions, prefix)
        self.topics[name] = partitions
        return name

    def subscribe_missing_topic(self) -> str:
        """Let all members subscribe to a topic that does not exist yet, and return its name."""
        name = f"{self.group_id}-later"
        self.topics[name] = 0
        return name

    def create(self, name: str, partitions: int) -> None:
        """Create a topic to which members already subscribe."""
        self.stage.create(name, partitions)
        self.topics[name] = partitions

    def grow(self, partitions: int) -> None:
        """Add partitions to the group's first topic."""
        name = next(iter(self.topics))
        self.stage.grow(name, partitions)
        self.topics[name] = partitions

    def restart_one_by_one(self, *names: str, member_kind: MemberKind | None = None) -> None:
        """Restart the members one by one; between stop and start the group rebalances, unless members are static."""
        for name in names:
            self.stop(name)
            if not self.member_kind.static:
                self.whole()
            self.start(name, member_kind=member_kind)
            self.whole()

    # Methods that return a result.

    @property
    def failures(self) -> list[str]:
        """Return errors that ended Java consumers, except fencing by a process with the same instance id."""
        failures = [failure for failure in self.stage.java.failures if failure.startswith(f"{self.group_id}/")]
        return [failure for failure in failures if failure.partition(":")[0] not in self._fenced_members]

    def removed_members(self, since_ms: int) -> frozenset[str]:
        """Return Java consumers that got a new member id because the coordinator had removed them."""
        ids: dict[str, list[set[str]]] = defaultdict(lambda: [set(), set()])
        for callback in self.stage.java.callbacks:
            group, _, rest = callback.name.partition("/")
            if group == self.group_id and callback.event == "assigned":
                ids[rest.partition("/")[0]][callback.at >= since_ms].add(callback.member)
        return frozenset(name for name, (before, after) in ids.items() if after - before)

    def callbacks(self) -> dict[str, list[Share]]:
        """Return the successive assignments of each consumer by its callbacks, without repeats, by consumer name."""
        owned_at: dict[str, list[tuple[int, Share]]] = defaultdict(list)
        for callback in self.stage.java.callbacks:
            group, _, rest = callback.name.partition("/")
            if group == self.group_id and callback.event == "assigned":
                owned_at[rest.partition("/")[0]].append((callback.at, callback.owned))
        for process in self.processes:
            owned_at[process.name] += [(row["at"], row["owned"]) for row in process.lines if row["event"] == "assigned"]
        return {
            name: distinct(share for _, share in sorted(shares, key=itemgetter(0))) for name, shares in owned_at.items()
        }

    def owned(self) -> dict[str, Share]:
        """Return each member's partitions according to its callbacks, by name."""
        shares = {name: self.stage.java.owned[java_id] or {} for name, java_id in self.java.items()}
        shares |= {name: member.owned for name, member in self.python.items()}
        return {name: dict(sorted(share.items())) for name, share in shares.items() if share}

    def whole(self) -> None:
        """Wait until each subscribed partition has exactly one consumer and each member owns at least one partition."""

        def done() -> bool:
            assert not self.failures, self.failures
            owned = self.owned()
            assigned = sorted((t, p) for share in owned.values() for t, numbers in share.items() for p in numbers)
            wanted = {t for topics in self.subscribed.values() for t in topics}
            return owned.keys() == self.subscribed.keys() and assigned == sorted(
                (topic, p) for topic in wanted for p in range(self.topics[topic])
            )

        try:
            eventually(done)
        except AssertionError as error:
            raise AssertionError(f"{self.group_id}: {self.subscribed} own {self.owned()}") from error

    def _shows_all_members(self, view: LiveStream, before: dict[str, str]) -> bool:
        """Return true if the live monitor ``view`` shows all members' current partitions and no rebalance."""
        episodes, ids = view.episodes(self.group_id), view.ids(self.group_id)
        shares = {name: share for name, share in view.shares(self.group_id).items() if share}
        return (
            bool(episodes)
            and not episodes[-1].waiting_for
            and episodes[-1].status not in ("rebalancing", "catching-up")
            and shares == self.owned()
            and not any(ids.get(name) == before.get(name) for name in self._new_members & ids.keys())
            and (view is self.views.get(POLLING) or self._shows_newest(view))  # polling counts generations by itself
            and self._has_no_pending_round(view)
        )

    def _shows_newest(self, view: LiveStream) -> bool:
        """Return true if the live monitor ``view`` has the newest generation or epoch that Java consumers received."""
        newest, received = self._generations(view)
        return newest is None or newest >= received

    def _generations(self, view: LiveStream) -> tuple[int | None, int]:
        """Return the newest generation or epoch in a monitor's diffs, and the newest that Java consumers received."""
        received = [call.generation for call in self.stage.java.callbacks if call.name.startswith(f"{self.group_id}/")]
        rounds = view.rounds(self.group_id)
        numbers = [diff.generation if diff.group_epoch is None else diff.group_epoch for diff in rounds]
        return max((number for number in numbers if number is not None), default=None), max(received, default=-1)

    def _has_no_pending_round(self, view: LiveStream) -> bool:
        """Return true if no member will request another rebalance because of outdated metadata."""
        if self.member_kind.client != "kafka-python":
            return True
        return time.time() * 1000 - view.rounds(self.group_id)[-1].timestamp > _LATE_METADATA_AGE_MS

    def _is_settled(self, view: LiveStream, before: dict[str, str]) -> bool:
        """Return true if a monitor shows all members and the quiet time has passed since the last change."""
        return self._shows_all_members(view, before) and view.rest(self.group_id)

    def settle(self, before: dict[str, dict[str, str]]) -> None:
        """Wait until each monitor shows all members and the quiet time is over; ``before``: the earlier member ids."""
        self.whole()
        for name, view in self.views.items():
            try:
                eventually(partial(self._is_settled, view, before[name]))
            except AssertionError as error:
                episodes, shares = view.episodes(self.group_id), view.shares(self.group_id)
                waits = (episodes[-1].status, episodes[-1].waiting_for) if episodes else None
                raise AssertionError(
                    f"{self.group_id}, by {name}: {shares}, members have {self.owned()}; waits for {waits}; "
                    f"generations {self._generations(view)}"
                ) from error

    @contextmanager
    def step(
        self,
        kind: str,
        *,
        joined: Iterable[str] = (),
        left: Iterable[str] = (),
        rejoined: Iterable[str] = (),
        unsure_kinds: Iterable[str] = (),
        is_provable: bool = True,
        expected_second_kind: str = "",
    ) -> Iterator[None]:
        """Expect that the changes in the ``with`` block become one episode of this kind; wait for the quiet group."""
        at = time.time_ns() // 1_000_000
        before = {name: len(view.episodes(self.group_id)) for name, view in self.views.items()}
        ids = {name: view.ids(self.group_id) for name, view in self.views.items()}
        self._new_members.clear()
        yield
        try:
            self.settle(ids)
        except AssertionError as error:
            raise AssertionError(f"after {kind}: {error}") from error
        step = Step(
            kind,
            at,
            *map(frozenset, (joined, left, rejoined, unsure_kinds)),
            is_provable=is_provable,
            expected_second_kind=expected_second_kind,
        )
        step.is_measured = bool(self.marks) and not self.processes
        for name, view in self.views.items():
            step.episodes[name] = view.episodes(self.group_id)[before[name] :]
        self.steps.append(step)

    def incidents(self, view: str) -> list[Incident]:
        return self.views[view].incidents(self.group_id)

    def close(self) -> None:
        for member in self.python.values():
            member.crash()
        for java_id in self.java.values():
            if self.stage.java.owned[java_id] is not None:
                self.stage.java.begin_close(java_id, "LEAVE_GROUP")
