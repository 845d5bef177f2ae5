"""The fast sticky builders against the Java classes, on random small groups; hypothesis shrinks differences."""

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from assignors.model import Member, Topic
from assignors.registry import find
from tests.oracle.driver import Oracle
from tests.support.groups import assignment_lists, groups

#: Kafka throws or loops forever on some groups (docs/design/sticky.md); all other groups are small and quick.
UNANSWERED_ERRORS = {"java.lang.NullPointerException", "oracle.Timeout"}
LIMIT_MS = 500


def oracle_request(assignor: str, topics: dict[str, Topic], members: Sequence[Member]) -> dict[str, Any]:
    return {
        "family": "classic",
        "assignor": assignor,
        "limitMs": LIMIT_MS,
        "topics": {name: {"partitions": topic.partitions} for name, topic in topics.items()},
        "members": [
            {
                "memberId": member.member_id,
                "instanceId": None,
                "rackId": None,
                "topics": list(member.topics),
                "owned": member.owned,
                "generation": member.generation,
            }
            for member in members
        ],
    }


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(group=groups(), assignor=st.sampled_from(("sticky", "cooperative-sticky")))
def test_sticky_assignments_equal_those_of_the_jar(
    oracle: Callable[[str], Oracle], group: tuple[dict[str, Topic], list[Member]], assignor: str
) -> None:
    (answer,) = oracle("current").ask([oracle_request(assignor, *group)])
    if "error" in answer:
        assert answer["error"]["type"] in UNANSWERED_ERRORS, answer
        assume(condition=False)
    assert assignment_lists(find("classic", assignor).assign(*group)) == answer["assignment"]
