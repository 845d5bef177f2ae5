"""Compares the reports about real groups with measurements: kinds, members, callbacks, downtime and incidents.

``make test-situations`` runs all situations and writes the tables of docs/explanation.
"""

import os
from collections.abc import Iterator
from concurrent.futures import Future
from math import floor

import pytest

from tests.acceptance.situations import table
from tests.acceptance.situations.downtimes import DowntimeSummary, group_downtimes, is_within_bounds
from tests.acceptance.situations.real_group import RealGroup
from tests.acceptance.situations.scenarios import SCENARIOS, join_one_member, run_long_storm, run_scenarios
from tests.acceptance.situations.stage import LOG, OFFSETS
from tests.acceptance.situations.verdicts import wrong_kinds

# Dozens of members run at once: if other tests ran at the same time, the members' sessions would time out.
pytestmark = [pytest.mark.broker, pytest.mark.full, pytest.mark.timeout(1800)]

#: Least number of partitions for which the share of correct bounds is meaningful.
MIN_PARTITIONS = 100


@pytest.fixture(scope="module")
def played(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[RealGroup]]]:
    items = [item for item in request.session.items if item.path == request.path]
    named = [item.callspec.params.get("name") for item in items if hasattr(item, "callspec")]
    wanted = [name for name in named if name is not None]
    first = sorted(dict.fromkeys(wanted), key=lambda name: SCENARIOS[name].apply is not run_long_storm)
    scenarios = {name: SCENARIOS[name] for name in first}
    with run_scenarios(scenarios, tmp_path_factory.mktemp("stage")) as groups:
        yield groups
        if os.environ.get("WRITE_SITUATIONS"):
            table.write({name: group.result() for name, group in groups.items() if group.exception() is None})


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_source_reports_the_scenario_correctly(played: dict[str, Future[RealGroup]], name: str) -> None:
    wrong_reports = wrong_kinds(played[name].result())
    assert not wrong_reports, "\n".join(wrong_reports)


@pytest.mark.parametrize("name", [name for name, scenario in SCENARIOS.items() if scenario.apply is join_one_member])
def test_a_join_under_kip_848_is_one_rebalance(played: dict[str, Future[RealGroup]], name: str) -> None:
    group = played[name].result()
    for view in (LOG, OFFSETS):
        [joined] = group.steps[1].episodes[view]
        rounds = group.views[view].rounds(group.group_id)
        rounds_of_both = [diff for diff in rounds if [m.present for m in diff.members.values()] == [True] * 2]
        epoch = max(diff.group_epoch or 0 for diff in rounds_of_both)
        assert (joined.rebalances, joined.round_count) == (1, 3), view
        assert [(diff.round, diff.cause.kind) for diff in rounds if diff.group_epoch == epoch] == [
            (number, "member.joined") for number in (1, 2, 3)
        ], view


@pytest.mark.parametrize("view", [LOG, OFFSETS])
def test_measured_downtime_lies_inside_its_bounds(played: dict[str, Future[RealGroup]], view: str) -> None:
    groups = [future.result() for future in played.values() if future.exception() is None]
    downtimes = [(group.group_id, downtime) for group in groups for downtime in group_downtimes(group, view)]
    figures = DowntimeSummary.of(downtime for _, downtime in downtimes)
    downtimes_outside_bounds = [entry for entry in downtimes if not is_within_bounds(entry[1])]
    assert figures.inside >= floor(0.95 * figures.partitions), (figures, downtimes_outside_bounds)
    if figures.partitions >= MIN_PARTITIONS:
        proven_downtimes = [
            downtime for group in groups if _has_stop_evidence(group, view) for downtime in group_downtimes(group, view)
        ]
        assert (DowntimeSummary.of(proven_downtimes).ratio or 0) >= 0.3, DowntimeSummary.of(proven_downtimes)


def _has_stop_evidence(group: RealGroup, view: str) -> bool:
    """Return true if the coordinator's log or KIP-848 records show when members gave partitions up.

    An eager member that stays in the group stops with its JoinGroup request, which the coordinator does not log. The
    time from an assignment to the first consumed record is part of the measured downtime, but nothing proves it.
    """
    return group.member_kind.protocol == "consumer" or (view == LOG and group.member_kind.protocol == "cooperative")
