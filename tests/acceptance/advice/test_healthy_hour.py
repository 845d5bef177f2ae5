"""Forty healthy groups that run for a while with ordinary deploys get no advice above ``info``.

``HEALTHY_MINUTES=60 make test-advice`` runs them for an hour and writes the table beside docs/reference/advice.md.
"""

import os

import pytest

from tests.acceptance.advice.healthy import GROUPS, MINUTES, Played, play, write_table

#: The table is of the full size alone.
FULL_MINUTES = 60
pytestmark = [pytest.mark.broker, pytest.mark.full, pytest.mark.timeout(1800 + 60 * MINUTES)]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    groups = play(tmp_path_factory.mktemp("healthy"))
    if os.environ.get("WRITE_ADVICE") and MINUTES >= FULL_MINUTES:
        write_table(groups)
    return {each.name: each for each in groups}


@pytest.mark.parametrize("name", [*(healthy.name for healthy in GROUPS), "connect-one"])
def test_a_healthy_group_gets_no_warning(played: dict[str, Played], name: str) -> None:
    group = played[name]
    assert not group.problems, group.problems
    assert group.episodes, "the monitor has not seen the group"
    assert {advice.rule for advice in group.of_all} <= {advice.rule for advice in group.of_group}
    above = [advice for advice in (*group.of_group, *group.of_all) if advice.severity != "info"]
    assert not above, [(advice.rule, advice.severity, advice.evidence) for advice in above]
