"""Groups other than consumer groups: Connect, Kafka Streams and share groups."""

from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from streaming.monitor.outputs import Output
from streaming.records import codec
from streaming.records.diffs import Cause, Diff, Expected, LatestAssignment
from streaming.records.events import PROBING, Event, Evidence, GroupObserved, Holding, ObservedMember
from tests.support.histories import Log, assignments, change, diffs, play, sample


def snapshot(log: Log, kind: str, members: list[ObservedMember], **fields: Any) -> Event:
    return log.event(GroupObserved, members=members, kind=kind, protocol_type=kind, **fields)


def workers(
    log: Log, generation: int, runs: dict[str, Holding], *, revoked: dict[str, Holding] | None = None, **fields: Any
) -> Event:
    """Return a snapshot of a Connect group at this generation, with each worker's tasks."""
    members = [
        ObservedMember(name, [], share, pending_revocation=(revoked or {}).get(name, {}))
        for name, share in runs.items()
    ]
    return snapshot(log, "connect", members, generation=generation, **{"protocol": "sessioned"} | fields)


def streams(log: Log, epoch: int, members: dict[str, dict[str, Any]], state: str = "Stable") -> Event:
    """Return a snapshot of a streams group at this epoch."""
    tasks = {"standby": {}, "warmup": {}}
    observed = [ObservedMember(member_id=name, topics=["in"], **tasks | fields) for name, fields in members.items()]
    return snapshot(log, "streams", observed, group_epoch=epoch, group_protocol="streams", state=state)


def share(log: Log, epoch: int, members: dict[str, Holding]) -> Event:
    """Return a snapshot of a share group at this epoch."""
    observed = [ObservedMember(name, ["t"], partitions) for name, partitions in members.items()]
    return snapshot(log, "share", observed, group_epoch=epoch, group_protocol="share")


def rounds(outputs: list[Output]) -> list[tuple[int | None, int, str, Holding, int]]:
    return [
        (diff.generation or diff.group_epoch, diff.round, diff.cause.kind, diff.unassigned, diff.moved)
        for diff in diffs(outputs)
    ]


class TestConnect:
    def test_worker_join_gives_two_generations_with_one_cause(self, log: Log) -> None:
        events = [
            workers(log, 3, {"w1": {"snk": [-1, 0, 1, 2, 3]}}),
            workers(log, 4, {"w1": {"snk": [-1, 2, 3]}, "w2": {}}, revoked={"w1": {"snk": [0, 1]}}),
            workers(log, 5, {"w1": {"snk": [-1, 2, 3]}, "w2": {"snk": [0, 1]}}),
        ]
        state, outputs = play(events)
        assert rounds(outputs) == [
            (3, 1, "member.joined", {}, 0),
            (4, 1, "member.joined", {"snk": [0, 1]}, 0),
            (5, 2, "member.joined", {}, 2),
        ]
        assert diffs(outputs)[1] == sample(
            assignor="sessioned",
            generation=4,
            cause=Cause(kind="member.joined", member_ids=["w2"]),
            timestamp=events[1].data.timestamp,
            members={"w1": change({"snk": [-1, 0, 1, 2, 3]}, {"snk": [0, 1]}, {}, {"snk": [-1, 2, 3]}), "w2": change()},
            unassigned={"snk": [0, 1]},
            kind="connect",
            expected=Expected(
                "unknown", "Connect's leader uses its memory of earlier rounds, which no record contains"
            ),
        )
        latest = assignments(outputs)[-1].assignment
        assert (latest.kind, latest.standby, latest.members["w1"]) == ("connect", UNSET, {"snk": [-1, 2, 3]})
        assert state.last_owners == {}

    def test_lost_tasks_wait_for_their_worker_then_move(self, log: Log) -> None:
        events = [
            workers(log, 5, {"w1": {"snk": [-1, 0]}, "w2": {"snk": [1, 2]}}),
            workers(log, 6, {"w1": {"snk": [-1, 0]}}, delay_ms=15_000),
            workers(log, 7, {"w1": {"snk": [-1, 0, 1, 2]}}),
        ]
        _, outputs = play(events)
        assert rounds(outputs)[1:] == [(6, 1, "member.left", {"snk": [1, 2]}, 0), (7, 2, "member.left", {}, 2)]
        assert [diff.delay_ms for diff in diffs(outputs)] == [UNSET, 15_000, UNSET]

    def test_returning_worker_gets_its_tasks_after_the_delay(self, log: Log) -> None:
        events = [
            workers(log, 5, {"w1": {"snk": [-1, 0]}, "w2": {"snk": [1, 2]}}),
            workers(log, 6, {"w1": {"snk": [-1, 0]}}, delay_ms=15_000),
            workers(log, 7, {"w1": {"snk": [-1, 0]}, "w2-again": {}}, delay_ms=8_947),
            workers(log, 8, {"w1": {"snk": [-1, 0]}, "w2-again": {"snk": [1, 2]}}),
        ]
        assert rounds(play(events)[1])[1:] == [
            (6, 1, "member.left", {"snk": [1, 2]}, 0),
            (7, 1, "member.joined", {"snk": [1, 2]}, 0),
            (8, 2, "member.joined", {}, 2),
        ]

    def test_tasks_of_a_connector_that_is_deleted_are_forgotten(self, log: Log) -> None:
        events = [
            workers(log, 5, {"w1": {"snk": [-1, 0], "src": [-1]}}),
            workers(log, 6, {"w1": {"src": [-1]}}, revoked={"w1": {"snk": [-1, 0]}}),
            workers(log, 7, {"w1": {"src": [-1]}}),
            workers(log, 8, {"w1": {"src": [-1]}}),
        ]
        state, outputs = play(events)
        assert [(entry[1], entry[3]) for entry in rounds(outputs)] == [(1, {}), (1, {"snk": [-1, 0]}), (2, {}), (1, {})]
        assert state.last_owners == {}

    def test_each_eager_connect_generation_is_a_first_round(self, log: Log) -> None:
        events = [
            workers(log, 1, {"w1": {"snk": [-1, 0]}}, protocol="default"),
            workers(log, 2, {"w1": {"snk": [-1]}, "w2": {"snk": [0]}}, protocol="default"),
            workers(log, 3, {"w1": {"snk": [-1]}, "w2": {"snk": [0]}}, protocol="default"),
        ]
        assert [entry[1:3] for entry in rounds(play(events)[1])] == [
            (1, "member.joined"),
            (1, "member.joined"),
            (1, "group.observed"),
        ]

    def test_two_workers_with_one_task_are_a_violation(self) -> None:
        (diff,) = diffs(play([workers(Log(), 1, {"w1": {"snk": [-1]}, "w2": {"snk": [-1, 0]}})])[1])
        assert diff.violations == ["snk--1 given to w1 and to w2"]

    def test_deleted_connect_group_loses_its_tasks(self, log: Log) -> None:
        _, outputs = play([workers(log, 1, {"w1": {"snk": [-1]}}), log.delete()])
        last = diffs(outputs)[-1]
        assert (last.kind, last.unassigned) == ("connect", {})
        assert last.members == {"w1": change({"snk": [-1]}, {"snk": [-1]}, present=False)}


class TestStreams:
    def test_streams_task_waits_until_its_owner_releases_it(self, log: Log) -> None:
        first = {"a": {"assigned": {"0": [0, 1]}, "target": {"0": [0, 1]}}}
        revoking = {
            "a": {"assigned": {"0": [0]}, "pending_revocation": {"0": [1]}, "target": {"0": [0]}},
            "b": {"assigned": {}, "standby": {"0": [0]}, "target": {"0": [1]}},
        }
        released = {
            "a": {"assigned": {"0": [0]}, "standby": {"0": [1]}, "target": {"0": [0]}},
            "b": {"assigned": {"0": [1]}, "standby": {"0": [0]}, "target": {"0": [1]}},
        }
        events = [streams(log, 4, first), streams(log, 5, revoking, "Reconciling"), streams(log, 5, released)]
        _, outputs = play(events)
        assert rounds(outputs) == [
            (4, 1, "member.joined", {}, 0),
            (5, 1, "member.joined", {"0": [1]}, 0),
            (5, 2, "member.joined", {}, 1),
        ]
        start, _, last = diffs(outputs)
        assert (start.protocol, start.kind, start.generation) == ("streams", "streams", None)
        assert last.members == {
            "a": change({"0": [0]}, kept={"0": [0]}, standby={"0": [1]}, warmup={}),
            "b": change(assigned={"0": [1]}, standby={"0": [0]}, warmup={}),
        }
        latest = assignments(outputs)[-1].assignment
        assert (latest.standby, latest.warmup) == ({"a": {"0": [1]}, "b": {"0": [0]}}, {"a": {}, "b": {}})

    def test_standby_only_step_is_a_round_but_a_repeat_is_not(self, log: Log) -> None:
        members = {"a": {"assigned": {"0": [0]}}, "b": {"assigned": {}}}
        caught_up = {"a": {"assigned": {"0": [0]}}, "b": {"assigned": {}, "standby": {"0": [0]}}}
        _, outputs = play([streams(log, 4, members_of_step) for members_of_step in (members, caught_up, caught_up)])
        assert [(diff.group_epoch, diff.round, diff.members["b"].standby) for diff in diffs(outputs)] == [
            (4, 1, {}),
            (4, 2, {"0": [0]}),
        ]

    def test_departed_member_has_no_standby_tasks(self, log: Log) -> None:
        events = [streams(log, 4, {"a": {"assigned": {"0": [0]}, "standby": {"0": [1]}}}), streams(log, 5, {}, "Empty")]
        (_, last) = diffs(play(events)[1])
        assert last.members == {"a": change({"0": [0]}, {"0": [0]}, present=False)}
        assert last.unassigned == {}

    def test_probing_rebalance_is_the_cause_without_other_evidence(self, log: Log) -> None:
        probing_evidence = Evidence(source="assignment-info", reason="probing", member_ids=["a"], kind=PROBING)

        def generation(number: int, members: dict[str, Holding], *evidence: Evidence) -> Event:
            event = log.observe(number, members, protocol="stream", evidence=evidence)
            return msgspec.structs.replace(event, data=msgspec.structs.replace(event.data, kind="streams"))

        events = [
            generation(1, {"a": {"t": [0, 1]}, "b": {}}),
            generation(2, {"a": {"t": [0]}, "b": {}}, probing_evidence),
            generation(3, {"a": {"t": [0]}, "b": {"t": [1]}}),
            generation(4, {"a": {"t": [0]}, "b": {"t": [1]}, "c": {}}, probing_evidence),
        ]
        assert [(diff.round, diff.cause.kind, diff.cause.member_ids) for diff in diffs(play(events)[1])[1:]] == [
            (1, PROBING, ["a"]),
            (2, PROBING, ["a"]),
            (1, "member.joined", ["c"]),
        ]

    def test_standby_tasks_of_others_are_not_remembered(self) -> None:
        """The checkpoint omits standby tasks; if the state kept them, a restart would change the next diff."""
        member = ObservedMember(member_id="a", topics=["t"], assigned={}, standby={"0": [0]}, warmup={"0": [1]})
        state, outputs = play([Log().event(GroupObserved, members=[member], generation=1)])
        assert (state.standby, state.warmup) == ({}, {})
        assert diffs(outputs)[0].members["a"].standby is UNSET


class TestShare:
    def test_share_group_partition_may_have_several_members(self, log: Log) -> None:
        events = [
            log.topics(t=2),
            share(log, 2, {"a": {"t": [0, 1]}}),
            share(log, 3, {"a": {"t": [0]}, "b": {"t": [0, 1]}}),
        ]
        state, outputs = play(events)
        last = diffs(outputs)[-1]
        assert (last.kind, last.protocol, last.violations) == ("share", "share", [])
        assert (last.unassigned, last.moved) == ({}, 1)
        assert last.members == {
            "a": change({"t": [0, 1]}, {"t": [1]}, {}, {"t": [0]}),
            "b": change(assigned={"t": [0, 1]}),
        }
        assert state.last_owners == {}

    def test_partition_with_remaining_owners_is_not_unassigned(self, log: Log) -> None:
        before, after = {"a": {"t": [0]}, "b": {"t": [0]}}, {"a": {}, "b": {"t": [0]}}
        state, outputs = play([log.topics(t=1), share(log, 2, before), share(log, 3, after)])
        assert diffs(outputs)[-1].unassigned == {}
        assert state.last_owners == {}

    def test_unknown_or_unsubscribed_topics_are_violations(self, log: Log) -> None:
        members: dict[str, Holding] = {"a": {"t": [5]}, "b": {"u": [0]}}
        (diff,) = diffs(play([log.topics(t=1), share(log, 2, members)])[1])
        assert diff.violations == ["a is given t-5, but t has 1 partitions", "b is given u-0 without subscribing to u"]


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_task_minus_1_is_decoded_only_for_connect_groups(kind: str) -> None:
    event = workers(Log(), 1, {"w1": {"snk": [-1]}})
    key, value, headers = codec.encode_event(event)
    attributes = codec.ce_attributes(headers)
    assert codec.decode_event(key, value, attributes) == event
    with pytest.raises(codec.MalformedEvent, match="w1: partition -1 of snk; only Connect's tasks"):
        codec.decode_event(key, value.replace(b'"connect"}', f'"{kind}"}}'.encode()), attributes)
    with pytest.raises(codec.MalformedEvent, match=">= -1"):
        codec.decode_event(key, value.replace(b"[-1]", b"[-2]"), attributes)


@pytest.mark.parametrize("protocol", ["consumer", "share", "streams", "deleted"])
def test_group_reusing_the_id_of_a_connect_group_is_decoded(log: Log, protocol: str) -> None:
    before = workers(log, 1, {"w1": {"snk": [-1, 0]}})
    after = {
        "consumer": [log.observe(3, {"c1": {"t": [0]}})],
        "share": [share(log, 3, {"c1": {"t": [0]}})],
        "streams": [streams(log, 3, {"c1": {"assigned": {"0": [0]}}})],
        "deleted": [log.delete()],
    }[protocol]
    _, outputs = play([before, *after])
    assert {"snk": [-1, 0]} in [member.revoked for diff in diffs(outputs) for member in diff.members.values()]
    for diff in diffs(outputs):
        assert codec.decode(msgspec.json.Decoder(Diff), codec.encode(diff)) == diff
    for assignment in assignments(outputs):
        if assignment.assignment is not None:
            decoded = codec.decode(msgspec.json.Decoder(LatestAssignment), codec.encode(assignment.assignment))
            assert decoded == assignment.assignment


def test_only_connect_members_hold_tasks_below_zero() -> None:
    connect = sample(kind="connect", members={"w1": change(assigned={"snk": [-1]})})
    decoder = msgspec.json.Decoder(Diff)
    assert codec.decode(decoder, codec.encode(connect)) == connect
    for partitions in (
        {"members": {"w1": change(assigned={"snk": [-1]})}},
        {"members": {"w1": change(owned={"snk": [-1]}, kept={"snk": [-1]})}},
        {"unassigned": {"snk": [-1]}},
    ):
        with pytest.raises(msgspec.ValidationError, match="partition -1 of snk; only Connect's tasks"):
            codec.decode(decoder, codec.encode(sample(**partitions)))
