"""What offset commits tell of members that are gone: those that left, and those whose session ran out.

The offsets topic holds no reasons. But a member commits until it goes: a commit within the session timeout before
it was gone proves that its session had not run out (a commit counts as a heartbeat), so it left; one that was
silent for the session timeout, and not for much longer, was most likely fenced. Longer silence says nothing: an
idle consumer does not commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streaming.wire.events import Evidence, GroupObserved, ObservedMember

SOURCE = "offset-commits"
#: ``group.consumer.session.timeout.ms`` of the broker: KIP-848 members do not name theirs.
DEFAULT_SESSION_TIMEOUT_MS = 45_000
#: Silence of more than this many session timeouts is taken for idleness.
_IDLE_FACTOR = 2


class Ownership:
    """Who has held each partition of a group since when, and when it was last committed; times in ms."""

    __slots__ = ("_committed", "_held")

    def __init__(self) -> None:
        self._held: dict[tuple[str, int], tuple[str, int]] = {}
        self._committed: dict[tuple[str, int], int] = {}

    def commit(self, topic: str, partition: int, timestamp: int | None) -> None:
        """An offset was committed, or (None) removed."""
        if timestamp is None:
            self._committed.pop((topic, partition), None)
        else:
            self._committed[topic, partition] = timestamp

    def observe(self, now: GroupObserved) -> None:
        """A new view of the group."""
        held: dict[tuple[str, int], tuple[str, int]] = {}
        for member in now.members:
            for topic, partitions in member.assigned.items():
                for partition in partitions:
                    before = self._held.get((topic, partition))
                    kept = before is not None and before[0] == member.member_id
                    held[topic, partition] = before if kept and before else (member.member_id, now.timestamp)
        self._held = held

    def last_commit(self, member: ObservedMember) -> int | None:
        """When the member last committed what it holds; None: never since it holds it."""
        times = []
        for topic, partitions in member.assigned.items():
            for partition in partitions:
                holder = self._held.get((topic, partition))
                committed = self._committed.get((topic, partition))
                if holder and committed and holder[0] == member.member_id and committed >= holder[1]:
                    times.append(committed)
        return max(times, default=None)


def infer(before: GroupObserved, now: GroupObserved, ownership: Ownership) -> list[Evidence]:
    """Evidence for members of ``before`` that are gone ``now``; ``ownership`` as it was with ``before``."""
    evidence = []
    for member in gone(before, now):
        last = ownership.last_commit(member)
        if last is None:
            continue
        timeout = member.session_timeout_ms or DEFAULT_SESSION_TIMEOUT_MS
        silence = max(0, now.timestamp - last)
        if silence < timeout:
            kind = "member.left"
        elif silence <= _IDLE_FACTOR * timeout:
            kind = "member.fenced"
        else:
            continue
        reason = f"last offset commit {silence} ms before it was gone, session timeout {timeout} ms"
        evidence.append(Evidence(source=SOURCE, reason=reason, member_ids=[member.member_id], kind=kind))
    return evidence


def gone(before: GroupObserved, now: GroupObserved) -> Iterable[ObservedMember]:
    """Members of ``before`` that are not in ``now``, not even as the same instance under a new id."""
    ids = {member.member_id for member in now.members}
    instances = {member.group_instance_id for member in now.members} - {None}
    return [m for m in before.members if m.member_id not in ids and m.group_instance_id not in instances]


def unexplained(inferred: Iterable[Evidence], logged: Iterable[Evidence]) -> list[Evidence]:
    """The inferred evidence about members whose end no log line explains: what a broker says is no guess."""
    explained: Mapping[str, None] = dict.fromkeys(
        member
        for item in logged
        if item.kind in ("member.left", "member.fenced")
        for member in item.member_ids
    )
    return [item for item in inferred if not all(member in explained for member in item.member_ids)]
