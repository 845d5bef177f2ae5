"""Runs real groups for tests of advice; a group's history is what the monitor published about the group."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from streaming.advice.history import GroupHistory
from streaming.simulation.live_group import MembershipLog
from tests.acceptance.situations.applications import Connect, Streams
from tests.acceptance.situations.member_kind import MemberKind
from tests.acceptance.situations.real_group import RealGroup
from tests.acceptance.situations.scenarios import Scenario
from tests.acceptance.situations.stage import LOG, stage
from tests.support.members import Member
from tests.support.processes import process_lock
from tests.support.wait import TIMEOUT_SECONDS, eventually

_T = TypeVar("_T")
#: With more groups at once, members get too little processor time and their sessions time out.
_MAX_PARALLEL = 4 * (os.cpu_count() or 1)


class AdvisedGroup(NamedTuple):
    """A real group for which advice is tested, and its history, read while its members ran."""

    group: RealGroup
    history: GroupHistory

    def episodes(self, *kinds: str) -> list[int]:
        """Return the numbers of the group's episodes whose expected kind is one of ``kinds``, newest first."""
        steps = [step for step in self.group.steps if step.kind in kinds]
        return sorted({episode.episode for step in steps for episode in step.episodes[LOG]}, reverse=True)


@dataclass(frozen=True)
class Play(Generic[_T]):
    """A run with a real group: the kind of its members, and a function that changes the group and returns a result."""

    member_kind: MemberKind
    run: Callable[[RealGroup], _T]
    partitions: int = 6
    group_type: type[RealGroup] = RealGroup


def group_history(group: RealGroup) -> GroupHistory:
    """Return the history of a group up to now, from the events and outputs of its monitor."""
    view, log = group.views[LOG], MembershipLog(group.group_id)
    for event in [*view.events]:
        if event.data.group_id == group.group_id:
            log.feed(event)
    latest, episodes = view.assignments.get(group.group_id), view.episodes(group.group_id)
    return GroupHistory(
        group.group_id,
        time.time_ns() // 1_000_000,
        episodes,
        latest,
        group.incidents(LOG),
        log.group(latest),
        {episode.episode: [view.by_id[diff_id] for diff_id in episode.rounds] for episode in episodes},
    )


def play_of_scenario(scenario: Scenario) -> Play[AdvisedGroup]:
    """Return a play (a test of one real group) of a scenario; its result has the group's history after the scenario."""

    def run(group: RealGroup) -> AdvisedGroup:
        scenario.apply(group)
        return AdvisedGroup(group, group_history(group))

    return Play(scenario.member_kind, run, scenario.partitions, scenario.group_type)


@contextmanager
def playing_groups(
    plays: Mapping[str, Play[_T]], folder: Path, properties: dict[str, str] | None = None
) -> Iterator[dict[str, Future[_T]]]:
    """Run plays (tests of one real group each) at once on one broker; yield the future of each play's result."""
    with process_lock("crowd"), stage(folder, properties, (LOG,)) as made, ThreadPoolExecutor(_MAX_PARALLEL) as pool:

        def run(name: str, play: Play[_T]) -> _T:
            group_name = name.replace(" ", "-").replace(",", "")
            group = play.group_type(made, group_name, play.member_kind, play.partitions)
            try:
                return play.run(group)
            finally:
                group.close()

        yield {name: pool.submit(run, name, play) for name, play in plays.items()}


class GroupWithSharedInstanceId(RealGroup):
    """A group with more members than partitions."""

    def whole(self) -> None:
        """Wait until all partitions have a consumer and all members have received an assignment."""

        def done() -> bool:
            assert not self.failures, self.failures
            assigned = {callback.name for callback in self.stage.java.callbacks if callback.event == "assigned"}
            owned = sum(len(numbers) for share in self.owned().values() for numbers in share.values())
            return assigned.issuperset(self.java.values()) and owned == sum(self.topics.values())

        eventually(done, timeout=TIMEOUT_SECONDS)


class AiokafkaGroup(RealGroup):
    """A group of aiokafka's consumers, which have their default client ids."""

    def _start(self, name: str, member_kind: MemberKind) -> None:
        topics = self.subscribed.setdefault(name, tuple(self.topics))
        options = {"module": "tests.support.aiokafka_consumer", "max_poll_interval_ms": member_kind.poll_ms}
        self._run(name, Member(self.stage.servers, self.group_id, name, topics, **options))

    def whole(self) -> None:
        """Wait until all partitions have a consumer and all members have received an assignment."""

        def done() -> bool:
            owned = sum(len(numbers) for share in self.owned().values() for numbers in share.values())
            return all(member.lines for member in self.python.values()) and owned == sum(self.topics.values())

        eventually(done)


class ProbingStreams(Streams):
    """A Kafka Streams application whose warm-up tasks never catch up, as their topic keeps growing."""

    settings = MappingProxyType(
        {"acceptable.recovery.lag": 0, "probing.rebalance.interval.ms": 60_000, "statestore.cache.max.bytes": 0}
    )

    def whole(self) -> None:
        """Wait until the applications run and together process all partitions."""
        count = next(iter(self.topics.values()))

        def done() -> bool:
            reports = [dict(report) for app in self._members.values() for report in [*app.report.values()]]
            numbers = [number for report in reports for share in report["active"].values() for number in share]
            is_running = all(report["state"] == "RUNNING" for report in reports)
            return is_running and sorted(numbers) == [*range(count)]

        eventually(done, timeout=TIMEOUT_SECONDS, every=0.2)


class LateConnect(Connect):
    """Connect workers whose tasks wait for much longer than a worker needs to restart, even on a busy machine."""

    delay_ms = 150_000


class PromptConnect(Connect):
    """Connect workers whose tasks wait for little longer than a worker needs to restart."""

    delay_ms = 20_000
