"""Storms (rebalances without progress), the members that trigger storms, and similar cases that are not storms."""

from typing import Any

import pytest

from streaming.episodes.notes import BounceNote
from streaming.records.diffs import MemberNames
from streaming.records.episodes import Episode, Repeated
from streaming.records.events import Evidence
from tests.support.built_diffs import REASON_NOT_PROVIDED, DiffBuilder
from tests.support.diff_episodes import episodes
from tests.unit.streaming.episodes.test_kinds import THREE_MEMBERS, last, restart_one_by_one, started


def rejoin(builder: DiffBuilder, member_id: str, reason: str, times: int = 1, *, after: float = 5) -> DiffBuilder:
    """Let a member rejoin a stable group, with the coordinator's log line as evidence."""
    line = f"Updating metadata for member {member_id} during Stable; client reason: {reason}"
    item = Evidence(source="coordinator-log", reason=line, member_ids=[member_id])
    for _ in range(times):
        builder.round("group.observed", evidence=(item,), after=after)
    return builder


@pytest.mark.parametrize("reason", ["not provided", "cached metadata has changed", "rebalance failed due to X"])
def test_one_member_that_rejoins_again_and_again_is_named(reason: str) -> None:
    record = last(rejoin(started(), "a@h1#1", reason, 8))
    assert (record.kind, record.status, record.sure) == ("storm", "storming", True)
    assert record.repeated == Repeated(member_id="a@h1#1", times=8, period_ms=5_000)
    story = "Rebalanced 8 times in 1 minute without a membership change because of a (8 times, about every 5.0 s)"
    assert record.story.startswith(story)


def test_alternating_members_are_a_storm_of_no_single_member(builder: DiffBuilder) -> None:
    for _ in range(4):
        for member_id in THREE_MEMBERS:
            rejoin(builder, member_id, "not provided")
    record = last(builder)
    assert (record.kind, record.status, record.repeated) == ("storm", "storming", None)
    assert record.story.startswith("Rebalanced 12 times in 1 minute without a membership change, ")


def test_cooperative_rounds_without_an_end_are_a_storm(builder: DiffBuilder) -> None:
    builder.assignor = "cooperative-sticky"
    builder.round("member.joined", joined=("d@h4#1",))
    for number in range(2, 21):
        builder.round("member.joined", who=("d@h4#1",), number=number, after=5)
    assert (last(builder).kind, last(builder).status) == ("storm", "storming")


def test_rounds_of_a_cooperative_rebalance_are_not_a_storm(builder: DiffBuilder) -> None:
    for number in (1, 2, 3):
        joined = ("d@h4#1",) if number == 1 else ()
        builder.round("member.joined", joined=joined, who=("d@h4#1",), number=number)
    assert (last(builder).kind, last(builder).status) == ("scale-out", "settled")


def test_steps_of_one_epoch_are_not_a_storm(builder: DiffBuilder) -> None:
    builder.protocol = "consumer"
    for number in range(1, 40):
        builder.round("topic.partitions_changed", number=number)
    assert last(builder).status == "settled"


def test_new_topics_and_subscriptions_are_not_a_storm(builder: DiffBuilder) -> None:
    for member_id in THREE_MEMBERS:
        builder.round("member.subscription_changed", who=(member_id,))
        builder.round("topic.partitions_changed")
    assert (last(builder).kind, last(builder).status) == ("subscription-change", "settled")


def test_ever_changing_partition_counts_are_a_storm(builder: DiffBuilder) -> None:
    for _ in range(20):
        builder.round("topic.partitions_changed", after=5)
    assert last(builder).status == "storming"


def test_application_that_requests_a_rebalance_is_quoted() -> None:
    record = last(rejoin(started(), "a@h1#1", "app asked"))
    assert (record.kind, record.sure) == ("app-requested", True)
    assert record.story.startswith("Rebalance requested by a (“app asked”), ")
    again = last(rejoin(started(), "a@h1#1", "app asked", 5))
    assert again.kind == "storm"
    assert ", client reason “app asked”, " in again.story


def test_rebalance_request_without_reason_is_recognised() -> None:
    record = last(rejoin(started(), "a@h1#1", "rebalance enforced by user"))
    assert record.kind == "app-requested"
    assert record.story.startswith("Rebalance requested by a (enforceRebalance), ")


def test_client_library_reason_is_shown_and_proves_no_kind() -> None:
    record = last(rejoin(started(), "a@h1#1", "group is already rebalancing"))
    assert (record.kind, record.sure) == ("unknown", False)
    assert "Cause unknown, client reason “group is already rebalancing”, " in record.story


@pytest.mark.parametrize("size", [2, 3, 4, 7])
def test_three_rolling_restarts_are_three_episodes(size: int) -> None:
    ids = [f"checkout-{number}@h{number}#1" for number in range(size)]
    builder = started(*ids, partitions=2 * size)
    for incarnation in range(1, 4):
        restart_one_by_one(builder, *(member_id.replace("#1", f"#{incarnation}") for member_id in ids), seconds=2)
    kinds = [(episode.kind, episode.sure, episode.rebalances) for episode in episodes("g", builder.diffs)]
    assert kinds == [("first-start", True, 1), *[("rolling-restart", True, 2 * size)] * 3]


def test_three_rejoins_of_one_member_are_not_a_storm() -> None:
    ids = [f"checkout-{number}@h{number}#1" for number in range(8)]
    builder = restart_one_by_one(started(*ids, partitions=16), *ids[1:])
    for incarnation in range(1, 4):
        restart_one_by_one(builder, f"checkout-0@h0#{incarnation}")
    assert last(builder).repeated is None
    assert last(builder).status == "settled"


def test_two_of_many_members_that_crash_in_turn_are_named() -> None:
    ids = [f"pay-{number}@h{number}#1" for number in range(6)]
    builder = started(*ids, partitions=12)
    for incarnation in range(1, 5):
        for number in (1, 2):
            builder.fence(f"pay-{number}@h{number}#{incarnation}", after=10, reason="heartbeat expiration")
            builder.join(f"pay-{number}@h{number}#{incarnation + 1}", after=1)
    record = last(builder)
    assert (record.kind, record.repeated) == ("storm", None)


def test_all_members_that_crash_again_and_again_are_a_storm(builder: DiffBuilder) -> None:
    for incarnation in range(1, 5):
        for member_id in THREE_MEMBERS:
            builder.fence(member_id.replace("#1", f"#{incarnation}"), after=5, reason="heartbeat expiration")
            builder.join(member_id.replace("#1", f"#{incarnation + 1}"), after=1)
    assert [episode.kind for episode in episodes("g", builder.diffs)] == ["first-start", "storm"]


def test_many_short_lived_members_are_a_storm(builder: DiffBuilder) -> None:
    for number in range(8):
        builder.join(f"job-{number}@h{number}#1").leave(f"job-{number}@h{number}#1", after=10)
    record = last(builder)
    assert (record.kind, record.status, record.repeated) == ("storm", "storming", None)


def migrate_beside_classic_member(builder: DiffBuilder, kind: str | None = "member.joined") -> DiffBuilder:
    """Migrate two members, while the third one rejoins at each epoch with the classic protocol."""
    builder.protocol = "consumer"
    reason = "joins the consumer group using the classic protocol."
    rejoined = Evidence(source="coordinator-log", reason=reason, member_ids=["c@h3#1"], kind=kind)
    for name in ("a@h1", "b@h2"):
        builder.leave(f"{name}#1", after=2)
        builder.round(kind or "group.observed", who=("c@h3#1",), evidence=(rejoined,))
        builder.join(f"{name}#2", after=2)
        builder.round(kind or "group.observed", who=("c@h3#1",), evidence=(rejoined,))
    return builder


@pytest.mark.parametrize("kind", ["member.joined", None])
def test_healthy_migration_is_not_a_storm(kind: str | None) -> None:
    """In a mixed group every classic member rejoins at each epoch, which the coordinator logs as a join."""
    record = last(migrate_beside_classic_member(started(), kind))
    assert (record.kind, record.status, record.repeated) == ("protocol-migration", "settled", None)


def test_migration_with_two_restarts_is_one_episode(builder: DiffBuilder) -> None:
    builder.protocol = "consumer"
    for incarnation in (1, 2):
        restart_one_by_one(builder, *(member_id.replace("#1", f"#{incarnation}") for member_id in THREE_MEMBERS))
    assert [episode.kind for episode in episodes("g", builder.diffs)] == ["first-start", "protocol-migration"]


def test_crash_loop_in_a_migration_stays_a_migration(builder: DiffBuilder) -> None:
    builder.protocol = "consumer"
    for incarnation in range(1, 6):
        builder.fence(f"a@h1#{incarnation}", reason="session expired").join(f"a@h1#{incarnation + 1}")
    assert (last(builder).kind, last(builder).status) == ("protocol-migration", "storming")


def bounce_notes(*hosts: str, protocol: str = "classic", instances: int = 1) -> tuple[DiffBuilder, list[BounceNote]]:
    """Return a group of three, and the notes of static members that rejoin from each host in turn."""
    builder = started(*(f"x@h{number}#0=i{number}" for number in range(3)))
    now = {number: f"x@h{number}#0=i{number}" for number in range(instances)}
    notes = []
    for incarnation, host in enumerate(hosts):
        for number, old in now.items():
            new, at = f"x@{host}#{incarnation + 1}=i{number}", builder.now + 5_000 * (incarnation * instances + number)
            before = MemberNames("x", f"/{old.partition('@')[2].partition('#')[0]}", f"i{number}")
            names = {old: before, new: MemberNames("x", f"/{host}", f"i{number}")}
            note_id = f"b{incarnation}-{number}"
            notes.append(BounceNote(note_id, at, {old: new}, names, 3, protocol, "range", "consumer"))
            now[number] = new
    return builder, notes


def bounces(*hosts: str, **options: Any) -> Episode:
    builder, notes = bounce_notes(*hosts, **options)
    return episodes("g", [*builder.diffs, *notes])[-1]


def test_shared_instance_id_is_detected() -> None:
    record = bounces(*("h9", "h0") * 4)
    assert (record.kind, record.sure, record.status) == ("duplicate-instance-id", True, "storming")
    story = "Conflict of two processes with the instance id i0 (rejoined 8 times, about every 5.0 s), "
    assert record.story.startswith(story)


def test_repeated_static_rejoins_may_be_a_shared_instance_id() -> None:
    record = bounces(*("h0",) * 8)
    assert (record.kind, record.sure) == ("duplicate-instance-id", False)
    assert record.story.startswith("Probably a conflict of two processes with the instance id i0 (rejoined 8 times, ")


def test_two_copies_of_a_static_group_share_instance_ids() -> None:
    record = bounces(*("h8", "h9") * 4, instances=3)
    assert (record.kind, record.sure) == ("duplicate-instance-id", True)


def test_static_restarts_of_all_members_share_no_id() -> None:
    record = bounces("h7", "h8", "h9", instances=3)
    assert (record.kind, record.members.before) == ("static-bounce", 3)


def test_rejoining_kip_848_member_shares_no_member_id() -> None:
    assert bounces(*("h0",) * 8, protocol="consumer").kind != "duplicate-instance-id"


def test_one_restart_and_two_requests_are_not_a_storm() -> None:
    builder = started("a@h1#1", "b@h1#1")
    builder.leave("a@h1#1", reason=REASON_NOT_PROVIDED).join("a@h1#2").leave("b@h1#1", reason=REASON_NOT_PROVIDED)
    rejoin(builder, "a@h1#2", "not provided", 2).join("b@h1#2")
    assert last(builder).kind == "rolling-restart"
