"""Prometheus reads our rules and configuration, and the rules fire when they should and not otherwise."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.container import missing

FOLDER = Path(__file__).parents[3] / "deploy" / "prometheus"


@pytest.mark.parametrize(
    "command",
    [
        ("check", "rules", "rules.yml"),
        ("test", "rules", "rules_test.yml"),
        ("check", "config", "--syntax-only", "prometheus.yml"),
    ],
    ids=" ".join,
)
def test_promtool_agrees(command: tuple[str, ...]) -> None:
    if shutil.which("promtool") is None:
        missing("promtool (Debian: prometheus) is not installed")
    done = subprocess.run(["promtool", *command], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_rule_is_tested() -> None:
    import yaml

    rules = yaml.safe_load((FOLDER / "rules.yml").read_text())
    tests = yaml.safe_load((FOLDER / "rules_test.yml").read_text())
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"] if "alert" in rule}
    tested = {case["alertname"] for test in tests["tests"] for case in test["alert_rule_test"]}
    assert tested == alerts
