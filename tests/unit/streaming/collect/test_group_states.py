"""Listing of rebalancing groups: one request to each broker, failed requests, and users who see no group."""

from typing import Any, Self

import pytest
from kafka.errors import NodeNotReadyError

from streaming.collect import group_states
from streaming.collect.group_states import GroupStates, RebalancingGroups
from streaming.collect.rebalances import ListedGroup
from streaming.settings.connection import KafkaSettings
from tests.support.wait import eventually


class AdminClient:
    """A fake of kafka-python's AdminClient, for a cluster with two brokers."""

    groups: dict[int, list[dict[str, str]]]
    members: dict[str, list[str]]
    away: set[int]
    requests: list[tuple[str, int]]

    def __init__(self, **properties: Any) -> None:
        assert properties["bootstrap_servers"] == ["memory:1"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def describe_cluster(self) -> dict[str, Any]:
        return {"brokers": [{"broker_id": number} for number in self.groups]}

    def list_groups(self, broker_ids: list[int], states_filter: list[str] | None = None) -> list[dict[str, str]]:
        groups = []
        for number in broker_ids:
            self.requests.append(("list" if states_filter else "all", number))
            if number in self.away:
                raise NodeNotReadyError(number)
            groups += self.groups[number]
        return groups

    def describe_groups(self, group_ids: list[str], group_coordinator_id: int) -> dict[str, Any]:
        self.requests.append(("describe", group_coordinator_id))
        if "odd" in group_ids:
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "metadata of a client")
        return {
            group_id: {"error": None, "members": [{"member_id": member_id} for member_id in self.members[group_id]]}
            for group_id in group_ids
        }


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> type[AdminClient]:
    AdminClient.groups, AdminClient.members = {1: [], 2: []}, {}
    AdminClient.away, AdminClient.requests = set(), []
    monkeypatch.setattr(group_states, "KafkaAdminClient", AdminClient)
    monkeypatch.setattr(group_states, "_LIST_INTERVAL_SECONDS", 0.01)
    return AdminClient


def group(group_id: str, state: str = "PreparingRebalance", kind: str = "classic") -> dict[str, str]:
    return {"group_id": group_id, "group_state": state, "group_type": kind, "protocol_type": "consumer"}


def listing(states: GroupStates, number: int = 1) -> RebalancingGroups:
    eventually(lambda: states.latest.number > number)
    return states.latest


def states() -> GroupStates:
    return GroupStates(KafkaSettings(bootstrap_servers="memory:1"), lambda name: name != "unwanted")


def test_groups_of_all_brokers_with_members_of_classic_ones(client: type[AdminClient]) -> None:
    client.groups = {1: [group("a"), group("unwanted")], 2: [group("b", "Reconciling", "consumer")]}
    client.members = {"a": ["m", "n"]}
    with states() as listed:
        listed_states = listing(listed)
    assert listed_states.complete
    assert listed_states.groups == {
        "a": ListedGroup("PreparingRebalance", frozenset({"m", "n"})),
        "b": ListedGroup("Reconciling"),
    }


def test_stable_cluster_costs_one_request_per_broker(client: type[AdminClient]) -> None:
    with states() as listed:
        listing(listed, 4)
    assert client.requests[2:8] == [("list", 1), ("list", 2)] * 3
    assert client.requests[:2] == [("all", 1), ("all", 2)]


def test_a_broker_that_is_away_leaves_the_list_incomplete(
    client: type[AdminClient], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    client.groups = {1: [group("a")], 2: []}
    client.members = {"a": ["m"]}
    with states() as listed:
        assert listing(listed).complete
        client.away = {2}
        eventually(lambda: not listed.latest.complete)
        assert listed.latest.groups.keys() == {"a"}
        client.away = set()
        eventually(lambda: listed.latest.complete)
    assert [line.partition(": ")[2][:9] for line in caplog.messages if "states of groups: " in line] == ["broker 2:"]


def test_undecodable_members_are_left_out(client: type[AdminClient]) -> None:
    client.groups = {1: [group("odd")], 2: []}
    with states() as listed:
        assert listing(listed).groups == {"odd": ListedGroup("PreparingRebalance")}


def test_group_list_is_incomplete_until_a_group_is_visible(client: type[AdminClient]) -> None:
    with states() as listed:
        assert not listing(listed).complete
        client.groups = {1: [group("a")], 2: []}
        client.members = {"a": []}
        eventually(lambda: listed.latest.complete)
