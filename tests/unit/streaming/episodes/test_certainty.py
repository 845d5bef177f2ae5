"""Certainty of episodes: which evidence proves a kind of episode, and stories that name what is not proven."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.episodes.reasons import application_reasons, client_reason, proves_client_close
from streaming.records.events import COORDINATOR_MOVED, Evidence
from tests.support.built_diffs import CONSUMER_CLOSED_REASON, REASON_NOT_PROVIDED, DiffBuilder
from tests.support.diff_episodes import episodes
from tests.unit.streaming.episodes.test_kinds import RESTARTED_MEMBERS, THREE_MEMBERS, last, started

NO_CLIENT_REASON = (
    REASON_NOT_PROVIDED,
    "explicit `LeaveGroup` request",
    "has left group through explicit `LeaveGroup`; client reason: not provided",
    "Removing member c-b on LeaveGroup; client reason: ",
    "left the consumer group.",
    "has left",
)


@pytest.mark.parametrize("reason", NO_CLIENT_REASON)
def test_a_leave_without_a_client_reason_proves_no_restart(reason: str) -> None:
    episode = last(started().leave("a@h1#1", reason=reason).join("a@h1#2"))
    assert (episode.kind, episode.sure) == ("restart", False)
    assert episode.story.startswith("Probably a restart of a, ")
    assert "exceeded max.poll.interval.ms" in episode.evidence[-1].reason


@pytest.mark.parametrize("reason", [CONSUMER_CLOSED_REASON, "closed", "leave", "shutdown"])
def test_member_with_a_closing_reason_restarted(reason: str) -> None:
    episode = last(started().leave("a@h1#1", reason=reason).join("a@h1#2"))
    assert (episode.kind, episode.sure) == ("restart", True)


def test_commit_before_a_leave_does_not_prove_a_restart() -> None:
    reason = "last offset commit 20 ms before it was gone: its session can't have run out, it left"
    item = Evidence(source="offset-commits", reason=reason, member_ids=["a@h1#1"], kind="member.left")
    builder = started().round("member.left", gone=("a@h1#1",), evidence=(item,)).join("a@h1#2")
    assert (last(builder).kind, last(builder).sure) == ("restart", False)


def test_another_host_proves_a_restart_without_a_reason() -> None:
    builder = started("orders-0@h1#1", "x@h2#1").leave("orders-0@h1#1", reason=REASON_NOT_PROVIDED)
    episode = last(builder.join("orders-0@h7#2"))
    assert (episode.kind, episode.sure) == ("restart", True)


def test_a_new_member_id_proves_a_restart_under_kip_848() -> None:
    builder = started(*THREE_MEMBERS, "d@h4#1", protocol="consumer")
    episode = last(builder.leave("a@h1#1", reason="left the consumer group.").join("a@h1#2"))
    assert (episode.kind, episode.sure) == ("restart", True)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_away_together_may_have_crashed(protocol: str) -> None:
    builder = started(protocol=protocol).round("group.observed", gone=THREE_MEMBERS)
    episode = last(builder.join(*RESTARTED_MEMBERS))
    assert (episode.kind, episode.sure) == ("restart", False)
    assert "no evidence shows whether members that came back were restarted or crashed" in episode.evidence[-1].reason


def test_leaves_without_reason_in_turn_are_probably_rolling(builder: DiffBuilder) -> None:
    for member_id in THREE_MEMBERS:
        builder.leave(member_id, reason=REASON_NOT_PROVIDED, after=10).join(member_id.replace("#1", "#2"))
    episode = last(builder)
    assert (episode.kind, episode.sure) == ("rolling-restart", False)
    assert episode.story.startswith("Probably a rolling restart of 3 members, ")


COORDINATOR_MOVE = Evidence(source="coordinator-log", reason="Loaded classic group g", kind=COORDINATOR_MOVED)
NEW_LEADER = Evidence(source="group-records", reason="a new leader 31 s before", kind=COORDINATOR_MOVED)


def expire_sessions(*, moved: bool, back: tuple[str, ...] = RESTARTED_MEMBERS) -> DiffBuilder:
    """Let the sessions of all three members expire at once, then let the members in ``back`` join."""
    reason = "has failed, heartbeat expiration"
    expiry = Evidence(source="coordinator-log", reason=reason, member_ids=[*THREE_MEMBERS], kind="member.fenced")
    evidence = (expiry, COORDINATOR_MOVE) if moved else (expiry,)
    return started().round("member.fenced", gone=THREE_MEMBERS, evidence=evidence).join(*back, after=31)


def test_all_sessions_expired_at_once_give_an_unknown_kind() -> None:
    episode = last(expire_sessions(moved=False))
    assert (episode.kind, episode.sure) == ("unknown", False)
    assert episode.evidence[-1].reason.endswith("the coordinator was unavailable, or all crashed")


def test_sessions_expired_at_a_coordinator_move_are_that_move() -> None:
    episode = last(expire_sessions(moved=True))
    assert (episode.kind, episode.sure) == ("coordinator-move", True)
    assert episode.story.startswith("Moved to another coordinator, ")


@pytest.mark.parametrize(
    ("item", "sure", "story"),
    [
        (COORDINATOR_MOVE, True, "Moved to another coordinator, "),
        (NEW_LEADER, False, "Probably moved to another coordinator, "),
    ],
)
def test_all_members_rejoined_as_the_coordinator_moved(item: Evidence, sure: bool, story: str) -> None:
    episode = last(started().round("group.observed", gone=THREE_MEMBERS, joined=RESTARTED_MEMBERS, evidence=(item,)))
    assert (episode.kind, episode.sure) == ("coordinator-move", sure)
    assert episode.story.startswith(story)


def test_members_on_new_hosts_crashed_despite_the_coordinator() -> None:
    back = ("a@h7#2", "b@h8#2", "c@h9#2")
    assert last(expire_sessions(moved=False, back=back)).kind == "crash"
    episode = last(expire_sessions(moved=True, back=back))
    assert (episode.kind, episode.sure) == ("crash", False)


def test_clean_leaves_during_a_coordinator_move_are_a_restart() -> None:
    reason = CONSUMER_CLOSED_REASON
    closed = Evidence(source="coordinator-log", reason=reason, member_ids=[*THREE_MEMBERS], kind="member.left")
    builder = started().round("member.left", gone=THREE_MEMBERS, evidence=(closed, COORDINATOR_MOVE))
    assert last(builder.join(*RESTARTED_MEMBERS)).kind == "restart"


@pytest.mark.parametrize(
    ("logged", "reason"),
    [
        ("Updating metadata for member c during Stable; client reason: app asked", "app asked"),
        ("Removing member c on LeaveGroup; client reason: not provided", None),
        ("explicit `LeaveGroup` request", None),
        ("Leader c re-joining group during Stable; client reason: rolling (v2; phase 1)", "rolling (v2; phase 1"),
    ],
)
def test_client_reason_is_extracted_from_each_log_wording(logged: str, reason: str | None) -> None:
    assert client_reason(logged) == reason


def test_reasons_of_a_library_are_not_the_applications() -> None:
    evidence = [
        Evidence(source="coordinator-log", reason=f"Leader c re-joining; client reason: {reason}", member_ids=["c"])
        for reason in ("rebalance failed due to MemberIdRequiredException", "app asked", "app asked")
    ]
    assert application_reasons(evidence) == ["app asked"]


def test_an_unsubscribing_client_is_not_closing() -> None:
    reason = "explicit `LeaveGroup` request; client reason: the consumer unsubscribed from all topics"
    assert not proves_client_close(Evidence(source="coordinator-log", reason=reason, kind="member.left"))


HISTORY_STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["leave", "silent", "fence", "vanish", "join", "rejoin"])),
    min_size=1,
    max_size=24,
)


@given(steps=HISTORY_STEPS, first=st.booleans())
def test_a_story_shows_that_its_kind_is_not_proven(steps: list[tuple[int, str]], first: bool) -> None:
    builder = DiffBuilder() if first else started()
    incarnations: dict[int, int] = {} if first else {0: 1, 1: 1, 2: 1}
    last_incarnations = {0: 1, 1: 1, 2: 1, 3: 0}
    names = "abcd"
    for number, what in steps:
        member_id = f"{names[number]}@h{number + 1}#{last_incarnations[number]}"
        if number in incarnations and what in ("leave", "silent", "fence", "vanish"):
            del incarnations[number]
            reasons = {"leave": CONSUMER_CLOSED_REASON, "silent": REASON_NOT_PROVIDED}
            if what in reasons:
                builder.leave(member_id, reason=reasons[what])
            elif what == "fence":
                builder.fence(member_id, reason="heartbeat expiration")
            else:
                builder.remove_without_cause(member_id)
        elif number not in incarnations:
            last_incarnations[number] += 1
            incarnations[number] = last_incarnations[number]
            builder.join(f"{names[number]}@h{number + 1}#{last_incarnations[number]}")
        elif what == "rejoin":
            builder.round("group.observed")
    for episode in episodes("g", builder.diffs):
        story = episode.story
        has_uncertain_words = any(words in story for words in ("robably", "Cause unknown", "No members"))
        assert has_uncertain_words is not episode.sure, (episode.kind, story)
        assert "all 0 members" not in story
        if episode.repeated is not None:
            assert episode.status in ("storming", "settled", "stuck")
