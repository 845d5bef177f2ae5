"""Random scenarios with real clients on a real broker: simulations compute the same rounds and assignments.

The monitor, fed by a collector, reports each round with the expected assignment, and ``what-if`` predicts the result
of each event.

The suite runs four scenarios; ``PLAYS=50`` runs the full comparison, and ``PLAYS_FROM=1000`` uses other seeds.
"""

import logging
import os
from collections import Counter
from collections.abc import Iterator

import pytest
from msgspec import UNSET, UnsetType

from streaming.records.diffs import Expected
from tests.integration.streaming.collect.collector_process import CollectorProcess
from tests.integration.streaming.protocols.java_members import JavaMembers
from tests.integration.streaming.protocols.play_cases import KINDS, case
from tests.integration.streaming.protocols.predictions import SimulatedRounds
from tests.integration.streaming.protocols.real_groups import BrokerScenario, Group
from tests.support.histories import diffs
from tests.support.histories import play as play_events
from tests.support.kafka import Kafka
from tests.support.wait import eventually

pytestmark = [pytest.mark.broker, pytest.mark.cluster, pytest.mark.long]
_DEFAULT_GROUP_COUNT = 4
_log = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def java() -> Iterator[JavaMembers]:
    with JavaMembers() as members:
        yield members


def _seeds() -> range:
    first = int(os.environ.get("PLAYS_FROM") or 0)
    return range(first, first + int(os.environ.get("PLAYS") or _DEFAULT_GROUP_COUNT))


@pytest.fixture(scope="module")
def collector(broker: Kafka) -> Iterator[CollectorProcess]:
    with CollectorProcess(broker.bootstrap_servers, "play-.*") as running:
        yield running


@pytest.mark.parametrize("seed", _seeds())
def test_state_machine_computes_rounds_of_a_real_group(
    broker: Kafka, java: JavaMembers, collector: CollectorProcess, seed: int
) -> None:
    """Run a random scenario again if its cooperative rebalance needed an additional round because of timing.

    On a busy machine, a rebalance may begin before all SyncGroup requests of the previous rebalance have arrived. A
    cooperative member then revokes partitions one round later, which adds a round.
    """
    for last in (False, False, True):
        if played(broker, java, collector, seed, last=last):
            return


def played(broker: Kafka, java: JavaMembers, collector: CollectorProcess, seed: int, *, last: bool) -> bool:
    """Run and check a seed's scenario; return false if a late SyncGroup added a round, unless this is the last try."""
    group, document = case(seed)
    play = BrokerScenario(broker, java, group, document)
    try:
        predictions = SimulatedRounds(collector, play)
        play.run(predictions)
        real_rounds, machine = play.real_rounds(), play.machine()
        # The real group has more rounds, with the same final assignment.
        has_superseded_round = len(real_rounds) > len(machine) and real_rounds[-1][1] == machine[-1][1]
        if not last and KINDS[seed % len(KINDS)][0] == "cooperative" and has_superseded_round:
            return False
        assert machine == real_rounds, f"{KINDS[seed % len(KINDS)]} {document} {play.log.ids}"
        compared_rounds = eventually(lambda: rounds(collector, play.group_id, real_rounds[-1][0]))
    finally:
        play.close()
    verdicts = Counter("none" if expected is UNSET else expected.verdict for expected in compared_rounds)
    _log.info("%s; predictions: %d kept, %d open", dict(verdicts), predictions.kept, predictions.open)
    for expected in compared_rounds[1:]:
        if expected is not UNSET:
            assert expected.verdict in possible_verdicts(group), f"{expected} {group} {document}"
    return True


def rounds(collector: CollectorProcess, group_id: str, number: int) -> list[Expected | UnsetType]:
    rounds = [diff for diff in diffs(play_events(collector.events(group_id))[1]) if diff.members]
    last = rounds[-1] if rounds else None
    if last is None or (last.generation or last.group_epoch or 0) < number:
        return []
    return [diff.expected for diff in rounds]


def possible_verdicts(group: Group) -> set[str]:
    """Return the verdicts on expected assignments that are possible for this group of real clients."""
    if group.protocol == "consumer":
        return {"equal", "unknown"}  # a round that begins before the previous target is reached
    return {"equal"} if set(group.clients.values()) == {"java"} else {"equal", "tie"}
