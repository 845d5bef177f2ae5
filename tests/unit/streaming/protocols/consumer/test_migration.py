"""Online migration of a group from the classic to the consumer protocol and back: whole rounds are compared."""

import pytest

from tests.support.machines import after, played, round_summary, scenario, shares_of_p

SCENARIO_TEXT = """
topics: {p: 4}
events:
  - {at: 0, join: c1, group_protocol: classic}
  - {at: 0, join: c2, group_protocol: classic}
  - {at: 60000, bounce: c2, down_ms: 5000, group_protocol: consumer}
  - {at: 120000, leave: c2}
"""


def test_first_consumer_member_converts_and_last_one_reverts() -> None:
    rounds = played(SCENARIO_TEXT, "consumer")["rounds"]
    assert [(round_summary(entry), after(entry)) for entry in rounds] == [
        ((1, 1, "member.joined", ["c1", "c2"]), shares_of_p(c1=[0, 1], c2=[2, 3])),
        ((2, 1, "member.left", ["c2"]), shares_of_p(c1=[0, 1, 2, 3], c2=[])),
        # The generation continues as the group epoch.
        ((3, 1, "member.joined", ["c2"]), shares_of_p(c1=[0, 1], c2=[])),
        ((3, 2, "member.joined", ["c2"]), shares_of_p(c1=[0, 1], c2=[2, 3])),
        # The epoch continues as the generation: the remaining classic members rebalance.
        ((4, 1, "member.left", ["c2"]), shares_of_p(c1=[0, 1, 2, 3], c2=[])),
    ]


def test_members_of_both_protocols_may_crash_at_one_instant() -> None:
    text = SCENARIO_TEXT.replace("{at: 120000, leave: c2}", "{at: 65001, crash: c1}\n  - {at: 65001, crash: c2}")
    rounds = played(text, "consumer")["rounds"]
    assert after(rounds[-1]) == {"c1": {}}


#: Event at the instant of a conversion, or just before it → each round's cause and owners.
STEPS_AT_CONVERSION = {
    "a classic member leaves as the first consumer member comes": (
        ["at: 60000, leave: c2", "at: 60000, join: c3, group_protocol: consumer"],
        [((2, 1, "member.joined", ["c3"]), shares_of_p(c1=[0, 1], c2=[], c3=[2, 3]))],
    ),
    "a classic member's leave is on its way as the first consumer member comes": (
        ["at: 60000, join: c3, group_protocol: consumer", "at: 60002, leave: c2"],
        [
            ((2, 1, "member.joined", ["c3"]), shares_of_p(c1=[0, 1], c2=[], c3=[])),
            ((3, 1, "member.left", ["c2"]), shares_of_p(c1=[0, 1], c3=[2, 3])),
        ],
    ),
    "a classic member is in the middle of its join as the first consumer member comes": (
        ["at: 60000, join: c4, group_protocol: classic", "at: 60000, join: c3, group_protocol: consumer"],
        [
            ((2, 1, "member.joined", ["c3"]), shares_of_p(c1=[0, 1], c2=[2], c3=[])),
            ((3, 1, "member.joined", ["c4"]), shares_of_p(c1=[0], c2=[2], c3=[3], c4=[])),
            ((3, 2, "member.joined", ["c4"]), shares_of_p(c1=[0], c2=[2], c3=[3], c4=[1])),
        ],
    ),
    "a classic member has restarted and joins again as the first consumer member comes": (
        ["at: 60000, bounce: c2, down_ms: 0, group_protocol: classic", "at: 60001, join: c3, group_protocol: consumer"],
        [
            ((2, 1, "member.joined", ["c3"]), shares_of_p(**{"c1": [0, 1], "c2~1": [], "c3": [2, 3]})),
            ((3, 1, "member.joined", ["c2"]), shares_of_p(c1=[0], c2=[], c3=[2, 3])),
            ((3, 2, "member.joined", ["c2"]), shares_of_p(c1=[0], c2=[1], c3=[2, 3])),
        ],
    ),
    "a classic member has crashed, unnoticed, as the first consumer member comes": (
        ["at: 60000, crash: c2", "at: 60001, join: c3, group_protocol: consumer"],
        [((3, 1, "member.joined", ["c3"]), shares_of_p(c1=[0, 1], c2=[], c3=[2, 3]))],
    ),
    "the topic grows as the first consumer member comes": (
        ["at: 60000, join: c3, group_protocol: consumer", "at: 60001, partitions: {p: 6}"],
        [((2, 1, "member.joined", ["c3"]), shares_of_p(c1=[0, 1], c2=[2, 3], c3=[4, 5]))],
    ),
    "all classic members have left before the first consumer member comes": (
        ["at: 60000, leave: c1", "at: 60000, leave: c2", "at: 60001, join: c3, group_protocol: consumer"],
        [
            ((2, 1, "member.left", ["c1", "c2"]), shares_of_p(c1=[], c2=[])),
            ((2, 1, "member.joined", ["c3"]), shares_of_p(c3=[0, 1, 2, 3])),
        ],
    ),
}
FIRST_CONSUMER_JOIN = "at: 60000, join: c3, group_protocol: consumer"
STEPS_BACK_TO_CLASSIC = {
    "a classic member is in the middle of its join as the last consumer member goes": (
        ["at: 119999, join: c4, group_protocol: classic", "at: 120000, leave: c3"],
        [((3, 1, "member.left", ["c3"]), shares_of_p(c1=[0, 1], c2=[2], c3=[], c4=[3]))],
    ),
    "a classic member was about to be counted in as the last consumer member goes": (
        ["at: 119998, join: c4, group_protocol: classic", "at: 120000, leave: c3"],
        [((4, 1, "member.left", ["c3"]), shares_of_p(c1=[0, 1], c2=[2], c3=[], c4=[3]))],
    ),
    "a classic member restarts as a consumer member as the last consumer member goes": (
        ["at: 119998, bounce: c2, down_ms: 2000, group_protocol: consumer", "at: 120000, leave: c3"],
        [
            ((4, 1, "member.left", ["c3"]), shares_of_p(c1=[0, 1, 2, 3], c2=[], c3=[])),
            ((5, 1, "member.joined", ["c2"]), shares_of_p(c1=[0, 1], c2=[])),
            ((5, 2, "member.joined", ["c2"]), shares_of_p(c1=[0, 1], c2=[2, 3])),
        ],
    ),
    "the group is converted once more after the last consumer member has gone": (
        ["at: 120000, leave: c3", "at: 180000, join: c4, group_protocol: consumer"],
        [
            ((3, 1, "member.left", ["c3"]), shares_of_p(c1=[0, 1], c2=[2, 3], c3=[])),
            ((4, 1, "member.joined", ["c4"]), shares_of_p(c1=[0, 1], c2=[2], c4=[])),
            ((4, 2, "member.joined", ["c4"]), shares_of_p(c1=[0, 1], c2=[2], c4=[3])),
        ],
    ),
    "a classic member is paused in the middle of its join as the last consumer member goes": (
        [
            "at: 119998, join: c4, group_protocol: classic",
            "at: 119999, pause: c4, down_ms: 5000",
            "at: 120000, leave: c3",
        ],
        [
            ((3, 1, "member.left", ["c3"]), shares_of_p(c1=[0, 1], c2=[2, 3], c3=[])),
            ((4, 1, "member.joined", ["c4"]), shares_of_p(c1=[0, 1], c2=[2], c4=[3])),
        ],
    ),
    "a classic member leaves just after the last consumer member": (
        ["at: 120000, leave: c3", "at: 120001, leave: c2"],
        [((3, 1, "member.left", ["c3", "c2"]), shares_of_p(c1=[0, 1, 2, 3], c2=[], c3=[]))],
    ),
    "a classic member leaves just before the last consumer member": (
        ["at: 119999, leave: c2", "at: 120000, leave: c3"],
        [((4, 1, "member.left", ["c3"]), shares_of_p(c1=[0, 1, 2, 3], c2=[], c3=[]))],
    ),
    "a classic member has crashed, unnoticed, as the last consumer member goes": (
        ["at: 119999, crash: c2", "at: 120000, leave: c3"],
        [((3, 1, "member.left", ["c3"]), shares_of_p(c1=[0, 1, 2, 3], c2=[], c3=[]))],
    ),
}


def migration_rounds(*events: str) -> list[object]:
    both = [f"at: 0, join: {name}, group_protocol: classic" for name in ("c1", "c2")]
    _, *later = played(scenario("p: 4", *both, *events), "consumer")["rounds"]
    return [(round_summary(entry), after(entry)) for entry in later]


@pytest.mark.parametrize("moment", STEPS_AT_CONVERSION)
def test_migration_converts_every_member(moment: str) -> None:
    events, expected = STEPS_AT_CONVERSION[moment]
    assert migration_rounds(*events) == expected


@pytest.mark.parametrize("moment", STEPS_BACK_TO_CLASSIC)
def test_migration_back_to_classic_is_online_too(moment: str) -> None:
    events, expected = STEPS_BACK_TO_CLASSIC[moment]
    conversion_events = [
        ((2, 1, "member.joined", ["c3"]), shares_of_p(c1=[0, 1], c2=[2], c3=[])),
        ((2, 2, "member.joined", ["c3"]), shares_of_p(c1=[0, 1], c2=[2], c3=[3])),
    ]
    assert migration_rounds(FIRST_CONSUMER_JOIN, *events) == conversion_events + expected
