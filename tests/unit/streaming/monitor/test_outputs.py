import pytest

from streaming.monitor.outputs import output_id
from streaming.records.diffs import LatestAssignment, MemberNames
from tests.support.histories import Log, assignments, play


def test_output_id_depends_on_group_event_and_part() -> None:
    log, other_log = Log("g"), Log("h")
    first, again, second = log.delete(), Log("g").delete(), log.delete()
    ids = [output_id(event, part) for event in (first, second, other_log.delete()) for part in (1, 2, "assignment")]
    assert len(set(ids)) == 9
    assert output_id(first, 1) == output_id(again, 1)
    assert len(output_id(first, 1)) == 32


@pytest.mark.parametrize(
    ("protocol", "assignor", "generation", "group_epoch"),
    [("classic", "range", 3, None), ("consumer", "uniform", None, 3)],
)
def test_assignment_record_has_generation_or_group_epoch(
    protocol: str, assignor: str, generation: int | None, group_epoch: int | None
) -> None:
    event = Log().observe(3, {"c1": {"t": [0, 1]}}, epoch=protocol == "consumer", protocol=assignor)
    _, outputs = play([event])
    (latest,) = assignments(outputs)
    assert latest.assignment == LatestAssignment(
        group_id="g",
        protocol=protocol,
        assignor=assignor,
        generation=generation,
        group_epoch=group_epoch,
        timestamp=1000,
        members={"c1": {"t": [0, 1]}},
        names={"c1": MemberNames()},
    )


def test_racks_are_published_for_members_that_declare_them() -> None:
    log = Log()
    _, outputs = play([log.topics(t=2), log.join("c1", rack_id="r1"), log.join("c2", rack_id="")])
    newest = assignments(outputs)[-1].assignment
    assert newest is not None
    assert newest.racks == {"c1": "r1"}
