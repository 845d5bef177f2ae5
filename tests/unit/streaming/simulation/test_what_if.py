"""What-if analysis of a live group: the assignment by each assignor after a change, and its uncertainties."""

from random import Random

import pytest

from assignors import registry
from assignors.assignment import as_lists
from assignors.errors import BadInput
from assignors.model import Member, Topic
from streaming.protocols.vocabulary import Client, Owner
from streaming.records.diffs import MemberNames
from streaming.records.events import Holding
from streaming.simulation import what_if
from streaming.simulation.forecast import Way as CostWay
from streaming.simulation.forecast import simulate_cost
from streaming.simulation.live_group import LiveGroup, LiveMember
from streaming.simulation.scenario import Scenario, ScenarioEvent
from streaming.simulation.what_if import GroupChange, ProtocolAssignor, apply_change, previews

EAGER, COOPERATIVE = ProtocolAssignor("eager", "range"), ProtocolAssignor("cooperative", "cooperative-sticky")
UNIFORM = what_if.PROTOCOL_ASSIGNORS[4]


def member(name: str, owned: Holding, *, topics: tuple[str, ...] = ("t",), **more: object) -> LiveMember:
    names = {"member_id": f"{name}-00000000-0000-4000-8000-000000000000", "names": MemberNames(client_id=name)}
    fields = names | {"topics": topics, "owned": owned, "generation": 5} | more
    return LiveMember(**fields)  # type: ignore[arg-type]


def group(*members: LiveMember, assignor: str = "range", kind: str = "consumer", t: int = 4) -> LiveGroup:
    protocol = "consumer" if assignor == "uniform" else "classic"
    topics = {"t": Topic("t", t), "u": Topic("u", 2)}
    return LiveGroup("g", kind, protocol, assignor, 5, 9, members, topics)


def group_of_two(assignor: str = "range") -> LiveGroup:
    return group(member("a", {"t": [0, 1]}), member("b", {"t": [2, 3]}), assignor=assignor)


def shares_by_name(group: LiveGroup, preview: what_if.Preview) -> dict[str, dict[str, list[int]]]:
    return {
        group.names[member_id]: {topic: list(ps) for topic, ps in share.items()}
        for member_id, share in preview.assignment.items()
    }


def test_balanced_group_without_changes_is_unchanged() -> None:
    outlook_by_way = {item.way: item for item in previews(apply_change(group_of_two(), GroupChange()))}
    assert list(outlook_by_way) == list(what_if.PROTOCOL_ASSIGNORS)
    assert [item.way for item in outlook_by_way.values() if item.own] == [EAGER]
    own = outlook_by_way[EAGER]
    assert (own.moved, own.newly_assigned, own.unowned) == (0, 0, 0)
    assert (own.most, own.least, own.inexact) == (2, 2, ())
    assert outlook_by_way[ProtocolAssignor("eager", "roundrobin")].moved == 2


def test_one_member_joins_and_one_leaves() -> None:
    change = apply_change(group_of_two(), GroupChange(add=("c",), remove=("a",)))
    result = what_if.preview(change, EAGER)
    assert shares_by_name(change.after, result) == {"b": {"t": [0, 1]}, "c": {"t": [2, 3]}}
    assert (result.moved, result.rounds, result.exact_rounds) == (4, 1, True)
    sticky = what_if.preview(change, ProtocolAssignor("eager", "sticky"))
    assert shares_by_name(change.after, sticky)["b"] == {"t": [2, 3]}
    assert sticky.moved == 2


def test_cooperative_group_assigns_in_a_second_round() -> None:
    change = apply_change(group_of_two("cooperative-sticky"), GroupChange(add=("c",)))
    result = what_if.preview(change, COOPERATIVE)
    assert (result.own, result.rounds, result.moved, result.unowned) == (True, 2, 1, 0)
    change = apply_change(group_of_two("cooperative-sticky"), GroupChange(remove=("a",)))
    assert what_if.preview(change, COOPERATIVE).rounds == 1


def test_more_partitions_or_other_topics_are_assigned() -> None:
    grown = apply_change(group_of_two(), GroupChange(partitions={"t": 6}))
    assert shares_by_name(grown.after, what_if.preview(grown, EAGER)) == {"a": {"t": [0, 1, 2]}, "b": {"t": [3, 4, 5]}}
    assert what_if.preview(grown, EAGER).newly_assigned == 2
    change = apply_change(group_of_two(), GroupChange(subscribe=("u", "v"), partitions={"v": 1}))
    assert shares_by_name(change.after, what_if.preview(change, EAGER)) == {"a": {"u": [0], "v": [0]}, "b": {"u": [1]}}


def test_new_partitions_lack_racks_and_new_members_balance() -> None:
    racks = (("r1",), ("r2",), ("r1",), ("r2",))
    members = [member("a", {"t": [0, 2]}, rack_id="r1"), member("b", {"t": [1, 3]}, rack_id="r2")]
    live = group(*members)._replace(topics={"t": Topic("t", 4, racks)})
    own = what_if.preview(apply_change(live, GroupChange()), EAGER)
    assert (own.moved, own.rack_local_counts) == (0, (4, 4))
    change = apply_change(live, GroupChange(partitions={"t": 6}, add=("c",)))
    assert change.after.topics["t"].racks == (*racks, (), ())
    assert [member.rack_id for member in change.after.members] == ["r1", "r2", "r1"]
    assert change.notes == ("new members are assumed to be in the racks with the fewest members",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (GroupChange(remove=("x",)), "--remove x: no member has this name; there are a, b"),
        (GroupChange(remove=("a", "b")), "--remove: no member is left; keep a member, or add one with --add"),
        (GroupChange(partitions={"t": 3}), "--partitions t=3: it has 4 partitions, and Kafka can't remove partitions"),
        (GroupChange(partitions={"x": 3}), "--partitions x=3: no member subscribes to x"),
        (
            GroupChange(subscribe=("x",)),
            "--subscribe x: its partition count is not in the membership log; give it with --partitions x=N",
        ),
    ],
)
def test_impossible_change_is_refused_with_the_option(changes: GroupChange, message: str) -> None:
    with pytest.raises(BadInput) as problem:
        apply_change(group_of_two(), changes)
    assert str(problem.value) == message


def test_namesakes_are_distinguished_by_ids() -> None:
    members_of_one_name = [member("a", {}, member_id=f"a-0000000{n}-0000-4000-8000-000000000000") for n in range(2)]
    with pytest.raises(BadInput, match="--remove a: 2 members have this name; there are a "):
        apply_change(group(*members_of_one_name), GroupChange(remove=("a",)))
    change = apply_change(group(*members_of_one_name), GroupChange(remove=(members_of_one_name[0].member_id,)))
    assert change.after.members == (members_of_one_name[1],)


@pytest.mark.parametrize("kind", ["connect", "streams", "share"])
def test_other_kinds_of_groups_are_rejected(kind: str) -> None:
    with pytest.raises(BadInput, match=f"its kind is {kind}"):
        apply_change(group(kind=kind), GroupChange())


def test_custom_assignor_cannot_be_simulated() -> None:
    assert apply_change(group_of_two("StreamsPartitionAssignor"), GroupChange()).own is None
    assert apply_change(group_of_two("uniform"), GroupChange()).own == UNIFORM
    assert not any(item.own for item in previews(apply_change(group_of_two("mine"), GroupChange())))


def test_static_members_are_joined_by_static_members() -> None:
    static_members = [
        member(name, {"t": ps}, names=MemberNames(client_id="c", group_instance_id=name))
        for name, ps in (("a", [0, 1]), ("b", [2, 3]))
    ]
    change = apply_change(group(*static_members), GroupChange(add=("aa",)))
    assert [member.names.group_instance_id for member in change.after.members] == ["a", "b", "aa"]
    result = what_if.preview(change, EAGER)
    assert result.inexact == ()
    assert shares_by_name(change.after, result) == {"a": {"t": [0, 1]}, "aa": {"t": [2]}, "b": {"t": [3]}}
    with pytest.raises(BadInput, match="--add a: a member has this name already"):
        apply_change(group(*static_members), GroupChange(add=("a",)))


def test_inexact_what_if_results_state_the_reason() -> None:
    random_ids_reason = "ids of new members are random: interchangeable members may swap partitions"
    reason = "members get other ids under this protocol: interchangeable members may swap partitions"
    outlook = previews(apply_change(group_of_two(), GroupChange(add=("c",))))
    reasons_by_way = {item.way: item.inexact for item in outlook}
    assert reasons_by_way[EAGER] == ()  # the new member's name alone decides its position
    assert random_ids_reason in reasons_by_way[ProtocolAssignor("eager", "sticky")]
    assert reason in reasons_by_way[UNIFORM]
    assert "topic ids are unknown: their order, and so tie-breaks, may differ" in reasons_by_way[UNIFORM]
    outlook_with_alike_members = apply_change(group_of_two(), GroupChange(add=("a",)))
    assert what_if.preview(outlook_with_alike_members, EAGER).inexact == (random_ids_reason,)
    unequal_group = group(member("a", {}, topics=("t",)), member("b", {}, topics=("u",)))
    assert apply_change(unequal_group, GroupChange(add=("c",))).notes == (
        "members subscribe to different topics: new ones to those of a",
    )


def test_refusing_assignor_reports_why() -> None:
    group_of_one_id = group(member("a", {"t": [0]}), member("b", {"t": [1]}, member_id=member("a", {}).member_id))
    problems = {item.problem for item in previews(apply_change(group_of_one_id, GroupChange()))}
    assert None not in problems
    assert all("a-00000000-0000-4000-8000-000000000000' is listed twice" in str(problem) for problem in problems)


@pytest.mark.parametrize("seed", range(30))
def test_leave_in_a_what_if_equals_the_simulated_protocol(seed: int) -> None:
    """A leave in ``what-if`` has the partitions, rounds and moves of a simulation, under each classic protocol.

    The consumer protocol is left out, because the simulation chooses its own random member ids there.
    """
    random = Random(seed)
    names = [f"m{number:02}" for number in random.sample(range(100), random.randint(2, 6))]
    topics = {"t": Topic("t", random.randint(1, 12)), "u": Topic("u", random.randint(1, 5))}
    gone = random.choice(names)
    for way in what_if.PROTOCOL_ASSIGNORS[:4]:
        start = registry.find("classic", way.assignor).assign(topics, [Member(name, tuple(topics)) for name in names])
        owned = {name: {topic: list(ps) for topic, ps in start[name].items() if ps} for name in names}
        members = [member(name, owned[name], member_id=name, topics=tuple(topics)) for name in names]
        live = LiveGroup("g", "consumer", "classic", way.assignor, 5, 9, tuple(members), topics)
        expected = what_if.preview(apply_change(live, GroupChange(remove=(gone,))), way)
        scenario = Scenario(
            topics,
            (ScenarioEvent(1, 1500, "leave", gone),),
            tuple(Owner(Client(name, tuple(topics)), owned[name], name) for name in names),
            generation=5,
        )
        result = simulate_cost(scenario, CostWay(way.protocol, way.protocol, way.assignor)).simulation.result
        assert (result.round_count, result.moved) == (expected.rounds, expected.moved)
        for name, member_share in result.rounds[-1].after.items():
            assert as_lists(expected.assignment[name]) == as_lists(member_share), (way, name)
