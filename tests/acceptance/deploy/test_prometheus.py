"""Prometheus accepts the project's rules and configuration, and each rule fires exactly under its condition."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.requirements import missing

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
def test_promtool_accepts_the_files(command: tuple[str, ...]) -> None:
    if shutil.which("promtool") is None:
        missing("promtool (Debian: prometheus) is not installed")
    done = subprocess.run(["promtool", *command], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_parses_every_query_of_the_dashboard(tmp_path: Path) -> None:
    if shutil.which("promtool") is None:
        missing("promtool (Debian: prometheus) is not installed")
    text = (FOLDER.parent / "grafana" / "dashboards" / "rebalances.json").read_text()
    queries = [json.loads(f'"{query}"') for query in re.findall(r'"expr": "((?:[^"\\]|\\.)*)"', text)]
    rules = [{"record": f"q_{i}", "expr": query.replace("$__rate_interval", "1m")} for i, query in enumerate(queries)]
    (tmp_path / "queries.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", str(tmp_path / "queries.yml")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, f"{len(queries)} rules found" in done.stdout) == (0, True), done.stdout + done.stderr


def alert_rules() -> list[dict[str, Any]]:
    rules = yaml.safe_load((FOLDER / "rules.yml").read_text())
    return [rule for group in rules["groups"] for rule in group["rules"] if "alert" in rule]


def test_every_alert_has_a_section_of_the_runbook() -> None:
    text = (FOLDER.parents[1] / "docs" / "how-to" / "runbooks.md").read_text()
    sections = re.findall(r"(?m)^### (\w+)$", text)
    urls = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in alert_rules()}
    assert sections == list(urls)
    assert [url.rpartition("/docs/how-to/runbooks.md#")[2] for url in urls.values()] == [
        name.lower() for name in sections
    ]


def test_every_rule_is_tested() -> None:
    tests = yaml.safe_load((FOLDER / "rules_test.yml").read_text())
    alerts = {rule["alert"] for rule in alert_rules()}
    tested_alerts = {case["alertname"] for test in tests["tests"] for case in test["alert_rule_test"]}
    assert tested_alerts == alerts
