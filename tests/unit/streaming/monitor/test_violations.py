import pytest

from assignors.assignment import collect_lists
from streaming.monitor.rounds import violations_of
from streaming.monitor.state import GroupState, MemberState, TopicState


def state(*members: MemberState, **counts: int) -> GroupState:
    return GroupState(members=members, topics={name: TopicState(count) for name, count in counts.items()})


@pytest.mark.parametrize(
    ("group", "lines"),
    [
        (state(MemberState("a", ["t"], owned={"t": [0, 1]}), t=2), []),
        (state(MemberState("a", ["t"], owned={"t": [0, 2]}), t=2), ["a is given t-2, but t has 2 partitions"]),
        (state(MemberState("a", ["t"], owned={"t": [7]})), []),
        (state(MemberState("a", ["t"], owned={"t": [7]}), t=0), []),
        (state(MemberState("a", [], owned={"t": [0]}), t=1), []),
        (state(MemberState("a", ["u"], owned={"t": [0]}), t=1), ["a is given t-0 without subscribing to t"]),
        (
            state(MemberState("a", ["t"], owned={"t": [0]}), MemberState("b", ["t"], owned={"t": [0]}), t=1),
            ["t-0 given to a and to b"],
        ),
    ],
)
def test_each_line_names_member_and_partitions(group: GroupState, lines: list[str]) -> None:
    assert violations_of(group, collect_lists(member.owned for member in group.members)) == lines
