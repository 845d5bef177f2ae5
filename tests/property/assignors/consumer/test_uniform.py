"""Properties of the assignor ``uniform`` for random groups: valid, within quotas, and stable when recomputed."""

from hypothesis import given
from hypothesis import strategies as st

from assignors.invariants import VALID, check
from assignors.registry import find
from tests.oracle.generator import Case
from tests.support.consumer_cases import ConsumerGroups
from tests.support.groups import assignment_lists, group_of

groups = st.builds(lambda seed, equal: ConsumerGroups(seed, equal=equal).fresh(), st.integers(0, 2**32), st.booleans())


@given(groups)
def test_assignments_are_valid_and_follow_every_rule(case: Case) -> None:
    topics, members = group_of(case)
    for assignor in ("uniform", "range"):
        answer = find("consumer", assignor).assign(topics, members)
        assert list(answer) == [member.member_id for member in members]
        assert check("consumer", assignor, topics, members, answer, rules=[VALID]) == []
        assert check("consumer", assignor, topics, members, answer) == []


@given(st.integers(0, 2**32))
def test_homogeneous_members_keep_partitions_within_quota(seed: int) -> None:
    topics, members = group_of(ConsumerGroups(seed, equal=True).fresh())
    answer = find("consumer", "uniform").assign(topics, members)
    total = sum(len(p) for share in answer.values() for p in share.values())
    for member in members:
        owned = {(t, p) for t, ps in member.owned.items() for p in ps if t in member.topics}
        owned = {(t, p) for t, p in owned if topics.get(t) is not None and topics[t].partitions}
        kept = owned & {(t, p) for t, ps in answer[member.member_id].items() for p in ps}
        assert len(kept) >= min(len(owned), total // len(members))


@given(st.integers(0, 2**32))
def test_homogeneous_target_does_not_change_when_recomputed(seed: int) -> None:
    case = ConsumerGroups(seed, equal=True).fresh()
    target = assignment_lists(find("consumer", "uniform").assign(*group_of(case)))
    for member in case["members"]:
        member["owned"] = target[member["memberId"]]
    assert assignment_lists(find("consumer", "uniform").assign(*group_of(case))) == target
