"""A group's coordinator stops and returns, as when brokers are restarted."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.acceptance.situations.life import MemberKind, RealGroup
from tests.acceptance.situations.lives import CONSUMER, COOPERATIVE, EAGER
from tests.acceptance.situations.stage import stage
from tests.acceptance.situations.verdicts import faults
from tests.support.wait import eventually

pytestmark = [pytest.mark.broker, pytest.mark.full]

#: Longer than a broker takes to start on a busy machine.
SESSION_MS = 30_000
#: Time for which a member delays the end of a rebalance; longer than that start.
STALL_MS = 20_000


def test_rebalance_cut_short_by_coordinator_move_is_reported(tmp_path: Path) -> None:
    speaks = [replace(one, session_ms=SESSION_MS, poll_ms=4 * STALL_MS) for one in (EAGER, COOPERATIVE)]
    with stage(tmp_path) as made, ThreadPoolExecutor(len(speaks)) as pool:
        lives = [RealGroup(made, f"moves-{speak.protocol}", speak) for speak in speaks]

        def begin(life: RealGroup) -> None:
            with life.step("first-start", came=("a", "b")):
                life.start("a", "b")

        def begin_to_join(life: RealGroup) -> None:
            """Start a member that joins, waits for a member that does not poll, and ends."""
            made.java.stall(life.java["b"], STALL_MS)
            life.start("c")
            said = re.compile(rf"Preparing to rebalance group {life.group} .*Adding new member c-")
            eventually(lambda: said.search(made.broker.log_path.read_text()))
            life.crash("c")

        def go_on(life: RealGroup) -> None:
            seen = {name: len(view.rounds(life.group)) for name, view in life.views.items()}
            with life.step("coordinator-move"):
                moved.wait()
                eventually(lambda: all(len(v.rounds(life.group)) > seen[n] for n, v in life.views.items()))

        moved = threading.Event()
        try:
            list(pool.map(begin, lives))
            list(pool.map(begin_to_join, lives))
            going = pool.map(go_on, lives)
            made.broker.restart()
            moved.set()
            list(going)
        finally:
            moved.set()
            for life in lives:
                life.close()
    assert [fault for life in lives for fault in faults(life)] == []


@pytest.mark.full
def test_stable_groups_do_not_rebalance_when_coordinator_moves(tmp_path: Path) -> None:
    others = (MemberKind("confluent", "eager"), MemberKind("kafka-python", "eager"))
    speaks = [replace(one, session_ms=SESSION_MS) for one in (EAGER, COOPERATIVE, CONSUMER, *others)]
    bounds = {"group.consumer.session.timeout.ms": str(SESSION_MS)}
    with stage(tmp_path, bounds) as made, ThreadPoolExecutor(len(speaks)) as pool:
        lives = [RealGroup(made, f"moves-{speak.client}-{speak.protocol}", speak) for speak in speaks]

        def begin(life: RealGroup) -> None:
            with life.step("first-start", came=("a", "b")):
                life.start("a", "b")

        def go_on(life: RealGroup) -> None:
            with life.step("scale-out", came=("c",)):
                life.start("c")

        try:
            list(pool.map(begin, lives))
            made.broker.restart()
            list(pool.map(go_on, lives))
        finally:
            for life in lives:
                life.close()
    assert [fault for life in lives for fault in faults(life)] == []
