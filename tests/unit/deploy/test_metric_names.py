"""Every metric in an alert rule or a dashboard panel is exported by a component."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from streaming.collect.metrics import CollectMetrics, PollMetrics
from streaming.serve.board import Board
from streaming.serve.history import RoundRange
from streaming.serve.metrics import Metrics
from streaming.spark.progress import BatchMetrics

DEPLOY_FOLDER = Path(__file__).parents[3] / "deploy"
ANNOTATIONS = "grafana/annotations.json"
DASHBOARD = DEPLOY_FOLDER / "grafana" / "dashboards" / "rebalances.json"
METRIC_NAME_PATTERN = re.compile(r"\b(?:kafka_consumergroup|rebalance_monitor)_[a-z_]+\b")


@pytest.fixture(scope="module")
def exported_metrics() -> set[str]:
    registry, polling = CollectorRegistry(), CollectorRegistry()
    board = Board(RoundRange(epoch="e", trimmed=0, last=0), {})
    CollectMetrics(registry)
    PollMetrics(polling)
    BatchMetrics(registry)
    families = [*registry.collect(), *polling.collect(), *Metrics(board).collect()]
    suffixes = {"counter": ("_total",), "summary": ("_sum", "_count"), "gauge": ("",), "info": ("_info",)}
    return {family.name + suffix for family in families for suffix in suffixes[family.type]}


def expressions(node: Any) -> list[str]:
    """Return all PromQL expressions (``expr``) in a dashboard or in a part of one."""
    if isinstance(node, dict):
        own = [node["expr"]] if "expr" in node else []
        return own + [text for value in node.values() for text in expressions(value)]
    return [text for item in node for text in expressions(item)] if isinstance(node, list) else []


@pytest.mark.parametrize("file", ["prometheus/rules.yml", "grafana/dashboards/rebalances.json", ANNOTATIONS])
def test_rules_and_dashboards_use_exported_metrics(exported_metrics: set[str], file: str) -> None:
    text = (DEPLOY_FOLDER / file).read_text()
    used_metrics = METRIC_NAME_PATTERN.findall(" ".join(expressions(json.loads(text))) if "json" in file else text)
    assert used_metrics
    assert set(used_metrics) <= exported_metrics


def test_shared_annotations_equal_the_dashboards() -> None:
    annotations = json.loads((DEPLOY_FOLDER / ANNOTATIONS).read_text())
    # Other dashboards have no variable for the cluster.
    own = re.sub(r'cluster=~\\"\$cluster\\",?', "", DASHBOARD.read_text()).replace("_open{}", "_open")
    assert annotations == json.loads(own)["annotations"]["list"]


def test_dashboard_panels_have_unique_ids_and_do_not_overlap() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (position["x"] + column, position["y"] + row)
        for position in (panel["gridPos"] for panel in panels)
        for column in range(position["w"])
        for row in range(position["h"])
    ]
    assert len(set(cells)) == len(cells)
