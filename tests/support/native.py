"""Comparison of the native assignors with Python's."""

from collections.abc import Callable, Sequence

from assignors.errors import MonitorError
from assignors.model import Assignment, Member, Topic
from assignors.registry import find
from tests.support.groups import assignment_lists

NativeAssign = Callable[[dict[str, Topic], Sequence[Member]], Assignment | None]


def compare_with_python(
    protocol: str, assignor: str, native: NativeAssign, topics: dict[str, Topic], members: Sequence[Member]
) -> Assignment | None:
    """Return the assignment of native code if it equals Python's; return None if native code declines the group.

    The next target of the consumer protocol depends on the order of topics, so there it has to be equal as well.
    """
    owned = [assignment_lists({"": member.owned}) for member in members]
    answer = native(topics, members)
    try:
        expected = find(protocol, assignor).python(topics, members)
    except MonitorError:
        assert answer is None
        return None
    if answer is not None:
        assert _ordered(answer, protocol) == _ordered(expected, protocol)
    assert [assignment_lists({"": member.owned}) for member in members] == owned
    return answer


def _ordered(answer: Assignment, protocol: str) -> list[object]:
    lists = assignment_lists(answer).items()
    return [(member, list(share.items()) if protocol == "consumer" else share) for member, share in lists]
