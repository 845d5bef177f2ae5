"""Infers why a group rebalanced, from the offsets topic alone.

The topic has no reasons, but a member commits offsets until it leaves. Let S be its session timeout, I the longest
time between two of its heartbeats, C the time of its last commit and R the time of its removal. A member that
committed at C had sent a heartbeat after C − I, so its session could not expire before C − I + S:

- R − C < S − I proves that it did not expire.
- If R − C ≥ S − I, a crash and a leave are both possible: a member with nothing to commit is silent as well.

A commit is not a heartbeat: under KIP-848 never, under the classic protocol not within a transaction (the
coordinator's ``commitOffset`` extends a classic session, its ``commitTransactionalOffset`` does not). Sources of S
and I:

- classic: the group record contains S; I is at most S / 3, which Kafka advises for ``heartbeat.interval.ms``.
- KIP-848: records contain neither, but the brokers' limits hold for all groups
  (``group.consumer.min.session.timeout.ms``, ``group.consumer.max.heartbeat.interval.ms``).

A KIP-848 member that does not revoke partitions in time is fenced although it commits, so nothing is proved about a
member with pending revocations. And R is known only if the previous generation is, so unread generations give no
evidence.

A classic member that committed nothing for S, and not for much longer, most likely crashed, and counts as fenced; the
reason says that this is an inference. Longer silence proves nothing: an idle consumer does not commit.
"""

from collections.abc import Iterable

from streaming.collect.partition_owners import PartitionOwners
from streaming.records.events import PROBING, Evidence, GroupObserved, ObservedMember

COMMIT_SOURCE = "offset-commits"
#: The evidence kind of a removal that is either a crash or a leave.
UNSURE_CAUSE = "group.observed"


def departure_evidence(
    before: GroupObserved, now: GroupObserved, owners: PartitionOwners, max_silence_ms: int | None
) -> list[Evidence]:
    """Return evidence about the members of the previous snapshot ``before`` that are missing in ``now``.

    ``owners`` has the commits until ``before``; within ``max_silence_ms`` after a commit, no session of a KIP-848
    member can expire (None: unknown).
    """
    if now.generation is not None and now.generation > (before.generation or 0) + 1:
        return []  # a generation was not read, and the missing members may have left in that generation
    return removal_evidence(departed(before, now), now.timestamp, now.group_protocol, owners, max_silence_ms)


def removal_evidence(
    members: Iterable[ObservedMember], at: int, protocol: str, owners: PartitionOwners, max_silence_ms: int | None
) -> list[Evidence]:
    """Return evidence about removed ``members``; ``at``: time of the removal (ms); see :func:`departure_evidence`."""
    evidence = []
    for member in members:
        last_commit, timeout = owners.last_commit(member), member.session_timeout_ms
        if last_commit is None:
            continue
        silence_ms = max(0, at - last_commit)
        max_alive_ms = max_silence_ms if timeout is None else timeout - timeout // 3
        reason = f"last offset commit {silence_ms} ms before it was gone"
        if timeout is not None:
            reason += f", session timeout {timeout} ms"
        kind = UNSURE_CAUSE
        if member.pending_revocation:
            reason += "; it still had partitions to give up: can't tell a crash from a leave"
        elif max_alive_ms is not None and silence_ms < max_alive_ms:
            kind = "member.left"
            reason += f": its session can't have run out within {max_alive_ms} ms, it left"
        elif protocol == "classic" and timeout is not None and silence_ms >= timeout:
            if silence_ms > 2 * timeout:
                continue  # the member is idle
            kind = "member.fenced"
            reason += ": most likely its session ran out"
        else:
            reason += ": can't tell a crash from a leave"
        evidence.append(Evidence(source=COMMIT_SOURCE, reason=reason, member_ids=[member.member_id], kind=kind))
    return evidence


def departed(before: GroupObserved, now: GroupObserved) -> Iterable[ObservedMember]:
    """Return the members of ``before`` whose member id and group.instance.id are both missing in ``now``."""
    ids = {member.member_id for member in now.members}
    instances = {member.group_instance_id for member in now.members} - {None}
    return [m for m in before.members if m.member_id not in ids and m.group_instance_id not in instances]


def unexplained_evidence(inferred_evidence: Iterable[Evidence], logged: Iterable[Evidence]) -> list[Evidence]:
    """Return the inferred evidence about members whose removal the brokers' logs do not explain."""
    removal_evidence = (item for item in logged if item.kind in ("member.left", "member.fenced"))
    explained = {member_id for item in removal_evidence for member_id in item.member_ids}
    return [item for item in inferred_evidence if not item.member_ids or not explained.issuperset(item.member_ids)]


def probing_rebalance(before: GroupObserved, now: GroupObserved) -> list[Evidence]:
    """Return evidence of a probing rebalance that a Streams group's leader scheduled (``AssignmentInfo``)."""
    return [
        Evidence(
            source="assignment-info",
            reason=f"probing rebalance: scheduled for {at} ms, when warm-up tasks may have caught up",
            member_ids=[member.member_id],
            kind=PROBING,
        )
        for member in before.members
        # 0: rejoin at once to move revoked tasks, which is not a probing rebalance.
        if (at := member.next_rebalance_ms) and at <= now.timestamp
    ]
