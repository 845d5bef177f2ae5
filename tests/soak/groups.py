"""Groups whose members join and leave at a constant rate, through the broker's own group coordinator.

The groups have no real clients: the requests of each group are sent as bytes over a few connections, so that
thousands of groups cost little. The coordinator answers them as it answers clients: each change is a generation, with
records in ``__consumer_offsets``.
"""

import threading
import time
from dataclasses import dataclass, field
from random import Random
from typing import Self

from tests.support.offsets_topic import assignment, subscription
from tests.support.raw_leader import REBALANCE_IN_PROGRESS, RawConnection, RequestRefused

TOPIC = "soak.orders"
PARTITIONS = 12
#: No member sends heartbeats, so sessions are longer than any soak.
SESSION_MS = 6 * 3600 * 1000
#: Seconds that the coordinator waits for a member whose response was lost with a broker.
_REBALANCE_MS = 5000
_ANSWER_SECONDS = 20.0
_RETRY_SECONDS = 0.5
_UNKNOWN_MEMBER = 25

_SUBSCRIPTION_BYTES = subscription([TOPIC])
_FULL_ASSIGNMENT = assignment({TOPIC: list(range(PARTITIONS))})
_HALF_ASSIGNMENTS = [assignment({TOPIC: list(range(start, PARTITIONS, 2))}) for start in (0, 1)]


@dataclass(slots=True)
class _Group:
    """A group with a first member and, at times, a second member; the id of an absent member is empty."""

    name: str
    first_member: str = ""
    second_member: str = ""
    generation: int = 0
    has_assignment: bool = False


@dataclass
class MembershipTraffic:
    """A context manager that changes memberships at a constant rate, evenly spread over the groups.

    Args:
        servers: address of the broker.
        count: number of groups.
        rate: number of changes per second.
        workers: number of groups that change at the same time.

    Attributes:
        acknowledged: ``(group, generation)`` of every assignment that the coordinator has confirmed.
        failures: number of requests that failed and were repeated.
        groups_created: semaphore that each worker releases once all its groups have their first members.
    """

    servers: str
    count: int
    rate: float
    workers: int = 4
    acknowledged: list[tuple[str, int]] = field(default_factory=list)
    failures: int = 0
    end_event: threading.Event = field(default_factory=threading.Event)
    groups_created: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def __enter__(self) -> Self:
        groups = [_Group(f"soak-{number:04}") for number in range(self.count)]
        self._threads = [
            _Worker(self, groups[number :: self.workers], self.rate / self.workers, number)
            for number in range(self.workers)
        ]
        for thread in self._threads:
            thread.start()
        return self

    def await_first_members(self, seconds: float) -> bool:
        """Return true if each group has got its first member within this time."""
        return all(self.groups_created.acquire(timeout=seconds) for _ in self._threads)

    def __exit__(self, *_: object) -> None:
        self.end_event.set()
        for thread in self._threads:
            thread.join()


class _Worker(threading.Thread):
    """Changes groups, one after the other, over two connections: a member's join waits for the other member's join."""

    def __init__(self, traffic: MembershipTraffic, groups: list[_Group], rate: float, seed: int) -> None:
        super().__init__(daemon=True)
        self._traffic = traffic
        self._groups = groups
        self._heartbeats_per_second = rate
        self._random = Random(seed)
        self._connections: tuple[RawConnection, RawConnection] | None = None

    def run(self) -> None:
        for group in self._groups:
            self._retry_until_applied(group)
        self._traffic.groups_created.release()
        begin, number = time.monotonic(), 0
        while not self._traffic.end_event.is_set():
            late = time.monotonic() - begin - number / self._heartbeats_per_second
            if late < 0:
                self._traffic.end_event.wait(-late)
            elif late > 1:  # changes that the cluster could not accept are not repeated later
                begin += late
            number += 1
            self._retry_until_applied(self._random.choice(self._groups))
        self._close()

    def _retry_until_applied(self, group: _Group) -> None:
        """Apply the next change of a group; repeat it while the cluster does not answer or refuses the request."""
        while not self._traffic.end_event.is_set():
            try:
                self._change(group)
            except (OSError, RequestRefused) as error:
                self._traffic.failures += 1
                self._close()
                group.has_assignment, group.second_member = False, ""
                if isinstance(error, RequestRefused) and error.code == _UNKNOWN_MEMBER:
                    group.first_member = ""
                self._traffic.end_event.wait(_RETRY_SECONDS)
            else:
                return

    def _change(self, group: _Group) -> None:
        if self._connections is None:
            self._connections = self._connect(), self._connect()
        first, second = self._connections
        if group.has_assignment and not group.second_member:
            self._join_second_member(group, first, second)
            return
        if group.second_member:
            first.leave(group.name, group.second_member)
            group.second_member = ""
        self._join(first, group, group.first_member)
        group.generation, _, group.first_member = first.joined()
        self._assign(first, group, {group.first_member: _FULL_ASSIGNMENT})

    def _join_second_member(self, group: _Group, first: RawConnection, second: RawConnection) -> None:
        """Let the second member join; the first member is notified by a heartbeat response and rejoins."""
        self._join(second, group, "")
        self._await_rebalance(group, first)
        self._join(first, group, group.first_member)
        group.generation, leader, _ = first.joined()
        _, _, group.second_member = second.joined()
        members = [group.first_member, group.second_member]
        if leader != group.first_member:
            raise OSError(f"{group.name}: the first member is not the leader")
        self._assign(first, group, dict(zip(members, _HALF_ASSIGNMENTS, strict=True)))
        second.sync(group.name, group.generation, group.second_member, {})

    @staticmethod
    def _await_rebalance(group: _Group, member: RawConnection) -> None:
        by = time.monotonic() + _ANSWER_SECONDS
        try:
            while time.monotonic() < by:
                member.heartbeat(group.name, group.generation, group.first_member)
        except RequestRefused as refused:
            if refused.code != REBALANCE_IN_PROGRESS:
                raise
            return
        raise OSError(f"{group.name}: nobody joins")  # the request on the other connection failed

    def _assign(self, leader: RawConnection, group: _Group, assignments: dict[str, bytes]) -> None:
        leader.sync(group.name, group.generation, group.first_member, assignments)
        group.has_assignment = True
        self._traffic.acknowledged.append((group.name, group.generation))

    def _join(self, connection: RawConnection, group: _Group, member_id: str) -> None:
        connection.send_join(
            group.name,
            member_id,
            _SUBSCRIPTION_BYTES,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=_REBALANCE_MS,
        )

    def _connect(self) -> RawConnection:
        return RawConnection(self._traffic.servers, _ANSWER_SECONDS)

    def _close(self) -> None:
        for connection in self._connections or ():
            connection.close()
        self._connections = None
