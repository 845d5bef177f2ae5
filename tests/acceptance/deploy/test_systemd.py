import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.manifests import ROOT


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit_files = []
    for unit in (ROOT / "deploy" / "systemd").glob("*.service"):
        unit_files.append(tmp_path / unit.name)
        # systemd requires that the program exists
        unit_files[-1].write_text(unit.read_text().replace("/opt/rebalance-monitor/bin/rebalance-monitor", "/bin/true"))
    assert len(unit_files) == 4
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, unit_files)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if str(tmp_path) in line]) == (0, [])
