from assignors import registry
from assignors.explain import Decision, Explanation, explain
from assignors.model import Member, Topic

P = {"p": Topic("p", 6)}


def decisions(protocol: str, name: str, topics: dict[str, Topic], *members: Member) -> dict[str, list[Decision]]:
    assignment = registry.find(protocol, name).assign(topics, members)
    return {m: list(e.decisions) for m, e in explain(protocol, name, topics, members, assignment).items()}


def test_first_cooperative_round_is_explained() -> None:
    members = (
        Member("c1", ("p",), owned={"p": [0, 1, 2]}, generation=1),
        Member("c2", ("p",), owned={"p": [3, 4, 5]}, generation=1),
        Member("c3", ("p",)),
    )
    assignment = registry.find("classic", "cooperative-sticky").assign(P, members)
    withheld_reason = "over the member's share: its new owner gets it in the next round, once revoked"
    kept = "owned before, within the member's share"
    first = Decision("kept", "p", (0, 1), kept), Decision("withheld", "p", (2,), withheld_reason)
    second = Decision("kept", "p", (3, 4), kept), Decision("withheld", "p", (5,), withheld_reason)
    assert explain("classic", "cooperative-sticky", P, members, assignment) == {
        "c1": Explanation({"p": [0, 1, 2]}, {"p": [2]}, {}, {"p": [0, 1]}, first),
        "c2": Explanation(
            owned={"p": [3, 4, 5]}, revoked={"p": [5]}, assigned={}, kept={"p": [3, 4]}, decisions=second
        ),
        "c3": Explanation({}, {}, {}, {}, ()),
    }


def test_explanation_of_range_has_the_members_position() -> None:
    assert decisions("classic", "range", {"t": Topic("t", 5)}, Member("c0", ("t",)), Member("c1", ("t",))) == {
        "c0": [Decision("range", "t", (0, 1, 2), "subscriber 1 of 2: 2 each, the first 1 one more")],
        "c1": [Decision("range", "t", (3, 4), "subscriber 2 of 2: 2 each, the first 1 one more")],
    }


def test_rack_aware_range_is_explained() -> None:
    topics = {"t": Topic("t", 2, (("y",), ("x",)))}
    members = Member("a", ("t",), rack_id="x"), Member("b", ("t",), rack_id="y")
    assert decisions("classic", "range", topics, *members) == {
        "a": [Decision("range-rack", "t", (1,), "rack x holds a replica; up to 1 partitions a subscriber")],
        "b": [Decision("range-rack", "t", (0,), "rack y holds a replica; up to 1 partitions a subscriber")],
    }


def test_explanation_of_round_robin_has_the_members_turn() -> None:
    order = "partitions in topic and partition order"
    assert decisions("classic", "roundrobin", {"t": Topic("t", 2)}, Member("b", ("t",)), Member("a", ("t",))) == {
        "b": [Decision("circle", "t", (1,), f"turn of member 2 of 2, {order}")],
        "a": [Decision("circle", "t", (0,), f"turn of member 1 of 2, {order}")],
    }


def test_lost_partitions_are_explained() -> None:
    topics = {"t": Topic("t", 2), "gone": Topic("gone", 0), "u": Topic("u", 1)}
    members = (
        Member("a", ("t", "gone"), owned={"t": [0], "u": [0], "gone": [3]}, generation=1),
        Member("b", ("t", "u"), owned={"t": [0]}, generation=2),
    )
    rules = {(d.rule, d.topic, d.partitions) for d in decisions("classic", "sticky", topics, *members)["a"]}
    assert {("stale-claim", "t", (0,)), ("unsubscribed", "u", (0,)), ("no-metadata", "gone", (3,))} <= rules


def test_zookeeper_threads_are_explained_as_members() -> None:
    assert decisions("zookeeper", "range", {"t": Topic("t", 3)}, Member("c", streams={"t": 2})) == {
        "c-0": [Decision("range", "t", (0, 1), "subscriber 1 of 2: 1 each, the first 1 one more")],
        "c-1": [Decision("range", "t", (2,), "subscriber 2 of 2: 1 each, the first 1 one more")],
    }
