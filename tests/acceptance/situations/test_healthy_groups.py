"""Healthy rollouts and ordinary rebalances of every protocol get the right episode kind and open no incident."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from random import Random

import pytest

from tests.acceptance.situations import operations
from tests.acceptance.situations.real_group import RealGroup
from tests.acceptance.situations.scenarios import CONSUMER, COOPERATIVE, EAGER, STATIC, Scenario, run_scenarios
from tests.acceptance.situations.stage import LOG
from tests.acceptance.situations.verdicts import wrong_kinds

# Dozens of members run at once: if other tests ran at the same time, the members' sessions would time out.
pytestmark = [pytest.mark.broker, pytest.mark.full, pytest.mark.timeout(3600)]

#: Rollouts of each strategy, so 20 of each protocol.
ROLLOUT_COUNT = 5
REBALANCE_COUNT = 20
#: A member is busy with its records for at most this long.
BUSY_MS = 6000
_POLL_MS = 60_000

Record = Callable[[str, object], None]


def repeat_scaling(group: RealGroup) -> None:
    """Add and remove a member repeatedly while another member is busy, so that rebalances take different times."""
    random = Random(33)
    operations.begin(group, "a", "b")
    for number in range(REBALANCE_COUNT):
        busy_ms = random.randrange(BUSY_MS)
        joins = number % 2 == 0
        change = {"joined" if joins else "left": ("c",)}
        with group.step("scale-out" if joins else "scale-in", **change):
            group.stage.java.pause_polling(group.java["a"], busy_ms)
            (group.start if joins else group.leave)("c")
    operations.end(group)


PROTOCOLS = {"eager": EAGER, "cooperative": COOPERATIVE, "static": STATIC, "kip-848": CONSUMER}
CHANGES: dict[str, Callable[[RealGroup], None]] = {
    "ordinary rebalances": repeat_scaling,
    "rolling restarts": partial(operations.run_rollouts, count=ROLLOUT_COUNT),
    "surges": partial(operations.roll_out_with_surge, count=ROLLOUT_COUNT),
    "blue-green": partial(operations.replace_all_members, count=ROLLOUT_COUNT),
    "recreations": partial(operations.replace_on_other_hosts, count=ROLLOUT_COUNT),
}
SCENARIOS = {
    f"{change} {protocol}": Scenario(replace(kind, poll_ms=_POLL_MS), apply)
    for change, apply in CHANGES.items()
    for protocol, kind in PROTOCOLS.items()
}


@pytest.fixture(scope="module")
def played(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[RealGroup]]]:
    items = [item for item in request.session.items if item.path == request.path]
    wanted = {item.callspec.params["name"] for item in items if hasattr(item, "callspec")}
    scenarios = {name: scenario for name, scenario in SCENARIOS.items() if name in wanted}
    with run_scenarios(scenarios, tmp_path_factory.mktemp("healthy")) as groups:
        yield groups


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_healthy_group_has_no_incident(
    played: dict[str, Future[RealGroup]], name: str, record_property: Record
) -> None:
    group = played[name].result()
    rebalances = sum(episode.rebalances for step in group.steps for episode in step.episodes[LOG])
    record_property("rebalances", rebalances)
    assert not {view: stories for view in group.views if (stories := [i.story for i in group.incidents(view)])}
    assert rebalances >= REBALANCE_COUNT or not name.startswith("ordinary")
    wrong_reports = wrong_kinds(group)
    assert not wrong_reports, "\n".join(wrong_reports)
