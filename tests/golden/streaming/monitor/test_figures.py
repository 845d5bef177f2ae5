"""Limits, waits, names and tables of ``monitor`` are what they were: who changes one means it.

``python -m tests.golden.streaming.monitor.test_figures`` writes ``figures.json`` anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.figures import figures, modules, record, recorded

GOLDEN = Path(__file__).with_name("figures.json")


@pytest.mark.parametrize("module", modules("monitor"))
def test_the_figures_are_the_recorded_ones(module: str) -> None:
    assert figures(module) == recorded(GOLDEN)[module]


if __name__ == "__main__":
    record(GOLDEN, "monitor")
