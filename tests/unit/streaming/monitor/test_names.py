import pytest
from msgspec import UNSET

from streaming.cli.diff_lines import diff_lines
from streaming.monitor.outputs import Output
from streaming.records.codec import encode
from streaming.records.diffs import MemberNames
from streaming.records.events import Event, Evidence, GroupObserved, ObservedMember
from streaming.records.names import display_names
from tests.support.histories import Log, assignments, diffs, play

A = {"client_id": "orders", "client_host": "/10.0.0.1"}
B = {"client_id": "orders", "client_host": "/10.0.0.2"}
NAMES_A, NAMES_B = MemberNames(**A), MemberNames(**B)
CLIENTS = {"a": ("orders", "/10.0.0.1"), "b": ("orders", "/10.0.0.2")}


def names_by_diff(outputs: list[Output]) -> list[dict[str, MemberNames]]:
    """Return the names of the members in each diff."""
    return [
        {
            name: MemberNames(member.client_id, member.client_host, member.group_instance_id)
            for name, member in diff.members.items()
        }
        for diff in diffs(outputs)
    ]


def latest(outputs: list[Output]) -> list[dict[str, MemberNames]]:
    """Return the names of the members in each latest assignment."""
    records = [output.assignment for output in assignments(outputs)]
    return [{} if record is None else record.names for record in records]


@pytest.mark.parametrize(
    ("fields", "rounds"),
    [
        ({"assignors": ["range"]}, 1),
        ({"assignors": ["cooperative-sticky"]}, 2),
        ({"assignors": ["uniform"], "group_protocol": "consumer"}, 2),
    ],
)
def test_derived_members_keep_their_names_when_they_leave(log: Log, fields: dict[str, object], rounds: int) -> None:
    state, outputs = play([log.topics(t=4), log.join("a", **A, **fields)])
    assert (names_by_diff(outputs), latest(outputs)) == ([{"a": NAMES_A}], [{"a": NAMES_A}])
    state, outputs = play([log.join("b", **B, **fields, group_instance_id="i")], state)
    static = MemberNames(**B, group_instance_id="i")
    assert names_by_diff(outputs) == [{"a": NAMES_A, "b": static}] * rounds
    assert latest(outputs) == [{"a": NAMES_A, "b": static}]
    state, outputs = play([log.leave("a")], state)
    assert (names_by_diff(outputs)[0], latest(outputs)) == ({"a": NAMES_A, "b": static}, [{"b": static}])
    state, outputs = play([log.delete()], state)
    assert (names_by_diff(outputs), latest(outputs)) == ([{"b": static}], [{}])


def test_missing_client_names_are_null_in_json(log: Log) -> None:
    _, outputs = play([log.topics(t=1), log.join("a")])
    (diff, after) = outputs
    names = b'"clientId":null,"clientHost":null,"groupInstanceId":null}'
    assert b'"present":true,' + names in (diff.value() or b"")
    assert b'"names":{"a":{' + names + b"}}" in encode(after.assignment)


def test_repeated_join_keeps_or_updates_names(log: Log) -> None:
    state, _ = play([log.topics(t=1), log.join("a", **A)])
    again, outputs = play([log.join("a")], state)
    assert (outputs, again is not None and again.members) == ([], state and state.members)
    _, outputs = play([log.join("a", **B)], state)
    assert (names_by_diff(outputs), latest(outputs)) == ([], [{"a": NAMES_B}])


def test_replacement_of_a_static_member_has_its_own_names(log: Log) -> None:
    state, _ = play([log.topics(t=1), log.join("a-1", **A, group_instance_id="i")])
    _, outputs = play([log.join("a-2", client_id="other", group_instance_id="i")], state)
    assert latest(outputs) == [{"a-2": MemberNames(client_id="other", group_instance_id="i")}]


@pytest.mark.parametrize("epoch", [False, True])
def test_observed_members_have_the_names_of_their_snapshots(log: Log, epoch: bool) -> None:
    state, outputs = play([log.observe(3, {"a": {"t": [0]}, "b": {}}, clients=CLIENTS, epoch=epoch)])
    assert names_by_diff(outputs) == latest(outputs) == [{"a": NAMES_A, "b": NAMES_B}]
    _, outputs = play([log.observe(4, {"b": {"t": [0]}}, clients=CLIENTS, epoch=epoch)], state)
    assert (names_by_diff(outputs), latest(outputs)) == ([{"b": NAMES_B, "a": NAMES_A}], [{"b": NAMES_B}])


def test_repeated_generation_may_add_names(log: Log) -> None:
    state, _ = play([log.observe(3, {"a": {"t": [0]}})])
    state, outputs = play([log.observe(3, {"a": {"t": [0]}}, clients=CLIENTS)], state)
    assert (names_by_diff(outputs), latest(outputs)) == ([], [{"a": NAMES_A}])
    _, outputs = play([log.observe(3, {"a": {"t": [0]}}, clients=CLIENTS)], state)
    assert outputs == []


def test_returning_static_member_has_its_new_names(log: Log) -> None:
    identities = {"instances": {"a-1": "i", "a-2": "i"}, "clients": {"a-1": CLIENTS["a"], "a-2": CLIENTS["b"]}}
    state, _ = play([log.observe(3, {"a-1": {"t": [0]}}, **identities)])
    _, outputs = play([log.observe(3, {"a-2": {"t": [0]}}, **identities)], state)
    assert latest(outputs) == [{"a-2": MemberNames(**B, group_instance_id="i")}]


def test_reporting_members_have_the_names_they_reported(log: Log) -> None:
    joining = {"acknowledges": True, "assignors": ["range"]}
    settled = {"generation": 1, "owned": {"t": [0]}, "held_ms": 2000}
    events = [log.join("a-1", **joining, **A, group_instance_id="i"), log.acknowledge("a-1", **settled)]
    state, outputs = play(events)
    assert names_by_diff(outputs) == latest(outputs) == [{"a-1": MemberNames(**A, group_instance_id="i")}]
    events = [log.join("a-2", **joining, **B, group_instance_id="i"), log.acknowledge("a-2", **settled)]
    _, outputs = play(events, state)
    assert (names_by_diff(outputs), latest(outputs)) == ([], [{"a-2": MemberNames(**B, group_instance_id="i")}])


def test_cause_may_name_a_member_missing_in_the_diff(log: Log) -> None:

    def step(epoch: int, *shares: tuple[str, list[int]], evidence: tuple[Evidence, ...] = ()) -> Event:
        members = [
            ObservedMember(name, ["t"], {"t": share}, client_id=f"pay-{name[0]}", client_host="/h", member_epoch=epoch)
            for name, share in shares
        ]
        return log.event(
            GroupObserved, members=members, group_epoch=epoch, group_protocol="consumer", evidence=[*evidence]
        )

    left = Evidence(
        source="coordinator-log", reason="kLyAF left the consumer group", member_ids=["kLyAF"], kind="member.left"
    )
    events = [
        log.topics(t=4),
        step(2, ("kLyAF", [0, 1]), ("b", [2, 3])),
        step(3, ("b", [2, 3]), evidence=(left,)),
        step(3, ("b", [0, 1, 2, 3]), evidence=(left,)),
        step(4, ("b", [0, 1]), ("c", [2, 3]), evidence=(left,)),
    ]
    outputs = play(events)[1]
    _, gone, follow_up_round, later = diffs(outputs)
    assert gone.cause.names is UNSET
    assert gone.members["kLyAF"].client_id == "pay-k"
    for diff in (follow_up_round, later):
        assert diff.cause.names == {"kLyAF": MemberNames(client_id="pay-k", client_host="/h")}
        assert display_names(diff.named)["kLyAF"] == "pay-k"
    text = "\n".join(str(line) for line in diff_lines(follow_up_round))
    assert "kLyAF" not in text
    assert "pay-k" in text
