from pathlib import Path

import pytest

from tests.support.kafka import Kafka, unique_name
from tests.support.load import run_load
from tests.support.serving import Publisher, ServeProcess

pytestmark = pytest.mark.broker


def test_many_clients_get_every_diff_once_across_a_restart(broker: Kafka, tmp_path: Path) -> None:
    """Load test at a reduced size; `make bench-feed` runs the full size (200 clients, 50 diffs a second, 30 s)."""
    with ServeProcess(broker.bootstrap_servers, f"{unique_name('load')}.", tmp_path) as serve:
        Publisher(serve)
        serve.start().await_status("/ready", 200)

        def restart() -> None:
            assert serve.stop() == 0
            serve.start()

        load = run_load(serve, clients=20, rate=25, seconds=6, stuck=3, restart=restart)
        assert (load.complete, load.repeated_count) == (20, 0)
        assert load.connections >= 40
        assert load.max_rss < 200
