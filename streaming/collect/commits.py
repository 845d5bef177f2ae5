"""What offset commits tell of members that are gone: those that left, and those whose session ran out.

The offsets topic holds no reasons, but a member commits until it goes. With S its session timeout, I the longest
time between two of its heartbeats while it lives, C its last commit and R the moment it was removed:

- The coordinator ends a session S after the last heartbeat. Whoever committed at C was alive then and had sent a
  heartbeat after C − I, so its session could not run out before C − I + S. R − C < S − I proves that it did not.
- From S − I on both are possible: a crashed member was silent for as long, and so was one that had nothing to
  commit and then left. Silence alone proves no crash.

A commit is no heartbeat itself: under KIP-848 never, under the classic protocol not within a transaction (the
coordinator's ``commitOffset`` extends a classic session, its ``commitTransactionalOffset`` does not). So S alone is
no bound under either. Where S and I come from:

- classic: the record names S; I is taken as S / 3, the most that Kafka advises for ``heartbeat.interval.ms``.
- KIP-848: records name neither, and both can be set for each group. What holds for all groups are the brokers'
  own bounds of them (``group.consumer.min.session.timeout.ms``, ``group.consumer.max.heartbeat.interval.ms``). A
  cluster that does not tell those leaves nothing to prove.

A session is not all that ends a membership: a member that is told to give up partitions and does not is fenced
while it heartbeats and commits, so nothing is proved of a member with partitions still to give up (KIP-848). And R
is known only when the generation before is: across generations that were not read nothing is said.

A classic member that was silent for S, and not for much longer, most likely crashed, and is called fenced; the
reason says that this is an inference. Longer silence says nothing: an idle consumer does not commit.
"""

from __future__ import annotations

from collections.abc import Iterable

from streaming.collect.holdings import Holdings
from streaming.records.events import Evidence, GroupObserved, ObservedMember

SOURCE = "offset-commits"
#: The kind of evidence about an end that may have been a crash as well as a leave.
UNSURE = "group.observed"
#: Silence of more than this many session timeouts is taken for idleness.
_IDLE_FACTOR = 2
#: Heartbeats in a session timeout, at least: what Kafka asks of classic consumers.
_HEARTBEATS = 3


def infer(
    before: GroupObserved, now: GroupObserved, holdings: Holdings, surely_alive_ms: int | None
) -> list[Evidence]:
    """Evidence for members of ``before`` that are gone ``now``.

    Args:
        before: the view before.
        now: the view in which they are gone.
        holdings: as it was with ``before``.
        surely_alive_ms: how long no session of a KIP-848 member can run out after a sign of life; None if
            that is not known.
    """
    if now.generation is not None and now.generation > (before.generation or 0) + 1:
        return []  # a generation was not read: it may have gone then
    return ended(gone(before, now), now, holdings, surely_alive_ms)


def ended(
    members: Iterable[ObservedMember], now: GroupObserved, holdings: Holdings, surely_alive_ms: int | None
) -> list[Evidence]:
    """Evidence for members that are gone ``now``; of the view no member is looked at. Else as :func:`infer`."""
    found = (_ended(member, now, holdings.last_commit(member), surely_alive_ms) for member in members)
    return [item for item in found if item is not None]


def _ended(
    member: ObservedMember, now: GroupObserved, last: int | None, surely_alive_ms: int | None
) -> Evidence | None:
    """What its last commit (ms) says of a member that is gone; None if nothing."""
    if last is None:
        return None
    silence = max(0, now.timestamp - last)
    timeout = member.session_timeout_ms
    surely_alive = surely_alive_ms if timeout is None else timeout - timeout // _HEARTBEATS
    said = f"last offset commit {silence} ms before it was gone"
    if timeout is not None:
        said += f", session timeout {timeout} ms"
    kind = UNSURE
    if member.pending_revocation:
        said += "; it still had partitions to give up: can't tell a crash from a leave"
    elif surely_alive is not None and silence < surely_alive:
        kind = "member.left"
        said += f": its session can't have run out within {surely_alive} ms, it left"
    elif now.group_protocol == "classic" and timeout is not None and silence >= timeout:
        if silence > _IDLE_FACTOR * timeout:
            return None
        kind = "member.fenced"
        said += ": most likely its session ran out"
    else:
        said += ": can't tell a crash from a leave"
    return Evidence(source=SOURCE, reason=said, member_ids=[member.member_id], kind=kind)


def gone(before: GroupObserved, now: GroupObserved) -> Iterable[ObservedMember]:
    """Members of ``before`` that are not in ``now``, not even as the same instance under a new id."""
    ids = {member.member_id for member in now.members}
    instances = {member.group_instance_id for member in now.members} - {None}
    return [m for m in before.members if m.member_id not in ids and m.group_instance_id not in instances]


def unexplained(inferred: Iterable[Evidence], logged: Iterable[Evidence]) -> list[Evidence]:
    """The inferred evidence about members whose end no log line explains: what a broker says is no guess."""
    explained = {
        member_id
        for item in logged
        if item.kind in ("member.left", "member.fenced")
        for member_id in item.member_ids
    }
    return [item for item in inferred if not item.member_ids or not explained.issuperset(item.member_ids)]
