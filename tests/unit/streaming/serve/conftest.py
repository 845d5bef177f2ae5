from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streaming.serve.history import History, Retention
from streaming.serve.server import ServeOptions


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    history = History(tmp_path / "history.sqlite", cluster_id="c-1", diffs_topic="rebalance.diffs")
    yield history
    history.close()


@pytest.fixture
def options(tmp_path: Path) -> ServeOptions:
    """A server on a free port that keeps everything."""
    return ServeOptions(tmp_path / "h.sqlite", "rebalance.diffs", port=0, limits=Retention(2**50, 2**40))
