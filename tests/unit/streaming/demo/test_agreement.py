import pytest

from streaming.demo.agreement import ReportComparison, ReportLine, compare
from streaming.records.diffs import Diff
from streaming.records.events import Partitions
from tests.support.histories import change, sample


def diff(generation: int, **after: Partitions) -> Diff:
    return sample(generation=generation, members={member: change(assigned=share) for member, share in after.items()})


def line(generation: int, event: str, owned: Partitions, *, member: str = "c1", closing: bool = False) -> ReportLine:
    return ReportLine(generation, member, member, generation, event, {}, owned, closing)


def test_eager_revocations_belong_to_no_generation() -> None:
    reports = [line(1, "assigned", {"t": [0, 1]}), line(1, "revoked", {}), line(2, "assigned", {"t": [0]})]
    answer = compare([diff(1, c1={"t": [0, 1]}), diff(2, c1={"t": [0]})], reports, {"g": True})
    assert answer == ReportComparison(2, ())


def test_cooperative_revocations_count_in_their_generation() -> None:
    reports = [
        line(1, "assigned", {"t": [0, 1]}),
        line(2, "assigned", {"t": [0, 1]}),
        line(2, "revoked", {"t": [0]}),
        line(3, "revoked", {}, closing=True),
    ]
    diffs = [diff(1, c1={"t": [0, 1]}), diff(2, c1={"t": [0]}), diff(3, c1={"t": [0]})]
    assert compare(diffs, reports, {"g": False}) == ReportComparison(3, ())


def test_cooperative_revocation_may_report_the_next_generation() -> None:
    late_reports = [line(1, "assigned", {"t": [0, 1]}), line(3, "revoked", {"t": [0]})]
    diffs = [diff(1, c1={"t": [0, 1]}), diff(2, c1={"t": [0]}), diff(3, c1={"t": [0]})]
    assert compare(diffs, late_reports, {"g": False}) == ReportComparison(3, ())
    timely_reports = [late_reports[0], line(2, "assigned", {"t": [0, 1]}), late_reports[1]]
    assert len(compare(diffs, timely_reports, {"g": False}).differences) == 1
    assert len(compare([diff(2, c1={"t": [1]})], late_reports, {"g": False}).differences) == 1


def test_difference_is_described_in_words() -> None:
    answer = compare([diff(1, c1={"t": [0, 1]})], [line(1, "assigned", {"t": [0]})], {"g": True})
    assert answer == ReportComparison(
        1, ("g generation 1, c1: the diff says {'t': [0, 1]}, the consumer reported {'t': [0]}",)
    )


def test_an_assignment_to_a_closing_consumer_is_not_compared() -> None:
    reports = [line(1, "assigned", {"t": [0]}), line(1, "revoked", {}, closing=True)]
    answer = compare([diff(1, c1={"t": [0]}), diff(2, c1={"t": [0, 1]})], reports, {"g": False})
    assert answer == ReportComparison(1, ())


def test_last_callbacks_of_a_closing_consumer_may_show_a_round() -> None:
    reports = [
        line(1, "assigned", {"t": [0, 1, 2]}),
        line(2, "revoked", {"t": [1, 2]}, closing=True),
        line(2, "revoked", {}, closing=True),
    ]
    diffs = [diff(1, c1={"t": [0, 1, 2]}), diff(2, c1={"t": [1, 2]})]
    assert compare(diffs, reports, {"g": False}) == ReportComparison(2, ())


def test_consumer_closed_before_its_partitions_is_skipped() -> None:
    reports = [line(1, "assigned", {"t": [0, 1, 2]}), line(2, "revoked", {}, closing=True)]
    diffs = [diff(1, c1={"t": [0, 1, 2]}), diff(2, c1={"t": [1, 2]})]
    assert compare(diffs, reports, {"g": False}) == ReportComparison(1, ())
    reports.insert(1, line(2, "revoked", {"t": [0]}))
    assert len(compare(diffs, reports, {"g": False}).differences) == 1


def test_a_consumer_that_ends_before_a_callback_is_skipped() -> None:
    diffs = [diff(1, c1={"t": [0, 1]}), diff(2, c1={"t": [0]}, c2={"t": [1]}), diff(3, c1={"t": [0, 1]}, c2={})]
    reports = [line(1, "assigned", {"t": [0, 1]}), line(2, "assigned", {"t": [0]}), line(3, "assigned", {"t": [0, 1]})]
    assert compare(diffs, reports, {"g": True}) == ReportComparison(3, ())


@pytest.mark.parametrize("eager", [True, False])
def test_superseded_generations_are_not_compared(eager: bool) -> None:
    """A consumer gets no callback for a generation that is replaced before its SyncGroup response arrives."""
    diffs = [diff(1, c1={"t": [0, 1]}), diff(2, c1={"t": [0]}), diff(3, c1={"t": [0, 1]})]
    reports = [line(1, "assigned", {"t": [0, 1]}), line(3, "assigned", {"t": [0, 1]})]
    assert compare(diffs, reports, {"g": eager}) == ReportComparison(2, ())
    observed_reports = [reports[0], line(2, "assigned", {"t": [0, 1]}), reports[1]]
    assert len(compare(diffs, observed_reports, {"g": eager}).differences) == 1


def test_difference_after_a_superseded_generation_is_reported() -> None:
    diffs = [diff(1, c1={"t": [0, 1]}), diff(2, c1={"t": [0]}), diff(3, c1={"t": [0]})]
    reports = [line(1, "assigned", {"t": [0, 1]}), line(3, "assigned", {"t": [0, 1]})]
    answer = compare(diffs, reports, {"g": False})
    assert (answer.compared, len(answer.differences)) == (2, 1)


def test_killed_consumers_are_compared_up_to_their_last_callback() -> None:
    diffs = [diff(1, c1={"t": [0, 1]}), diff(2, c1={"t": [0]}), diff(3, c2={"t": [0]})]
    assert compare(diffs, [line(1, "assigned", {"t": [0, 1]})], {"g": False}) == ReportComparison(1, ())


def test_wrong_partitions_while_closing_are_a_difference() -> None:
    """A callback that contradicts its diff counts as a difference if no later generation has replaced the diff."""
    diffs = [diff(1, c1={"t": [0, 1]}), diff(2, c1={"t": [0]})]
    reports = [line(1, "assigned", {"t": [0, 1]}), line(2, "assigned", {"t": [0, 1]})]
    assert len(compare(diffs, reports, {"g": True}).differences) == 1
