"""Advice followed on real groups: the measured saving lies inside the bounds that the advice states.

``make test-advice`` writes the measured savings beside docs/reference/advice.md.
"""

import os
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from tests.acceptance.advice.advised_group import playing_groups
from tests.acceptance.advice.savings import DEPLOY_PLAYS, PROPERTIES, Outcome, overlaps, write_table

# Dozens of members run at once: if other tests ran at the same time, the members' sessions would time out.
pytestmark = [pytest.mark.broker, pytest.mark.full, pytest.mark.timeout(1800)]

#: Rules whose advice is closed by a comparison of deploys before and after the change.
COMPARED_RULES = {"cooperative-assignor", "consumer-protocol", "static-membership"}


@pytest.fixture(scope="module")
def played(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Outcome]]]:
    items = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    wanted = {item.callspec.params["rule"] for item in items}
    plays = {rule: play for rule, play in DEPLOY_PLAYS.items() if rule in wanted}
    with playing_groups(plays, tmp_path_factory.mktemp("savings"), PROPERTIES) as outcomes:
        yield outcomes
        if os.environ.get("WRITE_ADVICE"):
            write_table({rule: future.result() for rule, future in outcomes.items() if future.exception() is None})


@pytest.mark.parametrize("rule", DEPLOY_PLAYS)
def test_the_measured_saving_is_as_stated(played: dict[str, Future[Outcome]], rule: str) -> None:
    outcome = played[rule].result()
    stated_ms = outcome.advised_saving_ms
    description = (stated_ms, outcome.saved_ms, outcome.before, outcome.after, outcome.advice.saving)
    assert stated_ms is None or overlaps(stated_ms, outcome.saved_ms), description
    assert outcome.applied is not None or rule not in COMPARED_RULES
    assert outcome.saved_ms[1] > 0 or outcome.after.rebalances < outcome.before.rebalances, description
