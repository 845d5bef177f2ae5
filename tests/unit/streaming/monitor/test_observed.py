"""Observed groups: assignments are read from snapshots, while diffs and causes are computed."""

import pytest

from streaming.monitor.group import apply
from streaming.monitor.observed import MissingGeneration
from streaming.records.diffs import Cause
from streaming.records.events import Evidence, GroupObserved
from tests.support.histories import Log, assignments, change, diffs, partitions_after, play, sample

COOPERATIVE = "cooperative-sticky"


def test_first_generation_assigns_all_partitions(log: Log) -> None:
    _, outputs = play([log.topics(t=3), log.observe(1, {"c1": {"t": [2, 0]}})])
    first = sample(members={"c1": change(assigned={"t": [0, 2]})}, unassigned={"t": [1]})
    assert diffs(outputs) == [first]


def test_first_snapshot_uses_the_owned_partitions_of_members(log: Log) -> None:
    event = log.observe(7, {"c1": {"t": [0]}, "c2": {"t": [1]}}, protocol=COOPERATIVE, owned={"c1": {"t": [0, 1]}})
    (diff,) = diffs(play([event])[1])
    assert diff.members == {
        "c1": change(owned={"t": [0, 1]}, revoked={"t": [1]}, kept={"t": [0]}),
        "c2": change(assigned={"t": [1]}),
    }
    assert diff.cause.evidence == [Evidence(source="comparison", reason="first observation, at generation 7")]


def test_eager_generation_is_one_round_after_the_previous_one(log: Log) -> None:
    events = [
        log.observe(1, {"c1": {"t": [0, 1]}}),
        log.observe(2, {"c1": {"t": [0]}, "c2": {"t": [1]}}),
        log.observe(3, {"c1": {"t": [0]}, "c2": {"t": [1]}}),
    ]
    rounds = diffs(play(events)[1])
    assert [diff.round for diff in rounds] == [1, 1, 1]
    assert rounds[1].members == {
        "c1": change(owned={"t": [0, 1]}, revoked={"t": [1]}, kept={"t": [0]}),
        "c2": change(assigned={"t": [1]}),
    }
    assert (rounds[1].cause, rounds[1].moved) == (Cause(kind="member.joined", member_ids=["c2"]), 1)


def test_second_cooperative_round_has_the_cause_of_the_first(log: Log) -> None:
    events = [
        log.observe(1, {"c1": {"t": [0, 1]}}, protocol=COOPERATIVE),
        log.observe(2, {"c1": {"t": [0]}, "c2": {}}, protocol=COOPERATIVE),
        log.observe(3, {"c1": {"t": [0]}, "c2": {"t": [1]}}, protocol=COOPERATIVE),
        log.observe(4, {"c1": {"t": [0]}, "c2": {"t": [1]}}, protocol=COOPERATIVE),
    ]
    rounds = diffs(play(events)[1])
    assert [(diff.generation, diff.round, diff.cause.kind, diff.moved) for diff in rounds] == [
        (1, 1, "member.joined", 0),
        (2, 1, "member.joined", 0),
        (3, 2, "member.joined", 1),
        (4, 1, "group.observed", 0),
    ]
    assert rounds[2].cause == rounds[1].cause


def test_repeated_and_older_generations_change_nothing(log: Log) -> None:
    state, _ = play([log.observe(3, {"c1": {"t": [0]}})])
    assert play([log.observe(3, {"c1": {"t": [0]}}), log.observe(2, {"c1": {"t": [0]}})], state)[1] == []


def test_restarted_generations_with_new_members_are_a_new_group(log: Log) -> None:
    state, _ = play([log.observe(30, {"c1": {"t": [0]}})])
    (diff,) = diffs(play([log.observe(1, {"d1": {"t": [0]}})], state)[1])
    assert (partitions_after(diff), diff.moved) == ({"d1": {"t": [0]}, "c1": {}}, 1)
    assert [item.kind for item in diff.cause.evidence] == ["member.left"]
    (diff,) = diffs(play([log.observe(4, {"d1": {"t": [0]}})], state)[1])
    assert diff.cause.evidence[-1] == Evidence(source="comparison", reason="first observation, at generation 4")


def test_empty_group_that_starts_again_under_kip_848_is_new(log: Log) -> None:
    """Kafka replaces an empty classic group by a new group of KIP-848, whose epochs begin at 1."""
    state, _ = play([log.observe(30, {"c1": {"t": [0]}}), log.observe(31, {})])
    started = log.observe(2, {"d1": {"t": [0]}}, epoch=True)
    (diff,) = diffs(play([started], state)[1])
    assert (diff.protocol, diff.group_epoch, partitions_after(diff)) == ("consumer", 2, {"d1": {"t": [0]}})
    assert play([log.observe(2, {"d1": {"t": [0]}})], state)[1] == []


def test_static_replacement_keeps_generation_without_diff(log: Log) -> None:
    state, _ = play([log.observe(3, {"a-1": {"t": [0]}}, instances={"a-1": "a"})])
    state, outputs = play([log.observe(3, {"a-2": {"t": [0]}}, instances={"a-2": "a"})], state)
    assert diffs(outputs) == []
    (latest,) = assignments(outputs)
    assert latest.assignment.members == {"a-2": {"t": [0]}}
    (diff,) = diffs(play([log.observe(4, {"a-2": {"t": [0]}}, instances={"a-2": "a"})], state)[1])
    assert diff.members == {"a-2": change(owned={"t": [0]}, kept={"t": [0]}, group_instance_id="a")}


def gone(member_id: str, kind: str | None) -> Evidence:
    return Evidence(source="s", reason="r", member_ids=[member_id], kind=kind)


UNKNOWN_END = "gone since the generation before, whether it left or crashed is not known"


@pytest.mark.parametrize(
    ("before", "after", "evidence", "cause", "compared"),
    [
        ("c1 c2", "c1", [gone("c2", None)], ("member.left", "c2"), []),
        ("c1 c2", "c1", [gone("c2", "member.fenced")], ("member.fenced", "c2"), []),
        ("c1 c2", "c1", [gone("c2", "group.observed")], ("group.observed", "c2"), []),
        ("c1 c2", "c1", [gone("c2", "group.observed"), gone("c2", "member.left")], ("member.left", "c2"), []),
        ("c1 c2", "c1", [gone("c2", "group.observed"), gone("c2", "member.fenced")], ("member.fenced", "c2"), []),
        # One member's leave and another one's unknown end are both reported.
        ("c1 c2 c3", "c1", [gone("c2", "group.observed")], ("member.left", "c3"), [UNKNOWN_END]),
        # A join is the cause even if another member left.
        ("c1", "c2", [], ("member.joined", "c2"), ["gone since the generation before"]),
        # A member that joined and left in between is the cause if nothing else is.
        ("c1", "c1", [gone("c2", "member.joined")], ("member.joined", "c2"), []),
    ],
)
def test_cause_is_what_evidence_or_comparison_shows(
    before: str, after: str, evidence: list[Evidence], cause: tuple[str, str], compared: list[str]
) -> None:
    log = Log()
    shares = [{name: {"t": [at]} for at, name in enumerate(names.split())} for names in (before, after)]
    last = diffs(play([log.observe(1, shares[0]), log.observe(2, shares[1], evidence=evidence)])[1])[-1].cause
    assert (last.kind, last.member_ids) == (cause[0], [cause[1]])
    assert last.evidence[: len(evidence)] == evidence
    assert [item.reason for item in last.evidence[len(evidence) :]] == compared


def test_missed_generations_are_reported(log: Log) -> None:
    diff = diffs(play([log.observe(1, {"c1": {"t": [0]}}), log.observe(5, {"c1": {"t": [0]}})])[1])[-1]
    assert diff.cause.evidence == [Evidence(source="comparison", reason="generations 2 to 4 were not seen")]


def test_member_events_of_an_observed_group_are_evidence(log: Log) -> None:
    state, _ = play([log.observe(1, {"c1": {"t": [0]}, "c2": {"t": [1]}})])
    state, outputs = play([log.fence("c2", reason="session timed out")], state)
    assert outputs == []
    (diff,) = diffs(play([log.observe(2, {"c1": {"t": [0, 1]}})], state)[1])
    assert diff.cause == Cause(
        kind="member.fenced",
        member_ids=["c2"],
        evidence=[Evidence(source="test", reason="session timed out", member_ids=["c2"], kind="member.fenced")],
    )


def test_subscriptions_and_partition_counts_are_causes(log: Log) -> None:
    state, _ = play([log.topics(t=1), log.observe(1, {"c1": {"t": [0]}})])
    state, outputs = play([log.observe(2, {"c1": {"t": [0]}}, topics={"c1": ["t", "u"]})], state)
    assert diffs(outputs)[0].cause == Cause(kind="member.subscription_changed", member_ids=["c1"])
    state, _ = play([log.topics(t=2)], state)
    _, outputs = play([log.observe(3, {"c1": {"t": [0, 1]}}, topics={"c1": ["t", "u"]})], state)
    assert diffs(outputs)[0].cause.kind == "topic.partitions_changed"


def test_derived_group_becomes_observed_at_its_first_snapshot(log: Log) -> None:
    state, _ = play([log.topics(t=2), log.join("c1"), log.join("c2"), log.join("c3")])
    state, outputs = play([log.observe(1, {"c1": {"t": [0, 1]}})], state)
    (diff,) = diffs(outputs)
    assert diff.generation == 1
    assert diff.members["c2"] == change(owned={"t": [1]}, revoked={"t": [1]}, present=False)
    assert play([log.join("c9")], state)[1] == []


def test_violation_is_reported(log: Log) -> None:
    _, outputs = play([log.topics(t=2), log.observe(1, {"c1": {"t": [0, 1]}, "c2": {"t": [1], "u": [0]}})])
    assert diffs(outputs)[0].violations == ["t-1 given to c1 and to c2", "c2 is given u-0 without subscribing to u"]


def test_a_deleted_observed_group_stays_observed(log: Log) -> None:
    state, outputs = play([log.observe(9, {"c1": {"t": [0]}}), log.delete()])
    assert diffs(outputs)[-1].members == {"c1": change(owned={"t": [0]}, revoked={"t": [0]}, present=False)}
    assert state.observed
    (diff,) = diffs(play([log.observe(1, {"c1": {"t": [0]}})], state)[1])
    assert diff.generation == 1


def test_snapshot_without_a_generation_is_refused() -> None:
    with pytest.raises(MissingGeneration, match=r"generation.*groupEpoch.*missing"):
        apply(None, Log().event(GroupObserved, members=[]))


def test_repeated_partitions_and_empty_topics_are_omitted(log: Log) -> None:
    _, outputs = play([log.topics(t=2, u=1), log.observe(1, {"c1": {"t": [1, 0, 1], "u": []}})])
    (diff,) = diffs(outputs)
    assert (diff.members, diff.violations) == ({"c1": change(assigned={"t": [0, 1]})}, [])
    (latest,) = assignments(outputs)
    assert latest.assignment.members == {"c1": {"t": [0, 1]}}


@pytest.mark.parametrize("logged_leave", [False, True])
def test_short_lived_members_do_not_cause_a_shutdown(log: Log, logged_leave: bool) -> None:
    """The group is empty because c1 and c3 left; c2, which was joining at that time, is not the cause."""
    state, _ = play([log.observe(1, {"c1": {"t": [0]}, "c3": {"t": [1]}})])
    evidence = [Evidence(source="s", reason="Adding new member c2", member_ids=["c2"], kind="member.joined")]
    if logged_leave:
        evidence.append(Evidence(source="s", reason="r", member_ids=["c1"], kind="member.left"))
    (diff,) = diffs(play([log.observe(3, {}, evidence=evidence)], state)[1])
    assert (diff.cause.kind, diff.cause.member_ids) == ("member.left", ["c1", "c3"])
    assert evidence[0] in diff.cause.evidence


POLLING_EVIDENCE = [Evidence(source="polling", reason="asked for with the Admin API")]
JOIN_EVIDENCE = [Evidence(source="coordinator-log", reason="c2 joined", member_ids=["c2"], kind="member.joined")]
ONE_MEMBER = {"c1": {"t": [0, 1]}}
TWO_MEMBERS = {"c1": {"t": [0]}, "c2": {"t": [1]}}


@pytest.mark.parametrize("epoch", [False, True])
@pytest.mark.parametrize("number", [3, 6, 7])
def test_polled_snapshot_not_ahead_of_offsets_is_ignored(log: Log, epoch: bool, number: int) -> None:
    state, _ = play([log.observe(7, TWO_MEMBERS, epoch=epoch)])
    for shares in (ONE_MEMBER, {"d1": {"t": [0]}}, {}):
        after, outputs = play([log.observe(number, shares, epoch=epoch, evidence=POLLING_EVIDENCE)], state)
        assert outputs == []
        assert (after.members, after.generation, after.counted) == (state.members, 7, False)


def test_polling_continues_without_the_offsets_topic(log: Log) -> None:
    state, _ = play([log.observe(7, ONE_MEMBER)])
    state, outputs = play(
        [log.observe(8, TWO_MEMBERS, evidence=POLLING_EVIDENCE), log.observe(9, ONE_MEMBER, evidence=POLLING_EVIDENCE)],
        state,
    )
    assert [(diff.generation, partitions_after(diff)) for diff in diffs(outputs)] == [
        (8, TWO_MEMBERS),
        (9, ONE_MEMBER | {"c2": {}}),
    ]
    assert state.counted


@pytest.mark.parametrize("epoch", [False, True])
@pytest.mark.parametrize("number", [2, 12])
def test_polled_change_is_reported_once_with_kafkas_number(log: Log, epoch: bool, number: int) -> None:
    events = [
        log.observe(1, ONE_MEMBER, epoch=epoch, evidence=POLLING_EVIDENCE),
        log.observe(2, TWO_MEMBERS, epoch=epoch, evidence=POLLING_EVIDENCE),
    ]
    state, _ = play(events)
    change_record = log.observe(number, TWO_MEMBERS, epoch=epoch, topics={"c2": ["t", "u"]}, evidence=JOIN_EVIDENCE)
    state, outputs = play([change_record], state)
    assert diffs(outputs) == []
    (latest,) = assignments(outputs)
    assert (latest.assignment.generation or latest.assignment.group_epoch) == number
    c2 = state.member("c2")
    assert (c2.topics, state.counted) == (["t", "u"], False)
    (diff,) = diffs(play([log.observe(number + 1, ONE_MEMBER, epoch=epoch)], state)[1])
    assert partitions_after(diff) == ONE_MEMBER | {"c2": {}}


def test_group_that_changed_after_polling_has_a_round(log: Log) -> None:
    state, _ = play([log.observe(1, ONE_MEMBER, evidence=POLLING_EVIDENCE)])
    state, outputs = play([log.observe(12, TWO_MEMBERS)], state)
    assert [(diff.generation, partitions_after(diff)) for diff in diffs(outputs)] == [(12, TWO_MEMBERS)]
    assert not state.counted
