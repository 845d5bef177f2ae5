from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.types import ASGIApp

from streaming.records.codec import encode
from streaming.serve.clusters import ServeOptions
from streaming.serve.history import History, Retention
from streaming.serve.records import TopicRecord
from tests.support.feed import ASSIGNMENTS, records, service
from tests.support.histories import Group


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    history = History(tmp_path / "history.sqlite", cluster_id="c-1", diffs_topic="rebalance.diffs")
    yield history
    history.close()


@pytest.fixture
def options(tmp_path: Path) -> ServeOptions:
    """Return the options of a server on a free port that removes no history."""
    return ServeOptions(tmp_path / "h.sqlite", port=0, limits=Retention(2**50, 2**40))


@pytest.fixture
def app(history: History) -> ASGIApp:
    """Return the application with a history of 30 rounds of one group and 5 rounds of another group."""
    group = Group("orders", {"t": 6}, 1)
    history.append(records(group.diffs(30)))
    history.append(records(Group("team/billing", {"t": 6}, 2).diffs(5), partition=1))
    history.append([TopicRecord(ASSIGNMENTS, 0, 0, b"orders", encode(group.latest()), None)])
    return service(history)
