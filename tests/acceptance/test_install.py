import json
import logging
import subprocess
from pathlib import Path
from typing import Literal

import pytest

from tests.support.installed import build, environment, install_wheel, release

logger = logging.getLogger(__name__)
pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.full]

#: Packages whose versions are printed.
PACKAGES = ("pyspark", "kafka-python", "numpy", "pandas", "pyarrow")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_a_demo_runs_from_an_empty_environment(tmp_path: Path, kind: Literal["wheel", "sdist"]) -> None:
    commands = install_wheel(build(tmp_path / "dist", kind), tmp_path / "environment")
    versions = [f"{name} {release(commands, name)}" for name in PACKAGES]
    logger.info("%s: %s", kind, ", ".join(versions))
    demo = subprocess.run(
        [commands / "rebalance-monitor", "demo", "--duration", "30", "--json"],
        cwd=tmp_path,
        env=environment(commands),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert demo.returncode == 0, demo.stderr
    diffs = [json.loads(line) for line in demo.stdout.splitlines()]
    assert {diff["groupId"] for diff in diffs} == {"orders-eager", "payments-cooperative"}
    assert "Traceback" not in demo.stderr
