"""Rules about timeouts: each is tested on a group with the fault and on a similar group without it."""

from streaming.advice.model import CostSaving
from tests.support.advice import evidence, history, rules
from tests.support.built_diffs import DiffBuilder
from tests.support.incidents import incident

EXPIRED = "removing member on heartbeat expiration"
POLL_TIMED_OUT = "explicit `LeaveGroup` request; client reason: consumer poll timeout has expired."


def group_of_three(instances: bool = False) -> DiffBuilder:
    ids = ("a@h1#1", "b@h2#1", "c@h3#1")
    return DiffBuilder(12).join(*(f"{member_id}={member_id[0]}" if instances else member_id for member_id in ids))


def pause_member(builder: DiffBuilder, times: int = 2) -> DiffBuilder:
    """Let the session of member a time out, and the same client rejoin from the same host two seconds later."""
    for number in range(1, times + 1):
        builder.fence(f"a@h1#{number}", after=3600, reason=EXPIRED).join(f"a@h1#{number + 1}", after=2)
    return builder


def test_expired_sessions_get_longer_session_timeout_advice() -> None:
    advice = rules(history(pause_member(group_of_three()), session_ms=10_000))["session-timeout-short"]
    assert advice.evidence == evidence(
        "Sessions expired in episodes 3, 2, and the same clients came back from the same hosts; "
        "the session timeout is 10 s",
        3,
        2,
        sessionTimeoutMs=10_000,
        awayMs=0,
    )
    assert advice.settings == {"session.timeout.ms": "45000"}
    assert advice.saving is not None
    assert (advice.saving.rounds, advice.saving.moved) == ((4, 0), (24, 0))

    for times, session_ms in ((2, 45_000), (1, 10_000), (2, None)):
        paused = history(pause_member(group_of_three(), times), session_ms=session_ms)
        assert "session-timeout-short" not in rules(paused)


def test_static_restarts_beyond_the_session_get_advice() -> None:
    builder = group_of_three(instances=True).fence("a@h1#1=a", after=3600, reason=EXPIRED).join("a@h1#2=a", after=60)
    advice = rules(history(builder, session_ms=45_000))["session-timeout-short"]
    assert advice.evidence == evidence(
        "Static members were away for up to 105 s and lost their places in episode 2; the session timeout is 45 s",
        2,
        sessionTimeoutMs=45_000,
        awayMs=105_000,
    )
    assert advice.settings == {"session.timeout.ms": "160000"}
    assert advice.severity == "info"
    assert advice.unsure == [
        "the replayed episodes would have had fewer rebalances, but about as much downtime or more"
    ]


def test_kip_848_advice_changes_the_brokers_session_timeout() -> None:
    builder = DiffBuilder(12)
    builder.protocol, builder.assignor = "consumer", "uniform"
    builder.join("a@h1#1=a", "b@h2#1=b", "c@h3#1=c")
    builder.fence("a@h1#1=a", after=3600, reason=EXPIRED).join("a@h1#2=a", after=60)
    advice = rules(history(builder))["session-timeout-short"]
    assert advice.settings == {"group.consumer.session.timeout.ms": "160000"}
    assert advice.confidence == "medium"
    assert advice.unsure == ["no record that was read has the session timeout: the default is taken, 45000 ms"]


def replace_members(builder: DiffBuilder, *, killed: bool) -> DiffBuilder:
    """Replace each member by a new member on another host; a killed member sends no LeaveGroup."""
    wait = 3600.0
    for member_id in list(builder.members):
        if killed:
            builder.fence(member_id, after=wait, reason=EXPIRED)
        else:
            builder.leave(member_id, after=wait)
        builder.join(f"{member_id[0]}@new-{member_id[0]}#2", after=2)
        wait = 60.0
    return builder


def test_killed_members_get_missing_leave_advice() -> None:
    advice = rules(history(replace_members(group_of_three(), killed=True), session_ms=45_000))["missing-leave"]
    assert (advice.severity, advice.confidence) == ("warning", "medium")
    assert advice.evidence == evidence(
        "3 restarts without LeaveGroup in episode 2 (a, b, c): partitions waited for the session timeout of 45 s",
        2,
        restarts=3,
        longestStopsMs=0,
    )
    assert advice.change.startswith("Leave the group at shutdown: close the consumer on SIGTERM. Give it time: ")
    assert advice.saving is not None
    assert advice.saving.downtime_ms == (534_456, 30_456)
    assert advice.saving.downtime_range_ms is not None

    assert "missing-leave" not in rules(history(replace_members(group_of_three(), killed=False), session_ms=45_000))


def left_and_joined(reason: str) -> DiffBuilder:
    return group_of_three().leave("a@h1#1", after=3600, reason=reason).join("a@h1#2", after=40)


def test_poll_timeouts_get_poll_interval_advice() -> None:
    advice = rules(history(left_and_joined(POLL_TIMED_OUT), session_ms=45_000, poll_ms=300_000))["poll-interval"]
    assert (advice.severity, advice.confidence) == ("warning", "high")
    assert advice.evidence == evidence(
        "Members exceeded max.poll.interval.ms (5 min) in episode 2: "
        "the longest time without a poll was at least 6 min",
        2,
        maxPollIntervalMs=300_000,
        longestGapMs=340_000,
    )
    assert advice.settings == {
        "max.poll.records": "<records that take half of max.poll.interval.ms at most>",
        "max.poll.interval.ms": "510000",
    }
    closed = "explicit `LeaveGroup` request; client reason: the consumer is being closed"
    assert "poll-interval" not in rules(history(left_and_joined(closed), poll_ms=300_000))


def test_open_incident_about_late_polls_is_critical() -> None:
    builder = group_of_three()
    late = incident("g", 3, kind="poll-timeout", opened_at=builder.now, story="a of g polls too late.", episode=1)
    advice = rules(history(builder, incidents=[late]))["poll-interval"]
    assert advice.severity == "critical"
    assert advice.evidence == evidence("Incident 3: a of g polls too late.", 1, incident=3)


def test_stuck_rebalances_get_rebalance_timeout_advice() -> None:
    builder = group_of_three()
    stuck_incident = incident(
        "g", 2, kind="rebalance-stuck", opened_at=builder.now, closed_at=builder.now + 1, story="g waited for a."
    )
    advice = rules(history(builder, poll_ms=600_000, incidents=[stuck_incident]))["rebalance-timeout"]
    assert (advice.severity, advice.confidence) == ("warning", "medium")
    assert advice.evidence == evidence(
        "Incident 2: g waited for a. The rebalance timeout, max.poll.interval.ms, is 10 min.", incident=2
    )
    assert "rebalance-timeout" not in rules(history(builder, poll_ms=600_000))


def started(join_interval_s: float) -> DiffBuilder:
    """Return a group that starts twice with four members, each of which joins in a separate rebalance."""
    builder = DiffBuilder(12)
    for start in range(2):
        for number in range(4):
            wait = 3600.0 if start and not number else join_interval_s
            builder.join(f"m{number}@h{number}#{start}", after=wait)
        if not start:
            builder.leave(*builder.members, after=600)
    return builder


def test_slow_first_starts_get_initial_delay_advice() -> None:
    advice = rules(history(started(5)))["initial-delay"]
    assert advice.evidence == evidence(
        "First starts took several rebalances in episodes 3, 1, 4 in the newest: members joined over 15 s",
        3,
        1,
        rebalances=8,
        spreadMs=15_000,
    )
    assert advice.settings == {"group.initial.rebalance.delay.ms": "18000"}
    assert "initial-delay" not in rules(history(started(40)))


def workers(delay_ms: int) -> DiffBuilder:
    """Return a Connect group whose worker b is away for 20 s, while b's tasks wait for the whole scheduled delay."""
    builder = DiffBuilder(4)
    builder.kind, builder.assignor = "connect", "sessioned"
    builder.join("a@h1#1", "b@h2#1")
    worker_tasks = builder.members["a@h1#1"]
    lost = builder.members["b@h2#1"]
    shares = {"a@h1#1": worker_tasks}
    builder.round("member.left", gone=("b@h2#1",), after=600, shares=shares, unassigned=lost, delay_ms=delay_ms)
    shares, left_ms = shares | {"b@h2#2": {}}, delay_ms - 20_000
    return builder.round(
        "member.joined", joined=("b@h2#2",), after=20, shares=shares, unassigned=lost, delay_ms=left_ms
    )


def test_long_connect_delay_gets_scheduled_delay_advice() -> None:
    advice = rules(history(workers(300_000), live=None))
    assert list(advice) == ["scheduled-delay"]
    assert advice["scheduled-delay"].severity == "warning"
    assert advice["scheduled-delay"].evidence == evidence(
        "Workers were back within 20 s in episode 2; tasks wait 5 min (scheduled.rebalance.max.delay.ms, the default)",
        2,
        restarts=1,
        slowestRestartMs=20_000,
        delayMs=300_000,
    )
    assert advice["scheduled-delay"].settings == {"scheduled.rebalance.max.delay.ms": "30000"}
    assert advice["scheduled-delay"].saving == CostSaving(
        text="60 s instead of 10 min of waiting in 1 restart, all tasks together",
        episodes=[2],
        downtime_ms=(600_000, 60_000),
    )
    assert rules(history(workers(40_000), live=None)) == {}
