"""Advice about real groups: each rule fires for a group with the rule's fault, and not for a similar group without it.

``make test-advice`` plays all groups and writes the table beside docs/reference/advice.md.
"""

import os
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from streaming.advice.rules import RULES, advise, reaches_severity
from tests.acceptance.advice.advised_group import AdvisedGroup, play_of_scenario, playing_groups
from tests.acceptance.advice.cases import CASES, Case, find_advice, write_table, wrong_evidence
from tests.acceptance.advice.faults import GROUPS, HEALTHY

# Dozens of members run at once: if other tests ran at the same time, the members' sessions would time out.
pytestmark = [pytest.mark.broker, pytest.mark.full, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def played(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[AdvisedGroup]]]:
    items = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    cases = [item.callspec.params["case"] for item in items if "case" in item.callspec.params]
    wanted = {name for case in cases for name in (case.faulty, case.twin)}
    wanted |= {item.callspec.params["name"] for item in items if "name" in item.callspec.params}
    plays = {name: play_of_scenario(scenario) for name, scenario in GROUPS.items() if name in wanted}
    with playing_groups(plays, tmp_path_factory.mktemp("advice")) as groups:
        yield groups
        if os.environ.get("WRITE_ADVICE"):
            ends = {name: future.result() for name, future in groups.items() if future.exception() is None}
            write_table(
                (
                    case,
                    find_advice(ends[case.faulty], case.rule, case.delay_ms),
                    find_advice(ends[case.twin], case.rule, case.delay_ms),
                )
                for case in CASES
                if {case.faulty, case.twin} <= ends.keys()
            )


def test_every_advice_rule_has_a_real_group() -> None:
    assert {case.rule for case in CASES} == RULES.keys()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_advice_is_given_only_with_its_fault(played: dict[str, Future[AdvisedGroup]], case: Case) -> None:
    faulty, twin = played[case.faulty].result(), played[case.twin].result()
    advice = find_advice(faulty, case.rule, case.delay_ms)
    assert advice is not None, [(item.rule, item.evidence) for item in advise(faulty.history)]
    wrong = wrong_evidence(case, faulty, advice)
    assert not wrong, (wrong, advice.evidence)
    twin_advice = find_advice(twin, case.rule, case.delay_ms)
    assert twin_advice is None, twin_advice.evidence


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_groups_get_no_warning(played: dict[str, Future[AdvisedGroup]], name: str) -> None:
    advice = advise(played[name].result().history)
    assert not reaches_severity(advice, "warning"), [(item.rule, item.severity, item.evidence) for item in advice]
