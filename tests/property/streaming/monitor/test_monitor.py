"""Diffs are consistent for any events (after = kept + assigned), and do not depend on batches."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from assignors.errors import MonitorError
from streaming.monitor.group import apply
from streaming.monitor.outputs import DiffOutput, Output
from streaming.monitor.state import GroupState
from streaming.records.events import Event, EventData, GroupObserved, MemberJoined, ObservedMember, Partitions
from tests.support.groups import topic_partitions
from tests.support.histories import check_diff_algebra, log_by_partition, partitions_after
from tests.support.pure_stream import by_key, run
from tests.support.recorded import membership_log

#: Each member's partitions.
Shares = dict[str, Partitions]


def _shares_at_begin(
    state: GroupState | None, data: EventData, owned_shares: Shares, *, has_later_round: bool
) -> Shares:
    """Return each member's partitions at the beginning of the rebalance.

    A static member that rejoins under another id keeps its partitions. A new member's claim counts for partitions
    without an owner. Earlier diffs show neither of these two cases.
    """
    if isinstance(data, GroupObserved):
        arriving_members: Sequence[MemberJoined | ObservedMember] = data.members
    elif isinstance(data, MemberJoined) and not (state is not None and state.observed):
        arriving_members = [data]
    else:
        return owned_shares
    instance_ids = {member.member_id: member.instance_id for member in state.members} if state is not None else {}
    owned_shares = {name: owned_shares.get(name, {}) for name in instance_ids}
    instances = {
        member.group_instance_id: member.member_id
        for member in arriving_members
        if member.group_instance_id is not None
    }
    present = {member.member_id for member in arriving_members}
    new_ids = {name: instances[by] for name, by in instance_ids.items() if by in instances and name not in present}
    owned_shares = {new_ids.get(name, name): share for name, share in owned_shares.items()}
    for member in arriving_members if has_later_round else ():
        if member.member_id not in owned_shares:
            owned_shares[member.member_id] = _unowned_partitions(member.owned, owned_shares)
    return owned_shares


def _unowned_partitions(claim: Partitions, owned_shares: Shares) -> Partitions:
    owned_partitions = {*topic_partitions(owned_shares.values())}
    free = {topic: [p for p in partitions if (topic, p) not in owned_partitions] for topic, partitions in claim.items()}
    return {topic: partitions for topic, partitions in free.items() if partitions}


def _members_without_generation(outputs: Iterable[Output]) -> list[str]:
    """Return the members that did not receive the previous generation, according to the evidence in the diffs."""
    undelivered = [output.diff.undelivered for output in outputs if isinstance(output, DiffOutput)]
    return [name for undelivered in undelivered if undelivered for name in undelivered.evidence.member_ids]


def _check(log: Iterable[Event]) -> int:
    """Check every diff of one group against the previous diff; return the number of diffs."""
    state: GroupState | None = None
    owned_shares: Shares = {}
    shares_before: Shares = {}
    ids: list[str] = []
    for event in log:
        try:
            after, outputs = apply(state, event)
        except MonitorError:
            continue
        if after is not state:
            has_diff = any(isinstance(output, DiffOutput) for output in outputs)
            owned_shares = owned_shares | {
                name: shares_before.get(name, {}) for name in _members_without_generation(outputs)
            }
            owned_shares = _shares_at_begin(state, event.data, owned_shares, has_later_round=has_diff)
        state = after
        for output in outputs:
            if isinstance(output, DiffOutput):
                ids.append(output.id)
                check_diff_algebra(output.diff)
                owned = {name: member.owned for name, member in output.diff.members.items() if member.owned}
                assert owned == {name: share for name, share in owned_shares.items() if share}
                owned_shares, shares_before = partitions_after(output.diff), owned
    assert len(set(ids)) == len(ids)
    return len(ids)


@given(seed=st.integers(0, 10**9))
@settings(max_examples=20)
def test_diffs_are_consistent_and_start_where_the_last_ended(seed: int) -> None:
    groups: dict[str, list[Event]] = defaultdict(list)
    for event in membership_log(300, 9, seed):
        groups[event.data.group_id].append(event)
    assert sum(map(_check, groups.values()))


@given(seed=st.integers(0, 10**9), batch=st.sampled_from((1, 3, 50)), buckets=st.sampled_from((1, 4, 16)))
@settings(max_examples=15)
def test_output_does_not_depend_on_batches_or_buckets(seed: int, batch: int, buckets: int) -> None:
    log = log_by_partition(membership_log(150, 9, seed), 4)
    assert by_key(run(log, batch=batch, buckets=buckets)) == by_key(run(log, batch=10_000, buckets=1))
