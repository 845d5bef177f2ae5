import pytest

from assignors.invariants import RULES, Violation, check, make_group, rules_for
from assignors.model import Assignment, Member, Topic

T = {"t": Topic("t", 4), "u": Topic("u", 2), "gone": Topic("gone", 0)}
A, B = Member("a", ("t", "u")), Member("b", ("t", "u"))


def rule(name: str, members: list[Member], assignment: Assignment, assignor: str = "sticky") -> list[str]:
    return [str(v) for v in RULES[name](make_group("classic", assignor, T, members, assignment))]


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ({"a": {"t": range(4)}, "b": {"u": [0, 1]}}, []),
        ({"a": {"t": [0, 1, 2]}, "b": {"t": [2, 3], "u": [0, 1]}}, ["valid: t-2 given to a and to b"]),
        ({"a": {"t": [0, 1, 1, 2, 3]}, "b": {"u": [0, 1]}}, ["valid: a is given t-1 twice"]),
        ({"a": {"t": range(4)}, "b": {"u": [1]}}, ["valid: u-0 given to nobody"]),
        ({"a": {"t": range(5)}, "b": {"u": range(2)}}, ["valid: a is given t-4, but t has 4 partitions"]),
        (
            {"a": {"t": range(4)}, "b": {"u": range(2)}, "c": {"t": []}, "d": {"t": [0]}},
            ["valid: d holds partitions but is not a member", "valid: t-0 given to a and to d"],
        ),
        (
            {"a": {"t": range(4), "gone": [0]}, "b": {"u": range(2)}},
            [
                "valid: a is given gone-0 without subscribing to gone",
                "valid: a is given gone-0, but gone has 0 partitions",
            ],
        ),
    ],
)
def test_invalid_assignment_names_the_partition(assignment: Assignment, expected: list[str]) -> None:
    assert rule("valid", [A, B], assignment) == expected


def test_violation_contains_machine_readable_fields() -> None:
    violations = check("classic", "sticky", T, [A, B], {"a": {"t": range(4)}, "b": {"u": [1]}}, rules=["valid"])
    assert violations == [Violation("valid", "u-0 given to nobody", (), "u", (0,))]


def test_only_owned_partitions_may_be_withheld() -> None:
    owner = Member("a", ("t",), owned={"t": [0, 1, 2]})
    after: Assignment = {"a": {"t": [0, 1]}, "b": {}}
    members = [owner, Member("b", ("t",))]
    assert rule("valid", members, after, "cooperative-sticky") == ["valid: t-3 given to nobody"]
    assert rule("valid", members, after) == ["valid: t-2,3 given to nobody"]
    assert rule("balanced", members, after, "cooperative-sticky") == []


def test_uneven_shares_across_topics_are_not_balanced() -> None:
    after: Assignment = {"a": {"t": range(4)}, "b": {"u": range(2)}}
    assert rule("balanced", [A, B], after) == ["balanced: a owns 4 partitions, b 2; a partition of t could move"]


def test_violations_are_in_order_of_members_topics() -> None:
    names = [f"t{number}" for number in range(20)]
    topics = {name: Topic(name, 4) for name in sorted(names)}
    members = [Member(f"c{number}", tuple(names[number:] + names[:number])) for number in range(3)]
    assignment: Assignment = {"c0": {name: range(4) for name in names}}
    violations = check("classic", "range", topics, members, assignment, rules=["balanced", "valid"])
    assert [violation.topic for violation in violations] == ["t0"]  # each pair of topics gives one violation
    assert [violation.topic for violation in check("classic", "range", topics, members, {}, rules=["valid"])] == names


def test_uneven_shares_forced_by_subscriptions_are_balanced() -> None:
    after: Assignment = {"a": {"t": range(4)}, "b": {"u": range(2)}}
    assert rule("balanced", [Member("a", ("t", "u")), Member("b", ("u",))], after) == []


def test_range_shares_must_be_even_in_each_topic() -> None:
    after: Assignment = {"a": {"t": [0, 1], "u": [0, 1]}, "b": {"t": [2, 3]}}
    assert rule("balanced", [A, B], after, "range") == [
        "balanced: a owns 2 partitions of u, b 0; a partition of u could move"
    ]


def test_moved_partition_of_an_owner_is_not_sticky() -> None:
    owner = Member("a", ("t",), owned={"t": [0, 1]}, generation=3)
    stale = Member("b", ("t",), owned={"t": [1, 2]}, generation=2)
    assert rule("sticky", [owner, stale], {"a": {"t": [0]}, "b": {"t": [1, 2, 3]}}) == [
        "sticky: t-1 moved from a, which owns 1, to b, which owns 3"
    ]
    assert rule("sticky", [owner, stale], {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}) == []


def test_partition_given_before_revocation_is_not_cooperative() -> None:
    members = [Member("a", ("t",), owned={"t": [0, 1]}), Member("b", ("t",))]
    assert rule("cooperative-safe", members, {"a": {"t": [0]}, "b": {"t": [1, 2]}}) == [
        "cooperative-safe: t-1 given to b while a still owns it"
    ]
    assert rule("cooperative-safe", members, {"a": {"t": [0]}, "b": {"t": [2]}}) == []


def test_zookeeper_threads_are_checked_as_members() -> None:
    members = [Member("c", streams={"t": 2, "u": 1})]
    after: Assignment = {"c-0": {"t": [0, 1], "u": [0, 1]}, "c-1": {"t": [2, 3]}}
    assert check("zookeeper", "range", T, members, after) == []
    assert [str(v) for v in check("zookeeper", "range", T, members, {"c-0": {"t": range(4), "u": [0]}})] == [
        "valid: u-1 given to nobody",
        "balanced: c-0 owns 4 partitions of t, c-1 0; a partition of t could move",
    ]


def test_invariants_checked_for_each_assignor() -> None:
    def checked_rules(protocol: str, assignor: str, members: list[Member]) -> list[str]:
        return rules_for(protocol, assignor, make_group(protocol, assignor, T, members, {}))

    unequal_members = [A, Member("c", ("t",))]
    assert checked_rules("classic", "range", unequal_members) == ["valid", "balanced"]
    assert checked_rules("classic", "roundrobin", unequal_members) == ["valid"]
    assert checked_rules("classic", "roundrobin", [A, B]) == ["valid", "balanced"]
    assert checked_rules("classic", "sticky", unequal_members) == ["valid", "balanced"]
    assert checked_rules("classic", "sticky", [A, B]) == ["valid", "balanced", "sticky"]
    assert checked_rules("classic", "cooperative-sticky", unequal_members) == ["valid", "balanced", "cooperative-safe"]
    assert checked_rules("consumer", "uniform", [A, B]) == ["valid", "balanced"]
    assert checked_rules("x", "unknown", [A, B]) == ["valid"]
