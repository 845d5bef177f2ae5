"""Generations that the coordinator's log contains but some members did not receive."""

import pytest

from streaming.monitor.bucket_state import TrackedGroup
from streaming.monitor.episodes import update_group
from streaming.monitor.group import apply
from streaming.records.diffs import Diff
from streaming.records.events import UNDELIVERED, Event, Evidence, Partitions
from tests.support.histories import Log, assignments, diffs, partitions_after, play
from tests.support.pure_stream import SINKS

COOPERATIVE = "cooperative-sticky"
FAILED_GENERATION = Evidence(
    source="coordinator-log",
    reason="generation 2 was not delivered: Error COORDINATOR_NOT_AVAILABLE when storing group assignment",
    kind=UNDELIVERED,
    generation=2,
)


def shares(**partitions: list[int]) -> dict[str, Partitions]:
    return {member_id: {"t": numbers} if numbers else {} for member_id, numbers in partitions.items()}


def played(*events: Event) -> list[Diff]:
    return diffs(play(events)[1])


def changed(diff: Diff) -> dict[str, tuple[Partitions, Partitions, Partitions]]:
    return {name: (member.owned, member.revoked, member.assigned) for name, member in diff.members.items()}


def test_owned_partitions_show_an_undelivered_generation(log: Log) -> None:
    whole = shares(c1=[0, 1, 2, 3])
    _, second, third, fourth = played(
        log.topics(t=4),
        log.observe(1, whole, protocol=COOPERATIVE),
        log.observe(2, shares(c1=[0, 1], c2=[]), protocol=COOPERATIVE, owned=whole),
        log.observe(3, shares(c1=[0, 1], c2=[]), protocol=COOPERATIVE, owned=whole),
        log.observe(4, shares(c1=[0, 1], c2=[2, 3]), protocol=COOPERATIVE, owned=shares(c1=[0, 1])),
    )
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
def test_failed_append_undoes_the_generation_for_all_members(log: Log, protocol: str) -> None:
    *_, diff = played(
        log.observe(1, shares(c1=[0, 1]), protocol=protocol),
        log.observe(2, shares(c1=[0], c2=[1]), protocol=protocol),
        log.observe(3, shares(c1=[0], c2=[1]), protocol=protocol, evidence=[FAILED_GENERATION]),
    )
    assert changed(diff) == {"c1": ({"t": [0, 1]}, {"t": [1]}, {}), "c2": ({}, {}, {"t": [1]})}
    assert (diff.round, diff.moved, diff.undelivered.evidence.member_ids) == (2, 1, ["c1", "c2"])
    assert [item.kind for item in diff.cause.evidence].count(UNDELIVERED) == 1


def test_a_failed_append_of_an_unseen_generation_undoes_nothing(log: Log) -> None:
    *_, diff = played(
        log.observe(1, shares(c1=[0, 1])), log.observe(3, shares(c1=[0], c2=[1]), evidence=[FAILED_GENERATION])
    )
    assert not diff.undelivered
    assert changed(diff)["c1"] == ({"t": [0, 1]}, {"t": [1]}, {})


def test_owned_partitions_skip_several_undelivered_generations(log: Log) -> None:
    owned = shares(c1=[0, 1])
    rounds = played(
        log.observe(1, owned, protocol=COOPERATIVE),
        *(log.observe(n, shares(c1=[0], c2=[]), protocol=COOPERATIVE, owned=owned, joined_at=n) for n in (2, 3)),
        log.observe(6, shares(c1=[1], c2=[]), protocol=COOPERATIVE, owned=owned, joined_at=5),
    )
    assert [diff.undelivered.generation if diff.undelivered else None for diff in rounds] == [None, None, 2, 3]
    assert changed(rounds[-1])["c1"] == ({"t": [0, 1]}, {"t": [0]}, {})


def test_departed_member_still_owns_its_undelivered_partition(log: Log) -> None:
    """Generation 2 assigns partition 1 of the departed member c2 to c1, but c1 does not receive generation 2."""
    _, outputs = play(
        [
            log.observe(1, shares(c1=[0], c2=[1]), protocol=COOPERATIVE),
            log.observe(2, shares(c1=[0, 1]), protocol=COOPERATIVE, owned=shares(c1=[0])),
            log.observe(3, shares(c1=[0, 1]), protocol=COOPERATIVE, owned=shares(c1=[0])),
        ]
    )
    diff = diffs(outputs)[-1]
    assert (changed(diff), diff.moved) == ({"c1": ({"t": [0]}, {}, {"t": [1]})}, 1)
    assert assignments(outputs)[-1].assignment.members == shares(c1=[0, 1])


def test_sticky_members_own_what_their_user_data_has(log: Log) -> None:
    owned = shares(c1=[0, 1])
    *_, diff = played(
        log.observe(1, owned, protocol="sticky"),
        log.observe(2, shares(c1=[0], c2=[1]), protocol="sticky", owned=owned),
        log.observe(3, shares(c1=[0], c2=[1]), protocol="sticky", owned=owned),
    )
    assert diff.undelivered.evidence.member_ids == ["c1", "c2"]
    assert changed(diff)["c2"] == ({}, {}, {"t": [1]})


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
    log: Log, protocol: str, owned: dict[str, list[int]], joined_at: int, instance: str | None
) -> None:
    instances = {"c1": instance} if instance else None
    declared = shares(**owned, c2=[1] if protocol == COOPERATIVE else [])
    after = shares(c1=[0], c2=[1])
    *_, diff = played(
        log.observe(1, shares(c1=[0, 1]), protocol=protocol, instances=instances),
        log.observe(2, after, protocol=protocol, instances=instances),
        log.observe(3, after, protocol=protocol, owned=declared, joined_at=joined_at, instances=instances),
    )
    assert not diff.undelivered


def test_member_after_partitions_lost_is_not_evidence(log: Log) -> None:
    """A client forgets its generation and its partitions after onPartitionsLost."""
    fields = {"protocol": COOPERATIVE, "owned": shares(c1=[0])}
    events = [log.observe(1, shares(c1=[0]), protocol=COOPERATIVE), log.observe(2, shares(c1=[0], c2=[1]), **fields)]
    lost = log.observe(3, shares(c1=[0], c2=[1]), **fields)
    assert not played(*events, lost)[-1].undelivered
    kept = log.observe(3, shares(c1=[0], c2=[1]), **fields, joined_at=2)
    assert played(*events, kept)[-1].undelivered.evidence.member_ids == ["c2"]


def test_a_restarted_static_member_received_its_generation(log: Log) -> None:
    fields = {"protocol": COOPERATIVE, "instances": {"c1": "i-1", "c9": "i-1"}}
    *_, diff = played(
        log.observe(1, shares(c1=[]), **fields),
        log.observe(2, shares(c1=[0]), **fields, joined_at=1),
        log.observe(3, shares(c9=[0]), **fields, joined_at=2),
    )
    assert not diff.undelivered


def test_large_groups_list_members_that_were_corrected(log: Log) -> None:
    members = {f"c{number}": [number] for number in range(150)}
    undelivered_members = {**members, "c0": [], "c200": []}
    _, outputs = play(
        [
            log.observe(1, shares(**members), protocol=COOPERATIVE),
            log.observe(2, shares(**undelivered_members), protocol=COOPERATIVE, owned=shares(**members)),
            log.observe(3, shares(**members, c200=[]), protocol=COOPERATIVE, owned=shares(**members)),
        ]
    )
    diff = diffs(outputs)[-1]
    assert diff.members["c0"].owned == {"t": [0]}
    assert b'"c0":{' in outputs[-2].value("auto").replace(b" ", b"")
    assert partitions_after(diff)["c0"] == {"t": [0]}


def test_partitions_moved_by_undelivered_generation_move_once(log: Log) -> None:
    tracked = TrackedGroup()
    for event in (
        log.observe(1, shares(c1=[0, 1], c2=[])),
        log.observe(2, shares(c1=[0], c2=[1])),
        log.observe(3, shares(c1=[0], c2=[1]), evidence=[FAILED_GENERATION]),
    ):
        before = tracked.state
        tracked.state, outputs = apply(before, event)
        update_group(tracked, before, event, outputs, now_ms=0, sinks=SINKS)
    assert tracked.episode.moved == {"t": {1}}
    assert tracked.episode.twice_moved_partitions == {}
