from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streaming.serve.history import History


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    history = History(tmp_path / "history.sqlite", cluster_id="c-1", diffs_topic="rebalance.diffs")
    yield history
    history.close()
