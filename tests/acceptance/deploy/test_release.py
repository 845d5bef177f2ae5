"""Runs the steps of `make release` before the upload, except the image, which the compose test builds."""

import hashlib
import subprocess
import tarfile
import zipfile
from pathlib import Path

from assignors import __version__
from tests.acceptance.deploy.test_kubernetes import go_tool
from tests.support.manifests import ROOT


def test_release_has_packages_chart_and_changelog(tmp_path: Path) -> None:
    go_tool("helm")
    subprocess.run(["sh", "scripts/release.sh", "--no-image", str(tmp_path)], cwd=ROOT, check=True)
    wheel_file = f"kafka_rebalance_monitor-{__version__}-py3-none-any.whl"
    sdist = f"kafka_rebalance_monitor-{__version__}.tar.gz"
    chart = f"rebalance-monitor-{__version__}.tgz"
    assert {path.name for path in tmp_path.iterdir()} == {wheel_file, sdist, chart, "CHANGES.md", "SHA256SUMS"}
    for line in (tmp_path / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == digest
    page = {str(path.relative_to(ROOT)) for path in (ROOT / "streaming" / "serve" / "page").rglob("*.js")}
    assert page
    assert page <= set(zipfile.ZipFile(tmp_path / wheel_file).namelist())
    with tarfile.open(tmp_path / chart) as packed:
        rules = packed.extractfile("rebalance-monitor/files/rules.yml")
        assert rules is not None
        assert rules.read() == (ROOT / "deploy" / "prometheus" / "rules.yml").read_bytes()
    assert (tmp_path / "CHANGES.md").read_text().strip().splitlines()[-1] in (ROOT / "CHANGELOG.md").read_text()
