"""Episodes of the stream's groups: their records, their timer and their stored state."""

from functools import partial
from typing import Any

import pytest
from msgspec import structs

from assignors.partitioner import partition_for_key
from streaming.episodes.record import MAX_LISTED_MEMBERS
from streaming.monitor.bucket import expire
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import OutputRecord, Sinks
from streaming.records.codec import ce_attributes, rfc3339
from streaming.records.episodes import Episode
from streaming.records.events import Event, Evidence, GroupObserved, GroupQuiet, ObservedMember
from tests.support.histories import Log
from tests.support.pure_stream import apply_events, written_episodes, written_event

QUIET_MS = 5_000
SINKS = Sinks("m", "d", "a", "dlt", {"m": 4, "d": 5, "a": 3, "dlt": 2, "e": 7}, episodes="e", quiet_ms=QUIET_MS)
run = partial(apply_events, sinks=SINKS)


def apply_timers(bucket: Bucket, now_ms: int) -> list[OutputRecord]:
    bucket.pack()  # pack() applies due timers
    return expire(bucket, now_ms, SINKS)


def test_batch_writes_the_last_record_of_each_episode(log: Log, bucket: Bucket) -> None:
    events = [log.topics(t=3), log.join("c1"), log.join("c2")]
    log.count += 10
    writes = run(bucket, [*events, log.join("c3"), log.join("c4")])
    episodes = written_episodes(writes)
    assert [(episode.episode, episode.kind, episode.status, episode.round_count) for episode in episodes] == [
        (1, "first-start", "settled", 2),
        (2, "scale-out", "settled", 2),
    ]
    diffs = [ce_attributes(write.headers)["id"] for write in writes if write.topic == "d"]
    assert [diff_id for episode in episodes for diff_id in episode.rounds] == diffs


def test_episode_records_share_the_partition_under_own_key() -> None:
    log = Log("a/b")
    (write,) = (write for write in run(Bucket(), [log.join("c1")]) if write.topic == "e")
    attributes = ce_attributes(write.headers)
    assert (write.key, write.partition) == (b"a/b/1", partition_for_key(b"a/b", 7))
    assert (attributes["type"], attributes["source"]) == ("rebalance.episode", "rebalance-monitor/stream")
    assert attributes["time"] == "1970-01-01T00:00:01.000Z"


def test_episode_record_ids_depend_on_event_and_group() -> None:
    def ids(log: Log) -> list[str]:
        events = [log.topics(t=3), log.join("c1")]
        log.count += 10
        writes = run(Bucket(), [*events, log.join("c2")])
        return [ce_attributes(write.headers)["id"] for write in writes if write.topic == "e"]

    assert ids(Log()) == ids(Log())
    assert len({*ids(Log()), *ids(Log("h"))}) == 4


def test_timer_reports_quiet_and_closes_the_episode(log: Log, bucket: Bucket) -> None:
    run(bucket, [log.topics(t=3), log.join("c1")], now_ms=100)
    assert bucket.get("g").quiet_at == 100 + QUIET_MS
    assert apply_timers(bucket, 99 + QUIET_MS) == []
    assert bucket.due == {"g": 100 + QUIET_MS}
    (write,) = expire(bucket, 100 + QUIET_MS, SINKS)
    event = written_event(write)
    mark = bucket.get("g").episode
    assert (write.topic, write.key, event.source) == ("m", b"g", "rebalance-monitor/timer")
    assert event.data == GroupQuiet(group_id="g", timestamp=2_000 + QUIET_MS, after=mark.last_note_id)
    assert event.id == f"g/quiet/{mark.last_note_id}"
    (episode,) = written_episodes(run(bucket, [event], now_ms=9_000))
    assert (episode.status, episode.closed_at, episode.updated_at) == ("settled", 2_000, 2_000)
    assert bucket.get("g").quiet_at == 0
    assert run(bucket, [event]) == []


def test_unread_timer_event_is_written_again_with_its_id(log: Log, bucket: Bucket) -> None:
    run(bucket, [log.topics(t=3), log.join("c1")])
    (first,) = apply_timers(bucket, QUIET_MS)
    assert apply_timers(bucket, 2 * QUIET_MS - 1) == []
    assert apply_timers(bucket, 2 * QUIET_MS) == [first]


def test_quiet_report_older_than_the_last_round_is_ignored(log: Log, bucket: Bucket) -> None:
    run(bucket, [log.topics(t=3), log.join("c1")])
    (write,) = apply_timers(bucket, QUIET_MS)
    (episode,) = written_episodes(run(bucket, [log.join("c2"), written_event(write)]))
    assert episode.round_count == 2
    assert bucket.get("g").quiet_at == QUIET_MS


def test_static_member_return_gives_an_episode_and_no_diff(log: Log, bucket: Bucket) -> None:
    run(bucket, [log.topics(t=3), log.join("c1", group_instance_id="i"), log.join("c2")])
    log.count += 10
    writes = run(bucket, [log.join("c9", group_instance_id="i")])
    (_, episode) = written_episodes(writes)
    assert (episode.kind, episode.rounds) == ("static-bounce", [])
    assert [(pair.left, pair.joined) for pair in episode.members.replaced] == [("c1", "c9")]
    assert [write.topic for write in writes] == ["a", "e", "e"]


def test_disabled_episodes_write_and_store_nothing(log: Log, bucket: Bucket) -> None:
    sinks = SINKS._replace(episodes=None)
    writes = run(bucket, [log.topics(t=3), log.join("c1")], sinks=sinks)
    assert [write.topic for write in writes] == ["d", "a"]
    tracked = bucket.get("g")
    assert (tracked.episode, tracked.quiet_at) == (None, 0)
    quiet = Event("timer", "q", GroupQuiet(group_id="g", timestamp=1, after="x"))
    assert run(bucket, [quiet], sinks=sinks) == []


def test_disabling_episodes_drops_their_state(log: Log, bucket: Bucket) -> None:
    run(bucket, [log.topics(t=3), log.join("c1")])
    bucket.pack()
    assert expire(bucket, QUIET_MS, SINKS._replace(episodes=None)) == []
    assert bucket.get("g").episode is None
    bucket.pack()
    assert bucket.due == {}


def test_too_long_episode_is_written_without_details(log: Log) -> None:
    joins = [log.join(f"{number:0200}") for number in range(MAX_LISTED_MEMBERS)]
    writes = run(Bucket(), [log.topics(t=3), *joins], sinks=SINKS._replace(max_bytes={"e": 60_000}))
    (episode,) = written_episodes(writes)
    assert (episode.members.joined, episode.members.omitted) == ([], MAX_LISTED_MEMBERS)
    assert episode.members.after == MAX_LISTED_MEMBERS
    assert episode.story.startswith(f"Started with {MAX_LISTED_MEMBERS} members")


PROTOCOLS = (
    *({"assignors": [name]} for name in ("range", "roundrobin", "sticky", "cooperative-sticky")),
    {"assignors": ["uniform"], "group_protocol": "consumer"},
)


class DeployedGroup(Log):
    """A group of ten members that rejoin under new ids; its events are ten seconds apart."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__()
        self.fields = fields
        self.log_events = [self.topics(t=24), *(self.rejoin(number, 0) for number in range(10))]
        self.count += 1000

    def now(self) -> int:
        return 10_000 * self.count

    def rejoin(self, number: int, incarnation: int) -> Event:
        names = {"client_id": f"pay-{number}", "client_host": f"/10.0.0.{number}"}
        return self.join(f"pay-{number}-{incarnation}", **names, **self.fields)

    def written_episodes(self) -> list[Episode]:
        episodes = written_episodes(run(Bucket(), self.log_events, sinks=SINKS._replace(quiet_ms=120_000)))
        assert episodes[0].kind == "first-start"
        return episodes[1:]


@pytest.mark.parametrize("fields", PROTOCOLS, ids=lambda fields: fields["assignors"][0])
def test_rolling_restart_is_one_episode_in_every_protocol(fields: dict[str, Any]) -> None:
    group = DeployedGroup(fields)
    for number in range(10):
        group.log_events += [group.leave(f"pay-{number}-0", reason="closed"), group.rejoin(number, 1)]
    (episode,) = group.written_episodes()
    assert (episode.kind, episode.sure, episode.rebalances) == ("rolling-restart", True, 20)
    assert [(pair.left, pair.joined) for pair in episode.members.replaced] == [
        (f"pay-{number}-0", f"pay-{number}-1") for number in range(10)
    ]
    assert episode.story.startswith("Rolling restart of 10 members, ")


@pytest.mark.parametrize("fields", PROTOCOLS, ids=lambda fields: fields["assignors"][0])
def test_repeated_kills_are_one_storm_that_names_the_member(fields: dict[str, Any]) -> None:
    group = DeployedGroup(fields)
    for incarnation in range(9):
        group.log_events += [
            group.fence(f"pay-3-{incarnation}", reason="session timeout"),
            group.rejoin(3, incarnation + 1),
        ]
    (episode,) = group.written_episodes()
    assert (episode.kind, episode.status, episode.sure) == ("storm", "storming", True)
    assert (episode.repeated.member_id, episode.repeated.times, episode.repeated.period_ms) == ("pay-3-9", 9, 20_000)
    assert "because of pay-3 (9 times, about every 20 s)" in episode.story


def test_a_group_that_scales_twice_in_an_hour_has_two_episodes() -> None:
    group = DeployedGroup({})
    group.log_events.append(group.rejoin(10, 0))
    group.count += 180
    group.log_events.append(group.leave("pay-10-0", reason="closed"))
    assert [(episode.kind, episode.sure, episode.status) for episode in group.written_episodes()] == [
        ("scale-out", True, "settled"),
        ("scale-in", True, "settled"),
    ]


def snapshot_event(log: Log, epoch: int, state: str, **members: dict[str, Any]) -> Event:
    """Return a snapshot of members, each with the partitions it ``has``, ``revokes`` and has as target (``to``)."""
    observed = [
        ObservedMember(
            member_id=name,
            topics=["t"],
            assigned={"t": member["has"]},
            client_id=f"pay-{name}",
            client_host="/10.0.3.17",
            member_epoch=member.get("at", epoch),
            pending_revocation={"t": member["revokes"]} if "revokes" in member else {},
            target={"t": member.get("to", member["has"])},
        )
        for name, member in members.items()
    ]
    return log.event(
        GroupObserved, members=observed, group_epoch=epoch, group_protocol="consumer", protocol="range", state=state
    )


def test_member_holding_up_its_group_is_named_until_it_yields(log: Log, bucket: Bucket) -> None:
    share_of_c2 = {"has": [], "to": [1]}
    run(bucket, [log.topics(t=2), snapshot_event(log, 2, "Stable", c1={"has": [0, 1]})])
    behind = {"c1": {"has": [0], "revokes": [1], "at": 2}, "c2": share_of_c2}
    (episode,) = written_episodes(run(bucket, [snapshot_event(log, 3, "Reconciling", **behind)]))
    since = episode.updated_at
    assert [(wait.member_id, wait.partitions, wait.since) for wait in episode.waiting_for] == [
        ("c1", {"t": [1]}, since),
        ("c2", {"t": [1]}, since),
    ]
    assert f"waiting for pay-c1 to give up t 1 since {rfc3339(since)[11:19]}" in episode.story
    assert written_episodes(run(bucket, [snapshot_event(log, 3, "Reconciling", **behind)])) == []
    revoked = snapshot_event(log, 3, "Reconciling", c1={"has": [0]}, c2=share_of_c2)
    (episode,) = written_episodes(run(bucket, [revoked]))
    assert [(wait.member_id, wait.reason) for wait in episode.waiting_for] == [("c2", "to take partitions")]
    (episode,) = written_episodes(run(bucket, [snapshot_event(log, 3, "Stable", c1={"has": [0]}, c2={"has": [1]})]))
    assert (episode.waiting_for, episode.round_count, episode.status) == ([], 3, "settled")
    state = bucket.get("g").episode
    assert state.wait_durations_ms == (episode.updated_at - since,)


def test_ignored_snapshot_does_not_change_awaited_members(log: Log, bucket: Bucket) -> None:
    waiting = snapshot_event(log, 3, "Reconciling", c1={"has": [0], "revokes": [1], "at": 2})
    run(bucket, [log.topics(t=2), waiting])
    assert written_episodes(run(bucket, [snapshot_event(log, 2, "Stable", c1={"has": [0]})])) == []
    polled = snapshot_event(log, 3, "Stable", c1={"has": [0]})
    assert isinstance(polled.data, GroupObserved)
    evidence = [Evidence(source="polling", reason="")]
    polled = structs.replace(polled, data=structs.replace(polled.data, evidence=evidence))
    assert written_episodes(run(bucket, [polled])) == []


def test_returned_static_member_is_not_counted_as_gone(log: Log, bucket: Bucket) -> None:
    first = log.observe(1, {"c1": {"t": [0]}, "c2": {"t": [1]}}, instances={"c1": "i"})
    run(bucket, [log.topics(t=2), first])
    log.count += 10
    (_, episode) = written_episodes(run(bucket, [log.observe(2, {"c9": {"t": [0, 1]}}, instances={"c9": "i"})]))
    assert (episode.members.before, episode.members.after, episode.members.gone) == (2, 1, ["c2"])


@pytest.mark.parametrize("reason", ["closed", None])
def test_leave_event_of_a_derived_group_proves_a_scale_in(reason: str | None) -> None:
    group = DeployedGroup({})
    group.log_events.append(group.leave("pay-3-0", reason=reason))
    (episode,) = group.written_episodes()
    assert (episode.kind, episode.sure, episode.members.left) == ("scale-in", True, ["pay-3-0"])


def test_missing_member_of_an_observed_group_proves_nothing(log: Log, bucket: Bucket) -> None:
    run(bucket, [log.topics(t=2), log.observe(1, {"c1": {"t": [0]}, "c2": {"t": [1]}})])
    log.count += 10
    (_, episode) = written_episodes(run(bucket, [log.observe(2, {"c2": {"t": [0, 1]}})]))
    assert (episode.kind, episode.sure, episode.members.gone) == ("unknown", False, ["c1"])


def test_added_grown_or_deleted_topic_gives_its_episode_kind(log: Log, bucket: Bucket) -> None:
    run(bucket, [log.topics(t=2), log.join("c1", "t", "u"), log.join("c2", "t", "u")])
    kinds = []
    for counts in ({"u": 2}, {"u": 4}, {"u": 0}):
        log.count += 10
        kinds.append(written_episodes(run(bucket, [log.topics(**counts)]))[-1].kind)
    assert kinds == ["topic-added", "partition-growth", "topic-deleted"]


@pytest.mark.parametrize("lost", [("cd",), ("c", "d")])
@pytest.mark.parametrize(("rack", "kind"), [("r2", "zone-lost"), ("r1", "crash")])
def test_loss_of_all_members_in_a_rack_is_a_zone_loss(
    log: Log, bucket: Bucket, rack: str, kind: str, lost: tuple[str, ...]
) -> None:
    racks = {"a": "r1", "b": "r1", "c": "r2", "d": rack}

    def view(generation: int, members: str, gone: str = "") -> Event:
        reason = Evidence(source="coordinator-log", reason="expired", member_ids=[*gone], kind="member.fenced")
        observed = [ObservedMember(name, ["t"], {"t": [ord(name) - 97]}, rack_id=racks[name]) for name in members]
        evidence = [reason] if gone else []
        return log.event(GroupObserved, members=observed, generation=generation, protocol="range", evidence=evidence)

    run(bucket, [log.topics(t=4), view(1, "abcd")])
    log.count += 10
    there = "abcd"
    for generation, gone in enumerate(lost, 2):
        there = "".join(name for name in there if name not in gone)
        episode = written_episodes(run(bucket, [view(generation, there, gone)]))[-1]
    assert (episode.kind, episode.members.lost) == (kind, ["c", "d"])
