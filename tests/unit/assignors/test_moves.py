"""Moved partitions: those that another member owned before."""

from __future__ import annotations

from assignors.assignment import track_owners
from tests.support.histories import change


def test_partition_given_up_and_reassigned_has_moved() -> None:
    members = {"a": change({"t": [0, 1]}, revoked={"t": [1]}), "b": change(assigned={"t": [1, 2]})}
    assert track_owners({}, members) == ({}, {"t": [1]})


def test_unassigned_partition_keeps_its_last_owner() -> None:
    members = {"a": change({"t": [0, 1]}, revoked={"t": [1]})}
    assert track_owners({"u": {0: "b"}}, members) == ({"t": {1: "a"}, "u": {0: "b"}}, {})


def test_partition_returned_to_its_last_owner_has_not_moved() -> None:
    free = {"t": {0: "a", 1: "gone"}}
    assert track_owners(free, {"a": change(assigned={"t": [0, 1]})}) == ({}, {"t": [1]})
    assert free == {"t": {0: "a", 1: "gone"}}
