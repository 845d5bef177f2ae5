"""Random scenarios with real clients on a real broker: the machines go through the same rounds with the same sets.

Four in the suite; ``PLAYS=50`` for the full comparison, ``PLAYS_FROM=1000`` for other seeds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.integration.streaming.protocols.java_members import JavaMembers
from tests.integration.streaming.protocols.play_cases import KINDS, case
from tests.integration.streaming.protocols.real_groups import Play
from tests.support.kafka import Kafka

pytestmark = [pytest.mark.broker, pytest.mark.cluster, pytest.mark.long]
_DEFAULT = 4


@pytest.fixture(scope="module")
def java() -> Iterator[JavaMembers]:
    with JavaMembers() as members:
        yield members


def _seeds() -> range:
    first = int(os.environ.get("PLAYS_FROM") or 0)
    return range(first, first + int(os.environ.get("PLAYS") or _DEFAULT))


@pytest.mark.parametrize("seed", _seeds())
def test_play(broker: Kafka, java: JavaMembers, seed: int) -> None:
    group, document = case(seed)
    play = Play(broker, java, group, document)
    try:
        play.run()
        assert play.machine() == play.real(), f"{KINDS[seed % len(KINDS)]} {document} {play.log.ids}"
    finally:
        play.close()
