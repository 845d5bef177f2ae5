from __future__ import annotations

from assignors.assignment import AssignmentDiff, as_lists, count_moved, diff, diff_members, owners, size


def test_nothing_to_something() -> None:
    assert diff({}, {"t": range(3)}) == AssignmentDiff({}, {"t": [0, 1, 2]}, {})


def test_something_to_nothing() -> None:
    assert diff({"t": [0, 2]}, {}) == AssignmentDiff({"t": [0, 2]}, {}, {})


def test_unchanged_keeps_the_same_lists() -> None:
    owned = {"t": [0, 1], "u": [4]}
    change = diff(owned, {"t": [0, 1], "u": [4]})
    assert change == AssignmentDiff({}, {}, owned)
    assert change.kept["t"] is owned["t"]


def test_a_range_equals_the_list_of_the_same_partitions() -> None:
    assert diff({"t": [0, 1, 2]}, {"t": range(3)}) == AssignmentDiff({}, {}, {"t": [0, 1, 2]})
    assert diff({"t": range(3)}, {"t": [0, 1, 2]}) == AssignmentDiff({}, {}, {"t": [0, 1, 2]})


def test_some_stay_some_go_some_come() -> None:
    assert diff({"t": [0, 1, 4], "u": [0], "w": [7]}, {"t": [1, 2, 4], "v": [9], "w": [7]}) == AssignmentDiff(
        revoked={"t": [0], "u": [0]}, assigned={"t": [2], "v": [9]}, kept={"t": [1, 4], "w": [7]}
    )


def test_empty_topics_are_left_out() -> None:
    assert diff({"t": [], "u": [1]}, {"t": [2], "u": [], "v": []}) == AssignmentDiff({"u": [1]}, {"t": [2]}, {})
    assert diff({"t": []}, {"t": []}) == AssignmentDiff({}, {}, {})
    assert diff({"t": []}, {"t": range(0)}) == AssignmentDiff({}, {}, {})


def test_members_on_one_side_only() -> None:
    assert diff_members({"a": {"t": [0]}}, {"b": {"t": [0]}}) == {
        "a": AssignmentDiff({"t": [0]}, {}, {}),
        "b": AssignmentDiff({}, {"t": [0]}, {}),
    }


def test_moved_counts_changed_owners_only() -> None:
    before = {"a": {"t": [0, 1]}, "b": {"t": [2]}}
    after = {"a": {"t": [0, 2]}, "b": {"t": [1], "u": [0]}, "c": {"t": [3]}}
    assert count_moved(before, after) == 2
    assert owners(after) == {"t": {0: "a", 2: "a", 1: "b", 3: "c"}, "u": {0: "b"}}


def test_shares_are_counted_and_listed_without_empty_topics() -> None:
    assert as_lists({"t": range(2), "u": ()}) == {"t": [0, 1]}
    assert size({"t": range(2), "u": [5]}) == 3
