from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from msgspec import UNSET

from assignors import registry
from assignors.model import Member, Topic
from streaming.monitor.group import apply
from streaming.records.diffs import Expected
from streaming.records.events import (
    POLLING,
    Event,
    Evidence,
    GroupObserved,
    Holding,
    ObservedMember,
    PartitionsChanged,
    TopicMetadata,
)
from tests.support.histories import Log, diffs, play

EQUAL_VERDICT = Expected(verdict="equal")


def view(log: Log, number: int, members: list[ObservedMember], assignor: str, **more: Any) -> Event:
    return log.event(GroupObserved, members=members, protocol=assignor, generation=number, **more)


def member(name: str, assigned: Holding, **more: Any) -> ObservedMember:
    return ObservedMember(**{"member_id": name, "topics": ["t"], "assigned": assigned, **more})


def verdicts(*events: Event) -> list[Expected | Any]:
    return [diff.expected for diff in diffs(play(events)[1])]


def second(*members: ObservedMember, assignor: str = "range", t: int = 4, **more: Any) -> Expected | Any:
    log = Log()
    first = view(log, 4, [member("a", {"t": list(range(t))})], assignor)
    return verdicts(log.topics(t=t), first, view(log, 5, list(members), assignor, **more))[-1]


def test_first_snapshot_is_not_compared_with_the_assignor(log: Log) -> None:
    assert verdicts(log.topics(t=4), view(log, 4, [member("a", {"t": [3]})], "range")) == [UNSET]


#: The fields of a member that owned all partitions in the first generation.
OLD = {"owned": {"t": [0, 1, 2, 3]}, "owned_generation": 4}
DIFFERENT = Expected(
    verdict="different",
    why="range computes another assignment",
    missing={"a": {"t": [1]}, "b": {"t": [3]}},
    extra={"a": {"t": [3]}, "b": {"t": [1]}},
)
OTHER_COUNTS = "with the partition counts in the leader's metadata"
ABOVE_LIMIT = "more than 1000 partitions ([stream] expected_partitions)"
POLLED = "polling does not show subscriptions and owned partitions of members"


@pytest.mark.parametrize(
    ("a", "b", "options", "expected"),
    [
        pytest.param([0, 1], [2, 3], {}, EQUAL_VERDICT, id="range"),
        pytest.param([0, 2], [1, 3], {"assignor": "roundrobin"}, EQUAL_VERDICT, id="roundrobin"),
        pytest.param([0, 3], [1, 2], {}, DIFFERENT, id="the differences are listed by member"),
        pytest.param([0], [1], {}, Expected("equal", OTHER_COUNTS, partitions={"t": 2}), id="fewer"),
        pytest.param([0, 1, 2], [3, 4, 5], {}, Expected("equal", OTHER_COUNTS, partitions={"t": 6}), id="more"),
        pytest.param([0], [1], {"t": 1001}, Expected("unknown", ABOVE_LIMIT), id="above the limit"),
        pytest.param([3], [], {"assignor": "mine"}, Expected("custom", "custom assignor: mine"), id="custom"),
        pytest.param([0], [1], {"evidence": [Evidence(POLLING, "a poll")]}, Expected("unknown", POLLED), id="polled"),
    ],
)
def test_round_has_the_verdict_of_its_comparison(
    a: list[int], b: list[int], options: dict[str, Any], expected: Expected
) -> None:
    assert second(member("a", {"t": a}), member("b", {"t": b}), **options) == expected


@pytest.mark.parametrize(
    ("a", "b", "assignor", "verdict"),
    [
        ([0, 1], [2, 3], "sticky", "equal"),
        ([0, 1], [], "cooperative-sticky", "equal"),
        ([1, 3], [0, 2], "sticky", "tie"),
        ([0, 1, 2], [3], "sticky", "different"),
    ],
)
def test_sticky_assignors_use_declared_ownership(a: list[int], b: list[int], assignor: str, verdict: str) -> None:
    expected = second(member("a", {"t": a}, **OLD), member("b", {"t": b} if b else {}), assignor=assignor)
    assert expected.verdict == verdict
    assert verdict != "tie" or expected.why == "follows every rule of sticky, with other tie-breaks"


def test_partition_number_beyond_the_topic_is_a_difference() -> None:
    verdict = second(member("a", {"t": [0, 1, 2_000_000_000]}), member("b", {"t": [2, 3]}))
    assert (verdict.verdict, verdict.extra) == ("different", {"a": {"t": [2_000_000_000]}})


def test_large_rounds_are_not_compared_nor_any_when_disabled(log: Log) -> None:
    events = [
        log.topics(t=4),
        view(log, 1, [member("a", {"t": [0, 1, 2, 3]})], "range"),
        view(log, 2, [member("a", {"t": [0, 1]}), member("b", {"t": [2, 3]})], "range"),
    ]
    expected = {}
    for most in (0, 3, 4):
        state, last = None, None
        for event in events:
            state, outputs = apply(state, event, most=most)
            last = (diffs(outputs) or [last])[-1]
        expected[most] = last.expected  # type: ignore[union-attr]
    assert expected == {
        0: UNSET,
        3: Expected(verdict="unknown", why="more than 3 partitions ([stream] expected_partitions)"),
        4: EQUAL_VERDICT,
    }


def _split_partitions(count: int, members: int, start: Callable[[int], int]) -> list[list[int]]:
    return [list(range(start(i), start(i + 1))) for i in range(members)]


class TestOtherClients:
    """Tests of clients in other languages whose assignor has the name of a Java assignor but follows another rule."""

    @pytest.mark.parametrize(
        ("name", "shares"),
        [
            # kafka-go's range: i·n/m.
            ("range", _split_partitions(7, 3, lambda i: i * 7 // 3)),
            ("range", _split_partitions(11, 4, lambda i: i * 11 // 4)),
            # Sarama's earlier range: ⌊i·n/m + ½⌋, members in the order of a hash.
            ("range", _split_partitions(7, 3, lambda i: int(i * 7 / 3 + 0.5))[::-1]),
            # kafka-go's round robin, with the members in another order.
            ("roundrobin", [[2, 5], [0, 3, 6], [1, 4]]),
        ],
    )
    def test_equally_even_assignment_is_not_a_difference(self, name: str, shares: list[list[int]]) -> None:
        members = [member(name, {"t": share}) for name, share in zip("abcd", shares, strict=False)]
        verdict = second(*members, assignor=name, t=sum(map(len, shares)))
        assert verdict.verdict == "tie"
        assert "another client's rule" in verdict.why

    @pytest.mark.parametrize(
        ("name", "shares"),
        [
            ("range", [[0, 2, 4], [1, 3]]),  # the partitions are not consecutive
            ("range", [[0, 1, 2, 3], [4]]),
            ("range", [[0, 1], [3, 4]]),  # partition 2 has no owner
            ("roundrobin", [[0, 1, 2, 3], [4]]),
            ("roundrobin", [[0, 2, 4], [1, 3, 4]]),
        ],
    )
    def test_an_uneven_share_is_a_difference(self, name: str, shares: list[list[int]]) -> None:
        members = [member(name, {"t": share}) for name, share in zip("ab", shares, strict=True)]
        assert second(*members, assignor=name, t=5).verdict == "different"

    def test_each_topic_is_compared_separately(self, log: Log) -> None:
        first = view(log, 4, [member("a", {"t": [0, 1, 2], "u": [0, 1, 2]}, topics=["t", "u"])], "roundrobin")
        both = [
            member("a", {"t": [0, 2], "u": [0, 2]}, topics=["t", "u"]),
            member("b", {"t": [1], "u": [1]}, topics=["t", "u"]),
        ]
        verdict = verdicts(log.topics(t=3, u=3), first, view(log, 5, both, "roundrobin"))[-1]
        assert verdict.verdict == "tie"


def test_error_in_the_comparison_does_not_lose_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_to_compare(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(registry, "find", lambda *_: registry.Assignor(fail_to_compare, fail_to_compare, ("EAGER",)))
    verdict = second(member("a", {"t": [0, 1]}), member("b", {"t": [2, 3]}))
    assert verdict == Expected(verdict="unknown", why="the check failed: KeyError: 'x'")


WHOLE = [0, 1, 2, 3]


def at(name: str, member_epoch: int, assigned: list[int], target: list[int], **more: Any) -> ObservedMember:
    share, target_share = ({"t": numbers} if numbers else {} for numbers in (assigned, target))
    return member(name, share, target=target_share, member_epoch=member_epoch, **more)


def epoch(log: Log, number: int, *members: ObservedMember, protocol: str | None = "uniform", **more: Any) -> Event:
    """Return a snapshot of a consumer group."""
    fields: dict[str, Any] = {"group_epoch": number, "group_protocol": "consumer", "protocol": protocol, **more}
    return log.event(GroupObserved, members=list(members), **fields)


class TestConsumerProtocol:
    """KIP-848: the expected target assignment is computed from the previous target when an epoch begins."""

    @staticmethod
    def verdicts(log: Log, *later: Event, assignor: str | None = "uniform") -> list[Expected | Any]:
        """Return the verdicts of a first epoch, in which member a owns all of ``t``, and of the later snapshots."""
        topics = {"t": TopicMetadata(partitions=4, topic_id="AAAAAAAAAAAAAAAAAAAAAQ")}
        first = epoch(log, 1, at("a", 1, WHOLE, WHOLE), protocol=assignor)
        return verdicts(log.event(PartitionsChanged, topics=topics), first, *later)

    def test_epoch_is_compared_once_not_at_each_step(self, log: Log) -> None:
        verdicts = self.verdicts(
            log,
            epoch(log, 2, at("a", 1, WHOLE, [0, 1]), at("b", 2, [], [2, 3])),
            epoch(log, 2, at("a", 2, [0, 1], [0, 1]), at("b", 2, [], [2, 3])),
        )
        assert verdicts == [UNSET, EQUAL_VERDICT, UNSET]

    @pytest.mark.parametrize(("a", "b", "verdict"), [([0, 1], [2, 3], "equal"), ([], [0, 1, 2, 3], "different")])
    def test_missing_assignor_name_means_the_default(self, log: Log, a: list[int], b: list[int], verdict: str) -> None:
        second_epoch = epoch(log, 2, at("a", 1, WHOLE, a), at("b", 2, [], b), protocol=None)
        result = self.verdicts(log, second_epoch, assignor=None)[-1]
        assert result.verdict == verdict
        assert "no member names an assignor: uniform is assumed, the broker's default" in result.why

    def test_topic_without_a_known_id_prevents_the_check(self, log: Log) -> None:
        target = {"t": WHOLE, "new": [0]}
        moved = member("a", {"t": WHOLE}, topics=["t", "new"], target=target, member_epoch=1)
        first, second = self.verdicts(log, epoch(log, 2, moved))
        assert (first, second.verdict) == (UNSET, "unknown")

    def test_coordinator_with_another_assignment_is_reported(self, log: Log) -> None:
        moved = epoch(log, 2, at("a", 1, WHOLE, []), at("b", 2, [], WHOLE))
        assert self.verdicts(log, moved)[1].verdict == "different"

    def test_assigning_group_is_not_compared_with_expectation(self) -> None:
        log = Log()
        assigning = epoch(log, 2, at("a", 1, WHOLE, WHOLE), at("b", 2, [], []), state="Assigning")
        assert self.verdicts(log, assigning) == [UNSET, UNSET]
        log = Log()
        later = epoch(log, 3, at("a", 1, WHOLE, [0, 1]), at("b", 3, [], [2, 3]))
        why = "the previous target is unknown: a had not reached it"
        assert self.verdicts(log, later)[-1] == Expected(verdict="unknown", why=why)

    def test_late_target_is_compared_when_members_change(self, log: Log) -> None:
        revoking = at("a", 1, [0, 1], [0, 1], pending_revocation={"t": [2, 3]})
        verdicts = self.verdicts(
            log,
            epoch(log, 2, at("a", 1, WHOLE, WHOLE), at("b", 2, [], []), state="Assigning"),
            epoch(log, 2, at("a", 1, WHOLE, [0, 1]), at("b", 2, [], [2, 3])),
            epoch(log, 2, revoking, at("b", 2, [], [2, 3])),
            epoch(log, 2, at("a", 2, [0, 1], [0, 1]), at("b", 2, [2, 3], [2, 3])),
        )
        assert verdicts == [UNSET, UNSET, EQUAL_VERDICT, UNSET]


@pytest.mark.parametrize("seed", range(40))
def test_any_result_of_a_kafka_assignor_is_as_expected(seed: int) -> None:
    """The result of a Kafka assignor is ``as expected``, but not after the partitions of two members are swapped."""
    random = Random(seed)
    name = random.choice(registry.names("classic"))
    assign = registry.find("classic", name).assign
    log, topics = Log(), {"t": Topic("t", random.randint(2, 9)), "u": Topic("u", random.randint(1, 5))}
    owned: dict[str, Holding] = {}
    events = [log.topics(**{topic: topic_spec.partitions for topic, topic_spec in topics.items()})]
    for number in range(1, 8):
        names = random.sample(["m1", "m2", "m3", "m4", "m5"], random.randint(1, 5))
        members = [
            Member(name, tuple(topics), owned=owned.get(name, {}), generation=number - 1 if name in owned else -1)
            for name in names
        ]
        assignment = assign(topics, members)
        owned = {name: {t: list(ps) for t, ps in share.items() if ps} for name, share in assignment.items()}
        shown = [
            ObservedMember(
                member.member_id,
                list(member.topics),
                owned[member.member_id],
                {topic: list(ps) for topic, ps in member.owned.items()},
                owned_generation=member.generation,
            )
            for member in members
        ]
        events.append(view(log, number, shown, name))
    assert {verdict.verdict for verdict in verdicts(*events)[1:]} == {"equal"}
