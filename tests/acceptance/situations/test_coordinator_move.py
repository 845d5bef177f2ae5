"""Restarts of the broker that coordinates the groups, during a rebalance and between rebalances."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.acceptance.situations.member_kind import MemberKind
from tests.acceptance.situations.operations import begin
from tests.acceptance.situations.real_group import RealGroup
from tests.acceptance.situations.scenarios import CONSUMER, COOPERATIVE, EAGER
from tests.acceptance.situations.stage import stage
from tests.acceptance.situations.verdicts import wrong_kinds
from tests.support.wait import eventually

pytestmark = [pytest.mark.broker, pytest.mark.full]

#: Longer than a broker takes to start on a busy machine.
SESSION_MS = 30_000
#: Time for which a member delays the end of a rebalance; longer than a broker takes to start.
STALL_MS = 20_000


def test_rebalance_cut_short_by_coordinator_move_is_reported(tmp_path: Path) -> None:
    member_kind = [replace(kind, session_ms=SESSION_MS, poll_ms=4 * STALL_MS) for kind in (EAGER, COOPERATIVE)]
    with stage(tmp_path) as made, ThreadPoolExecutor(len(member_kind)) as pool:
        groups = [RealGroup(made, f"moves-{kind.protocol}", kind) for kind in member_kind]

        def start_joining_member(group: RealGroup) -> None:
            """Start a member that joins, waits for another member that does not poll, and ends."""
            made.java.pause_polling(group.java["b"], STALL_MS)
            group.start("c")
            prepare_line = re.compile(rf"Preparing to rebalance group {group.group_id} .*Adding new member c-")
            eventually(lambda: prepare_line.search(made.broker.log_path.read_text()))
            group.crash("c")

        def await_next_rounds(group: RealGroup) -> None:
            round_counts = {name: len(view.rounds(group.group_id)) for name, view in group.views.items()}
            with group.step("coordinator-move"):
                moved.wait()
                eventually(lambda: all(len(v.rounds(group.group_id)) > round_counts[n] for n, v in group.views.items()))

        moved = threading.Event()
        try:
            list(pool.map(lambda group: begin(group, "a", "b"), groups))
            list(pool.map(start_joining_member, groups))
            awaited_groups = pool.map(await_next_rounds, groups)
            made.broker.restart()
            moved.set()
            list(awaited_groups)
        finally:
            moved.set()
            for group in groups:
                group.close()
    assert [fault for group in groups for fault in wrong_kinds(group)] == []


def test_stable_groups_do_not_rebalance_when_coordinator_moves(tmp_path: Path) -> None:
    others = (MemberKind("confluent", "eager"), MemberKind("kafka-python", "eager"))
    member_kind = [replace(kind, session_ms=SESSION_MS) for kind in (EAGER, COOPERATIVE, CONSUMER, *others)]
    bounds = {"group.consumer.session.timeout.ms": str(SESSION_MS)}
    with stage(tmp_path, bounds) as made, ThreadPoolExecutor(len(member_kind)) as pool:
        groups = [RealGroup(made, f"moves-{kind.client}-{kind.protocol}", kind) for kind in member_kind]

        def scale_out(group: RealGroup) -> None:
            with group.step("scale-out", joined=("c",)):
                group.start("c")

        try:
            list(pool.map(lambda group: begin(group, "a", "b"), groups))
            made.broker.restart()
            list(pool.map(scale_out, groups))
        finally:
            for group in groups:
                group.close()
    assert [fault for group in groups for fault in wrong_kinds(group)] == []
