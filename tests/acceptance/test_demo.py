"""``rebalance-monitor demo`` as users run it: with a real broker, consumers, collector and Spark job."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.support.wait import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark]

GROUPS = {"orders-eager", "payments-cooperative"}


def topic_partitions(share: dict[str, list[int]]) -> set[tuple[str, int]]:
    return {(topic, p) for topic, partitions in share.items() for p in partitions}


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict], Path]:
    """Run the demo until both groups have had a crash; return the diffs and the folder of the consumers' reports."""
    folder = tmp_path_factory.mktemp("demo")
    answer = subprocess.run(
        [sys.executable, "-m", "streaming", "demo", "--duration", "36", "--json", "--keep", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert answer.returncode == 0, answer.stderr
    return [json.loads(line) for line in answer.stdout.splitlines()], folder


def test_both_demo_groups_have_joins_leaves_and_fences(demo_run) -> None:
    diffs, _ = demo_run
    causes = defaultdict(Counter)
    for diff in diffs:
        causes[diff["groupId"]][diff["cause"]["kind"]] += 1
    assert causes.keys() == GROUPS
    for group in GROUPS:
        assert {"member.joined", "member.left", "member.fenced"} <= causes[group].keys(), causes
    second = [d for d in diffs if d["groupId"] == "payments-cooperative" and d["round"] == 2]
    assert any(topic_partitions(m["assigned"]) for d in second for m in d["members"].values())


def test_every_record_keeps_the_algebra_of_diffs(demo_run) -> None:
    diffs, _ = demo_run
    assert diffs
    before: dict[str, dict[str, set]] = defaultdict(dict)
    for diff in diffs:
        owned_before: dict[str, set] = {}
        for member_id, member in diff["members"].items():
            owned, revoked, assigned, kept = (
                topic_partitions(member[name]) for name in ("owned", "revoked", "assigned", "kept")
            )
            assert kept == owned - revoked
            assert not revoked & assigned
            if member_id not in diff.get("undelivered", {}).get("evidence", {}).get("memberIds", ()):
                assert owned == before[diff["groupId"]].get(member_id, set()), diff
            owned_before[member_id] = kept | assigned
        all_partitions = [p for share in owned_before.values() for p in share]
        assert len(all_partitions) == len(set(all_partitions)), diff
        before[diff["groupId"]] = owned_before


def test_consumer_callbacks_agree_at_every_generation(demo_run) -> None:
    """The last callback of each member and generation equals the diff, checked without the demo's own comparison."""
    diffs, folder = demo_run
    owned_before: dict[tuple[str, int], set] = {}
    for path in folder.glob("*.jsonl"):
        eager = path.name.startswith("orders")
        for line in map(json.loads, path.read_text().splitlines()):
            if not line["closing"] and (line["event"] == "assigned" or not eager):
                owned_before[line["memberId"], line["generation"]] = topic_partitions(line["owned"])
    compared = 0
    for diff in diffs:
        for member_id, member in diff["members"].items():
            reported = owned_before.get((member_id, diff["generation"]))
            if reported is not None:
                assert topic_partitions(member["kept"]) | topic_partitions(member["assigned"]) == reported, diff
                compared += 1
    assert compared >= 12
    missing = owned_before.keys() - {(m, d["generation"]) for d in diffs for m in d["members"]}
    assert not missing, "a generation that a consumer lived through has no diff"


@pytest.mark.parametrize("seconds", [pytest.param(2, marks=pytest.mark.full), 12])
def test_ctrl_c_leaves_no_process_behind(seconds: int, tmp_path: Path) -> None:
    group_prefix = f"demo-{os.getpid()}-{seconds}"
    demo = subprocess.Popen(
        [sys.executable, "-m", "streaming", "demo", "--json", "--keep", str(tmp_path)],
        env={**os.environ, "REBALANCE_TEST_MARKER": group_prefix},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    threading.Event().wait(seconds)  # the signal may arrive at any moment of the demo
    demo.send_signal(signal.SIGINT)
    _, errors = demo.communicate(timeout=60)
    assert "Traceback" not in errors
    assert demo.returncode == 0, errors
    eventually(lambda: processes_with(group_prefix) == [], timeout=20)


def processes_with(group_prefix: str) -> list[str]:
    """Return the command lines of all processes with ``group_prefix`` in their environment."""
    pids = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if group_prefix.encode() in (path / "environ").read_bytes():
                pids.append((path / "cmdline").read_text().replace("\0", " ")[:200])
        except (OSError, UnicodeDecodeError):
            continue  # ended meanwhile, or a zombie
    return pids
