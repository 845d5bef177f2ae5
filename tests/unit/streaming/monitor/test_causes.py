"""Generations that the coordinator's log contains but some members did not receive."""

import pytest

from streaming.monitor.bucket_state import TrackedGroup
from streaming.monitor.episodes import update_group
from streaming.monitor.group import apply
from streaming.monitor.outputs import Output, Sinks
from streaming.records.diffs import Diff, MemberDiff
from streaming.records.events import UNDELIVERED, Evidence, Partitions
from tests.support.histories import Log, assignments, diffs, play

SINKS = Sinks("m", "d", "a", "dlt", {"m": 4, "d": 5, "a": 3, "dlt": 2, "e": 7}, episodes="e")
COOPERATIVE = "cooperative-sticky"
FAILED_GENERATION = Evidence(
    source="coordinator-log",
    reason="generation 2 was not delivered: Error COORDINATOR_NOT_AVAILABLE when storing group assignment",
    kind=UNDELIVERED,
    generation=2,
)


def shares(**partitions: list[int]) -> dict[str, Partitions]:
    return {member_id: {"t": numbers} if numbers else {} for member_id, numbers in partitions.items()}


def last(outputs: list[Output]) -> Diff:
    return diffs(outputs)[-1]


def changed(diff: Diff) -> dict[str, tuple[Partitions, Partitions, Partitions]]:
    return {name: (member.owned, member.revoked, member.assigned) for name, member in diff.members.items()}


def after(member: MemberDiff) -> Partitions:
    return {**member.kept, **member.assigned}


def test_owned_partitions_show_an_undelivered_generation() -> None:
    log = Log()
    _, outputs = play(
        [
            log.topics(t=4),
            log.observe(1, shares(c1=[0, 1, 2, 3]), protocol=COOPERATIVE),
            log.observe(2, shares(c1=[0, 1], c2=[]), protocol=COOPERATIVE, owned=shares(c1=[0, 1, 2, 3])),
            log.observe(3, shares(c1=[0, 1], c2=[]), protocol=COOPERATIVE, owned=shares(c1=[0, 1, 2, 3])),
            log.observe(4, shares(c1=[0, 1], c2=[2, 3]), protocol=COOPERATIVE, owned=shares(c1=[0, 1])),
        ]
    )
    _, second, third, fourth = diffs(outputs)
    assert not second.undelivered
    assert third.undelivered.generation == 2
    assert third.undelivered.evidence.member_ids == ["c1"]
    assert third.undelivered.evidence.reason.startswith("generation 2 was not delivered: ")
    assert third.undelivered.evidence in third.cause.evidence
    assert changed(third)["c1"] == ({"t": [0, 1, 2, 3]}, {"t": [2, 3]}, {})
    assert (third.cause.kind, third.cause.member_ids, third.round) == ("member.joined", ["c2"], 2)
    assert not fourth.undelivered
    assert (changed(fourth)["c2"], fourth.moved) == (({}, {}, {"t": [2, 3]}), 2)


@pytest.mark.parametrize("protocol", ["range", "roundrobin", "sticky", COOPERATIVE])
def test_failed_append_undoes_the_generation_for_all_members(protocol: str) -> None:
    log = Log()
    _, outputs = play(
        [
            log.observe(1, shares(c1=[0, 1]), protocol=protocol),
            log.observe(2, shares(c1=[0], c2=[1]), protocol=protocol),
            log.observe(3, shares(c1=[0], c2=[1]), protocol=protocol, evidence=[FAILED_GENERATION]),
        ]
    )
    diff = last(outputs)
    assert changed(diff) == {"c1": ({"t": [0, 1]}, {"t": [1]}, {}), "c2": ({}, {}, {"t": [1]})}
    assert (diff.round, diff.moved, diff.undelivered.evidence.member_ids) == (2, 1, ["c1", "c2"])
    assert [item.kind for item in diff.cause.evidence].count(UNDELIVERED) == 1


def test_a_failed_append_of_an_unseen_generation_undoes_nothing() -> None:
    log = Log()
    _, outputs = play(
        [
            log.observe(1, shares(c1=[0, 1]), protocol="range"),
            log.observe(3, shares(c1=[0], c2=[1]), protocol="range", evidence=[FAILED_GENERATION]),
        ]
    )
    assert not last(outputs).undelivered
    assert changed(last(outputs))["c1"] == ({"t": [0, 1]}, {"t": [1]}, {})


def test_owned_partitions_skip_several_undelivered_generations() -> None:
    log = Log()
    owned = shares(c1=[0, 1])
    _, outputs = play(
        [
            log.observe(1, owned, protocol=COOPERATIVE),
            *(log.observe(n, shares(c1=[0], c2=[]), protocol=COOPERATIVE, owned=owned, joined_at=n) for n in (2, 3)),
            log.observe(6, shares(c1=[1], c2=[]), protocol=COOPERATIVE, owned=owned, joined_at=5),
        ]
    )
    assert [diff.undelivered.generation if diff.undelivered else None for diff in diffs(outputs)] == [
        *(None, None, 2, 3)
    ]
    assert changed(last(outputs))["c1"] == ({"t": [0, 1]}, {"t": [0]}, {})


def test_departed_member_still_owns_its_undelivered_partition() -> None:
    """Generation 2 assigns partition 1 of the departed member c2 to c1, but c1 does not receive generation 2."""
    log = Log()
    _, outputs = play(
        [
            log.observe(1, shares(c1=[0], c2=[1]), protocol=COOPERATIVE),
            log.observe(2, shares(c1=[0, 1]), protocol=COOPERATIVE, owned=shares(c1=[0])),
            log.observe(3, shares(c1=[0, 1]), protocol=COOPERATIVE, owned=shares(c1=[0])),
        ]
    )
    assert changed(last(outputs)) == {"c1": ({"t": [0]}, {}, {"t": [1]})}
    assert last(outputs).moved == 1
    assert assignments(outputs)[-1].assignment.members == shares(c1=[0, 1])


def test_sticky_members_own_what_their_user_data_has() -> None:
    log = Log()
    _, outputs = play(
        [
            log.observe(1, shares(c1=[0, 1]), protocol="sticky"),
            log.observe(2, shares(c1=[0], c2=[1]), protocol="sticky", owned=shares(c1=[0, 1])),
            log.observe(3, shares(c1=[0], c2=[1]), protocol="sticky", owned=shares(c1=[0, 1])),
        ]
    )
    assert last(outputs).undelivered.evidence.member_ids == ["c1", "c2"]
    assert changed(last(outputs))["c2"] == ({}, {}, {"t": [1]})


@pytest.mark.parametrize(
    ("protocol", "owned", "joined_at", "instance"),
    [
        pytest.param("range", {"c1": []}, 2, None, id="eager members own nothing"),
        pytest.param(COOPERATIVE, {"c1": [0]}, 2, None, id="delivered"),
        pytest.param(COOPERATIVE, {"c1": [3]}, 2, None, id="neither before nor after"),
        pytest.param(COOPERATIVE, {"c1": [0, 1]}, 1, "i-1", id="a static member that is away"),
    ],
)
def test_unrelated_owned_partitions_prove_no_undelivered_round(
    protocol: str, owned: dict[str, list[int]], joined_at: int, instance: str | None
) -> None:
    log = Log()
    instances = {"c1": instance} if instance else None
    _, outputs = play(
        [
            log.observe(1, shares(c1=[0, 1]), protocol=protocol, instances=instances),
            log.observe(2, shares(c1=[0], c2=[1]), protocol=protocol, instances=instances),
            log.observe(
                *(3, shares(c1=[0], c2=[1])),
                protocol=protocol,
                owned=shares(**owned, c2=[1] if protocol == COOPERATIVE else []),
                joined_at=joined_at,
                instances=instances,
            ),
        ]
    )
    assert not last(outputs).undelivered


def test_member_after_partitions_lost_is_not_evidence() -> None:
    """A client forgets its generation and its partitions after onPartitionsLost."""
    log = Log()
    events = [
        log.observe(1, shares(c1=[0]), protocol=COOPERATIVE),
        log.observe(2, shares(c1=[0], c2=[1]), protocol=COOPERATIVE, owned=shares(c1=[0])),
    ]
    lost = log.observe(3, shares(c1=[0], c2=[1]), protocol=COOPERATIVE, owned=shares(c1=[0]))
    assert not last(play([*events, lost])[1]).undelivered
    kept = log.observe(3, shares(c1=[0], c2=[1]), protocol=COOPERATIVE, owned=shares(c1=[0]), joined_at=2)
    assert last(play([*events, kept])[1]).undelivered.evidence.member_ids == ["c2"]


def test_a_restarted_static_member_received_its_generation() -> None:
    log = Log()
    _, outputs = play(
        [
            log.observe(1, shares(c1=[]), protocol=COOPERATIVE, instances={"c1": "i-1"}),
            log.observe(2, shares(c1=[0]), protocol=COOPERATIVE, instances={"c1": "i-1"}, joined_at=1),
            log.observe(3, shares(c9=[0]), protocol=COOPERATIVE, instances={"c9": "i-1"}, joined_at=2),
        ]
    )
    assert not last(outputs).undelivered


def test_large_groups_list_members_that_were_corrected() -> None:
    log = Log()
    members = {f"c{number}": [number] for number in range(150)}
    undelivered_members = {**members, "c0": [], "c200": []}
    _, outputs = play(
        [
            log.observe(1, shares(**members), protocol=COOPERATIVE),
            log.observe(2, shares(**undelivered_members), protocol=COOPERATIVE, owned=shares(**members)),
            log.observe(3, shares(**members, c200=[]), protocol=COOPERATIVE, owned=shares(**members)),
        ]
    )
    assert last(outputs).members["c0"].owned == {"t": [0]}
    assert b'"c0":{' in outputs[-2].value("auto").replace(b" ", b"")
    assert after(last(outputs).members["c0"]) == {"t": [0]}


def test_partitions_moved_by_undelivered_generation_move_once() -> None:
    log = Log()
    tracked = TrackedGroup()
    for event in (
        log.observe(1, shares(c1=[0, 1], c2=[]), protocol="range"),
        log.observe(2, shares(c1=[0], c2=[1]), protocol="range"),
        log.observe(3, shares(c1=[0], c2=[1]), protocol="range", evidence=[FAILED_GENERATION]),
    ):
        before = tracked.state
        state, outputs = apply(before, event)
        tracked.state = state
        update_group(tracked, before, event, outputs, now_ms=0, sinks=SINKS)
    assert tracked.episode.moved == {"t": {1}}
    assert tracked.episode.twice_moved_partitions == {}
