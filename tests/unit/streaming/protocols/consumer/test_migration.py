"""Classic to consumer and back, online: whole rounds."""

from __future__ import annotations

from tests.support.machines import after, played, told

TEXT = """
topics: {p: 4}
events:
  - {at: 0, join: c1, group_protocol: classic}
  - {at: 0, join: c2, group_protocol: classic}
  - {at: 60000, bounce: c2, down_ms: 5000, group_protocol: consumer}
  - {at: 120000, leave: c2}
"""


def owns(**shares: list[int]) -> dict[str, dict[str, list[int]]]:
    return {name: {"p": share} if share else {} for name, share in shares.items()}


def test_the_first_consumer_member_converts_the_group_and_the_last_one_converts_it_back() -> None:
    rounds = played(TEXT, "consumer")["rounds"]
    assert [(told(one), after(one)) for one in rounds] == [
        ((1, 1, "member.joined", ["c1", "c2"]), owns(c1=[0, 1], c2=[2, 3])),
        ((2, 1, "member.left", ["c2"]), owns(c1=[0, 1, 2, 3], c2=[])),
        # The generation goes on as the group epoch.
        ((3, 1, "member.joined", ["c2"]), owns(c1=[0, 1], c2=[])),
        ((3, 2, "member.joined", ["c2"]), owns(c1=[0, 1], c2=[2, 3])),
        # And the epoch as the generation: the classic members that are left rebalance.
        ((4, 1, "member.left", ["c2"]), owns(c1=[0, 1, 2, 3], c2=[])),
    ]


def test_members_of_both_protocols_may_crash_at_one_instant() -> None:
    text = TEXT.replace("{at: 120000, leave: c2}", "{at: 65001, crash: c1}\n  - {at: 65001, crash: c2}")
    rounds = played(text, "consumer")["rounds"]
    assert after(rounds[-1]) == {"c1": {}}
