from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from streaming.serve.board import Board
from streaming.serve.history import History
from streaming.serve.metrics import Metrics
from streaming.serve.standing import Standing
from tests.support.feed import records
from tests.support.histories import Group


def samples(board: Board) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = Metrics(board).text().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_groups_under_the_names_others_use(history: History) -> None:
    history.append(records(Group("g", {"t": 6}, 1).diffs(25)))
    group = history.groups["g"]
    found = samples(Board(history.extent, history.groups))
    label = ("consumergroup", "g")
    assert found["kafka_consumergroup_members", (label,)] == group.members
    assert found["kafka_consumergroup_group_state", (label, ("state", group.state))] == 1
    assert found["kafka_consumergroup_unowned_partitions", (label,)] == group.unassigned
    assert found["kafka_consumergroup_partitions_moved_total", (label,)] == group.moved_total
    assert (
        found["kafka_consumergroup_partition_unavailable_seconds_total", (label,)]
        == group.unavailable_ms / 1000
    )
    assert found["kafka_consumergroup_rebalance_duration_seconds_count", (label,)] == group.rebalances
    assert found["kafka_consumergroup_rebalance_duration_seconds_sum", (label,)] == group.rebalance_ms / 1000
    for cause, count in group.causes.items():
        assert found["kafka_consumergroup_rebalances_total", (("cause", cause), label)] == count
    assert sum(group.causes.values()) == group.rounds == 25


def test_no_member_id_is_a_label(history: History) -> None:
    history.append(records(Group("g", {"t": 6}, 1).diffs(25)))
    assert {name for _, labels in samples(Board(history.extent, history.groups)) for name, _ in labels} == {
        "consumergroup",
        "state",
        "cause",
    }


def test_the_feed_tells_of_itself(history: History) -> None:
    board = Board(history.extent, history.groups)
    board.progress(Standing(caught_up=True, lag=7))
    found = samples(board)
    assert found["rebalance_monitor_feed_lag_records", ()] == 7
    assert found["rebalance_monitor_feed_caught_up", ()] == 1
    with board.listening():
        assert samples(board)["rebalance_monitor_feed_clients", ()] == 1
