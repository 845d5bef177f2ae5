"""Every state transition of ``CurrentAssignmentBuilder``, each with its complete result."""

import pytest

from assignors.model import TopicPartitions
from streaming.protocols.consumer.step import CurrentAssignment as Current
from streaming.protocols.consumer.step import Reconciliation, advance, first_round

S, UNREVOKED, UNRELEASED = Reconciliation.STABLE, Reconciliation.UNREVOKED, Reconciliation.UNRELEASED


@pytest.mark.parametrize(
    ("name", "current", "target", "partitions_of_others", "owned", "expected"),
    [
        ("stable stays", Current(S, 2, {"t": [0]}), {"t": [0]}, {}, None, Current(S, 2, {"t": [0]})),
        ("stable to stable", Current(S, 1, {"t": [0]}), {"t": [0, 1]}, {}, None, Current(S, 2, {"t": [0, 1]})),
        (
            "stable to unrevoked",
            Current(S, 1, {"t": [0, 1]}), {"t": [0, 2]}, {}, None,
            Current(UNREVOKED, 1, {"t": [0]}, {"t": [1]}),
        ),
        (
            "stable to unreleased",
            Current(S, 1, {"t": [0]}), {"t": [0, 2, 3]}, {"t": [2]}, None,
            Current(UNRELEASED, 2, {"t": [0, 3]}),
        ),
        (
            "unrevoked stays until the member says so",
            Current(UNREVOKED, 1, {"t": [0]}, {"t": [1]}), {"t": [0, 2]}, {}, None,
            Current(UNREVOKED, 1, {"t": [0]}, {"t": [1]}),
        ),
        (
            "unrevoked stays while it owns them",
            Current(UNREVOKED, 1, {"t": [0]}, {"t": [1]}), {"t": [0, 2]}, {}, {"t": [0, 1]},
            Current(UNREVOKED, 1, {"t": [0]}, {"t": [1]}),
        ),
        (
            "unrevoked to stable",
            Current(UNREVOKED, 1, {"t": [0]}, {"t": [1]}), {"t": [0, 2]}, {}, {"t": [0]},
            Current(S, 2, {"t": [0, 2]}),
        ),
        (
            "unreleased to stable",
            Current(UNRELEASED, 2, {"t": [0]}), {"t": [0, 2]}, {}, None,
            Current(S, 2, {"t": [0, 2]}),
        ),
        (
            "unreleased to unrevoked",
            Current(UNRELEASED, 1, {"t": [0]}), {}, {}, None,
            Current(UNREVOKED, 1, {}, {"t": [0]}),
        ),
    ],
)  # fmt: skip # one row per line
def test_each_transition_gives_the_expected_assignment(  # noqa: PLR0917 - the table's columns
    name: str,
    current: Current,
    target: TopicPartitions,
    partitions_of_others: TopicPartitions,
    owned: TopicPartitions | None,
    expected: Current,
) -> None:
    assert advance(current, target, 2, partitions_of_others, owned) == expected, name


def test_first_round_revokes_and_assigns_free_partitions() -> None:
    owned_shares = {"a": {"t": [0, 1, 2]}, "b": {"t": [3, 4]}, "gone": {"t": [5]}}
    target = {"a": {"t": [0, 1]}, "b": {"t": [3, 5]}, "c": {"t": [2, 4]}}
    assert first_round(owned_shares, target, target) == {"a": {"t": [0, 1]}, "b": {"t": [3, 5]}, "c": {}}
