from typing import Any

import pytest
from msgspec import UNSET, structs

from streaming.episodes import waiting
from streaming.episodes.notes import BounceNote, WaitNote
from streaming.episodes.state import EpisodeState
from streaming.episodes.waiting import MAX_DURATIONS, MAX_WAITS, record_wait, wait_note
from streaming.records.diffs import MemberNames
from streaming.records.episodes import Waiting
from streaming.records.events import Evidence, GroupObserved, Holding, ObservedMember
from tests.support.built_diffs import DiffBuilder
from tests.support.diff_episodes import QuietNote, episodes, updates

AwaitedWait = list[tuple[str | None, str, Holding]]


def member(name: str, assigned: list[int], **fields: Any) -> ObservedMember:
    fields["assigned"] = assigned
    for share in {"assigned", "target", "pending_revocation", "owned"} & fields.keys():
        fields[share] = {"t": fields[share]} if fields[share] else {}
    return ObservedMember(member_id=name, topics=["t"], client_id=name, **fields)


def view(*members: ObservedMember, **fields: Any) -> GroupObserved:
    defaults: dict[str, Any] = {"group_protocol": "consumer", "group_epoch": 7, "state": "Reconciling"}
    return GroupObserved(group_id="g", timestamp=5_000, members=list(members), **{**defaults, **fields})


def named_wait(data: GroupObserved) -> AwaitedWait:
    return [(wait.member_id, wait.reason, wait.partitions) for wait in wait_note("e", data).waits]


def test_members_that_must_revoke_are_listed_first() -> None:
    data = view(
        member("a", [0], target=[0], pending_revocation=[1], member_epoch=6),
        member("b", [2], target=[2, 3], member_epoch=7),
        member("c", [], target=[1], member_epoch=7),
        member("d", [4], target=[4], member_epoch=6),
        member("e", [5], target=[5], member_epoch=7),
    )
    assert named_wait(data) == [
        ("a", "to give up partitions", {"t": [1]}),
        ("b", "to take partitions", {"t": [3]}),
        ("d", "to reach the group's epoch", {}),
        ("c", "to get partitions that others have not given up", {"t": [1]}),
    ]


def test_member_waits_for_a_partition_that_another_one_owns() -> None:
    data = view(member("a", [0, 1], target=[0], member_epoch=6), member("b", [], target=[1], member_epoch=7))
    assert named_wait(data) == [
        ("a", "to reach the group's epoch", {}),
        ("b", "to get partitions that others have not given up", {"t": [1]}),
    ]


def test_new_and_absent_static_members_are_awaited() -> None:
    assert named_wait(view(member("a", []), member("b", [0], target=[0], member_epoch=-2))) == [
        ("a", "to reach the group's epoch", {}),
        ("b", "to come back", {}),
    ]


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("Assigning", "the coordinator has not computed the assignment yet"),
        ("NotReady", "topics that the application reads are missing"),
    ],
)
def test_only_revocations_are_awaited_before_the_target(state: str, reason: str) -> None:
    data = view(
        member("a", [0], target=[0], pending_revocation=[1], member_epoch=6),
        member("b", [], target=[1], member_epoch=6),
        state=state,
    )
    assert named_wait(data) == [("a", "to give up partitions", {"t": [1]}), (None, reason, {})]


@pytest.mark.parametrize("state", ["Stable", "Empty", None])
def test_stable_group_waits_for_nothing(state: str | None) -> None:
    assert named_wait(view(member("a", [0], target=[0, 1], member_epoch=3), state=state)) == []


def test_streams_members_are_awaited_to_give_up_tasks() -> None:
    member_a = member("a", [0], target=[0], pending_revocation=[1], member_epoch=6)
    data = view(member_a, group_protocol="streams", kind="streams")
    assert named_wait(data) == [("a", "to give up tasks", {"t": [1]})]


def test_polling_shows_missing_partitions_without_owners() -> None:
    members = member("a", [0], target=[0]), member("b", [], target=[1])
    evidence = [Evidence(source="polling", reason="")]
    data = view(*members, state="Assigning or Reconciling", evidence=evidence)
    assert named_wait(data) == [("b", "to get partitions", {"t": [1]})]


def classic(*members: ObservedMember, **fields: Any) -> GroupObserved:
    defaults: dict[str, Any] = {"group_protocol": "classic", "group_epoch": None, "generation": 3}
    return view(*members, **{**defaults, "state": "Stable", **fields})


def test_cooperative_member_with_revocations_must_rejoin() -> None:
    data = classic(member("a", [0], owned=[0, 1]), member("b", []), protocol="cooperative-sticky")
    assert named_wait(data) == [("a", "to give up partitions and join again", {"t": [1]})]
    assert named_wait(structs.replace(data, protocol="range")) == []


def test_workers_that_must_revoke_tasks_rejoin() -> None:
    worker = member("w", [0], pending_revocation=[1])
    data = classic(worker, kind="connect", protocol="sessioned", protocol_type="connect")
    assert named_wait(data) == [("w", "to give up tasks and join again", {"t": [1]})]
    assert named_wait(structs.replace(data, kind=UNSET)) == []


def test_waiting_members_are_limited_in_large_groups() -> None:
    waits = wait_note("e", view(*(member(f"m{n:04}", [], member_epoch=1) for n in range(2000)))).waits
    assert len(waits) == MAX_WAITS + 1
    assert (waits[-1].member_id, waits[-1].reason) == (None, "other members are waited for as well")


def note(builder: DiffBuilder, *waits: Waiting, after: float = 1.0) -> WaitNote:
    builder.now += round(after * 1000)
    waits = tuple(structs.replace(wait, since=builder.now) for wait in waits)
    member_names = {"a@10.0.3.17#1": MemberNames("pay")}
    return WaitNote(f"w{builder.now}", builder.now, waits, member_names if waits else {})


A = Waiting(since=0, reason="to give up partitions", member_id="a@10.0.3.17#1", partitions={"t": [1]})


def test_snapshot_without_diff_starts_and_ends_a_wait() -> None:
    builder = DiffBuilder(2).join("a@10.0.3.17#1")
    notes: list[Any] = [builder.diffs[0], first := note(builder, A), note(builder, A, after=4)]
    record = episodes("g", notes)[-1]
    assert record.waiting_for == [structs.replace(A, since=first.timestamp)]
    assert record.updated_at == first.timestamp
    assert "Settling: waiting for pay to give up t 1 since 22:13:22." in record.story
    notes.append(done := note(builder, after=3))
    over = episodes("g", notes)[-1]
    assert (over.waiting_for, over.updated_at, over.status) == ([], done.timestamp, "settled")
    assert episodes("g", [*notes, QuietNote(done.id)])[-1].status == "settled"


def test_quiet_while_awaiting_a_member_is_stuck() -> None:
    builder = DiffBuilder(2).join("a@10.0.3.17#1")
    waits = note(builder, A)
    notes: list[Any] = [builder.diffs[0], waits, QuietNote(waits.id)]
    assert episodes("g", notes)[-1].status == "stuck"
    notes.append(done := note(builder, after=900))
    (record,) = episodes("g", notes)
    assert (record.status, record.waiting_for) == ("settled", [])
    assert episodes("g", [*notes, QuietNote(done.id)])[-1].closed_at == done.timestamp


def test_snapshot_of_a_stable_group_adds_nothing() -> None:
    builder = DiffBuilder(2).join("a#1")
    assert list(updates("g", [builder.diffs[0], QuietNote("d1"), note(builder, A)]))[-1].waiting_for == []
    assert len(list(updates("g", [builder.diffs[0], note(builder)]))) == 1
    assert list(updates("g", [note(builder, A)])) == []


def test_partitions_to_revoke_are_reported_once() -> None:
    builder = DiffBuilder(3).join("a@10.0.3.17#1")
    builder.round("group.observed", shares={"a@10.0.3.17#1": {"t": [0]}}, unassigned={"t": [1, 2]})
    waits = episodes("g", [*builder.diffs, note(builder, A)])[-1].waiting_for
    assert [(wait.member_id, wait.partitions) for wait in waits] == [("a@10.0.3.17#1", {"t": [1]}), (None, {"t": [2]})]


def test_usual_wait_is_measured_across_episodes() -> None:
    builder, notes = DiffBuilder(2).join("a@10.0.3.17#1"), list[Any]()
    notes.append(builder.diffs[0])
    for took in (2.1, 1.5, 60, 2, 2, 2, 2, 2, 2, 30):
        notes += [note(builder, A), done := note(builder, after=took), QuietNote(done.id)]
        builder.round("group.observed", after=1000)
        notes.append(builder.diffs[-1])
    notes.append(note(builder, A))
    record = episodes("g", notes)[-1]
    assert [(wait.usual_ms, wait.usual_of) for wait in record.waiting_for] == [(30_000, 10)]
    assert record.story.endswith("; usually at most 30 s (10 rebalances).")


def test_few_waits_give_no_usual_duration() -> None:
    state = EpisodeState(1, awaited=(Waiting(since=1, reason="r", member_id="m"),), wait_durations_ms=(5,) * 9)
    assert waiting.current_waits(state)[0].usual_ms is None


@pytest.mark.parametrize(("count", "rank"), [(1, 1), (9, 9), (10, 9), (11, 10), (20, 18), (32, 29)])
def test_usual_wait_is_the_ninetieth_percentile(count: int, rank: int) -> None:
    assert waiting.usual_ms(range(count, 0, -1)) == rank


def test_only_the_newest_wait_durations_are_stored() -> None:
    state = EpisodeState(1, open=True)
    for number in range(MAX_DURATIONS + 5):
        state.awaited = (A,)
        record_wait(state, 1000 * number + 1)
        record_wait(state, 1000 * number + 500)  # the group is still waiting
        state.awaited = ()
        record_wait(state, 1000 * number + 1 + number)
    assert state.wait_durations_ms == tuple(range(5, MAX_DURATIONS + 5))


def test_connect_delays_do_not_count_as_usual_waits() -> None:
    state = EpisodeState(1, open=True, waiting=(Waiting(since=1, reason="", until=300_000),))
    record_wait(state, 1)
    state.waiting, state.awaited = (), (A,)
    record_wait(state, 300_000)
    state.awaited = ()
    record_wait(state, 301_000)
    assert (state.wait_durations_ms, state.waiting_since) == ((), 0)
    delayed_state = EpisodeState(
        1, waiting=(Waiting(since=1, reason="", partitions={"t": [0]}, until=9),), wait_durations_ms=(5,)
    )
    assert waiting.current_waits(delayed_state)[0].usual_ms is None


def test_deleted_group_awaits_no_member() -> None:
    builder = DiffBuilder(2).join("a@10.0.3.17#1")
    notes: list[Any] = [builder.diffs[0], note(builder, A)]
    builder.round("group.deleted", gone=("a@10.0.3.17#1",))
    assert episodes("g", [*notes, builder.diffs[-1]])[-1].waiting_for == []


def test_static_member_rejoin_changes_no_wait() -> None:
    builder = DiffBuilder(2).join("a@10.0.3.17#1")
    waits = note(builder, A)
    back = BounceNote("b", builder.now, {"x": "y"}, {}, 1, "consumer", "uniform", "consumer")
    assert len(episodes("g", [builder.diffs[0], waits, back])[-1].waiting_for) == 1
