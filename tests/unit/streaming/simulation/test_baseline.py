"""Conversion of a live group into the start of a simulated scenario."""

from typing import Any

import pytest

from assignors.model import Topic
from streaming.records.diffs import MemberNames
from streaming.simulation.changes import NoForecast, baseline_of
from streaming.simulation.live_group import LiveGroup, LiveMember
from streaming.simulation.parse import parse_scenario

TOPICS = {"t": Topic("t", 4, None, "AAAAAAAAAAAAAAAAAAAAAQ")}


def member(name: str, *owned: int, instance: str | None = None, **more: Any) -> LiveMember:
    names = MemberNames(client_id=name, group_instance_id=instance)
    fields = {"member_id": f"{name}-id", "names": names, "topics": ("t",), "generation": 7}
    share = {"t": list(owned)} if owned else {}
    timeouts = {"session_timeout_ms": 6000, "rebalance_timeout_ms": 60_000}
    return LiveMember(**{**fields, **timeouts, "owned": share, **more})


def group(*members: LiveMember, **more: Any) -> LiveGroup:
    return LiveGroup("g", "consumer", "classic", "range", 7, 0, members, TOPICS)._replace(**more)


def test_group_starts_from_its_state_with_its_settings() -> None:
    baseline = baseline_of(group(member("b", 0, 1), member("a", 2, 3)))
    assert (baseline.way, baseline.protocol, baseline.assignor, baseline.unsure) == ("eager", "eager", "range", ())
    assert baseline.members == ["b", "a"]
    plan = parse_scenario({**baseline.document, "events": []})
    assert (plan.generation, plan.session_timeout_ms, plan.rebalance_timeout_ms) == (7, 6000, 60_000)
    owned = {member.member_id: member.share for member in plan.members}
    assert list(owned.items()) == [("b-id", {"t": [0, 1]}), ("a-id", {"t": [2, 3]})]


@pytest.mark.parametrize(
    ("members", "assignor", "protocol", "way"),
    [
        ([member("a", 0)], "sticky", "classic", "eager"),
        ([member("a", assignors=("cooperative-sticky",))], "cooperative-sticky", "classic", "cooperative"),
        ([member("a", assignors=("cooperative-sticky", "range"))], "cooperative-sticky", "classic", "eager"),
        ([member("a", instance="a"), member("b", instance="b")], "range", "classic", "static"),
        ([member("a", instance="a"), member("b")], "range", "classic", "eager"),
        ([member("a", instance="a", classic=False)], "uniform", "consumer", "consumer"),
    ],
)
def test_current_protocol_is_derived_from_the_assignors(
    members: list[LiveMember], assignor: str, protocol: str, way: str
) -> None:
    assert baseline_of(group(*members, assignor=assignor, protocol=protocol)).way == way


def test_static_members_that_are_cooperative_stay_so() -> None:
    static_member = member("a", 0, instance="a", assignors=("cooperative-sticky",))
    baseline = baseline_of(group(static_member, assignor="cooperative-sticky"))
    assert (baseline.way, baseline.protocol) == ("static", "cooperative")
    (assumption,) = baseline.unsure
    assert assumption.startswith("1 of 1 members have an instance id")


@pytest.mark.parametrize(
    ("changed", "line_start"),
    [
        ({"assignor": "com.example.Mine"}, "custom assignor com.example.Mine: its assignments can't be computed"),
        ({"assignor": None}, "the group's assignor is not known: range is assumed"),
        ({"unknown": ("topic u: not told",)}, "topic u: not told"),
        (
            {"assignor": "cooperative-sticky"},
            "members' assignor lists are not known: the group is assumed to be cooperative",
        ),
        ({"members": (member("a", session_timeout_ms=None),)}, "no record has the session timeout: the client's"),
        ({"members": (member("a", rebalance_timeout_ms=None),)}, "no record has the rebalance timeout"),
        (
            {"members": (member("a"), member("b", session_timeout_ms=9000))},
            "members' session timeouts differ (6000 to 9000 ms): the longest",
        ),
        ({"members": (member("a", 0), member("b", 0, 1))}, "1 partitions have two owners during this rebalance"),
        (
            {"protocol": "consumer", "assignor": "uniform", "members": (member("a"), member("b", classic=False))},
            "1 of 2 members use the classic protocol",
        ),
    ],
)
def test_assumptions_are_listed_in_a_line(changed: dict[str, Any], line_start: str) -> None:
    (line,) = baseline_of(group(*changed.pop("members", (member("a", 0),)), **changed)).unsure
    assert line.startswith(line_start)


def test_unreported_partitions_come_from_members_assignments() -> None:
    baseline = baseline_of(group(member("a", 0, 5), topics={}))
    assert baseline.document["topics"]["t"]["partitions"] == 6


def test_unknown_topic_ids_are_an_assumption_for_two_topics() -> None:
    (assumption,) = baseline_of(group(member("a", 0, topics=("t", "u")), topics={**TOPICS, "u": Topic("u", 2)})).unsure
    assert assumption.startswith("topic ids are not known")


def test_scenario_names_are_valid_and_distinct() -> None:
    baseline = baseline_of(group(member("a~b"), member("a-b"), member("a\tb")))
    assert baseline.members == ["a-b", "a-b 2", "a-b 3"]
    parse_scenario({**baseline.document, "events": []})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kind": "connect"}, "group g: Connect's leader"),
        ({"kind": "streams"}, "group g: the cost of moving a Kafka Streams task"),
        ({"kind": "share"}, "group g: members of a share group"),
        ({"members": ()}, "group g: it has no members now"),
        ({"topics": {}}, "group g: the partition counts of its topics are unknown"),
    ],
)
def test_groups_without_forecast_are_refused_with_reason(changed: dict[str, Any], message: str) -> None:
    members = changed.pop("members", (member("a"),))
    with pytest.raises(NoForecast, match=message):
        baseline_of(group(*members, **changed))
