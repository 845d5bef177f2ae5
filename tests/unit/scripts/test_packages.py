"""``scripts/packages.sh`` builds native code if it can, and retries a build that failed."""

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "packages.sh"

#: Installs the native code, unless a file makes the build fail.
FAKE_UV_SCRIPT = r"""#!/bin/sh
echo "$*" >>said
case "$*" in
--version) ;;
*--check*) exit 1 ;;
*--group=kernel*) [ ! -e broken ] && mkdir -p .venv/lib/python3/site-packages/rebalance_kernel-0.1.0.dist-info ;;
venv*) mkdir .venv ;;
"pip uninstall"*) rmdir .venv/lib/python3/site-packages/rebalance_kernel-0.1.0.dist-info ;;
esac
"""


class ScriptFolder(NamedTuple):
    """A folder with ``packages.sh`` and stubs for uv and cargo."""

    folder: Path

    def packages(self, *arguments: str) -> tuple[list[str], str]:
        call_log = self.folder / "said"
        call_log.write_text("")
        command = ["sh", str(self.folder / "scripts" / "packages.sh"), *arguments]
        environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "")
        calls = [line for line in call_log.read_text().splitlines() if "--check" not in line]
        return [call for call in calls if call != "--version"], done.stderr

    @property
    def failed(self) -> Path:
        return self.folder / ".venv" / "without-kernel"

    def result(self) -> str:
        """Return whether the native code is installed, and whether its build has failed."""
        native = (self.folder / ".venv/lib/python3/site-packages/rebalance_kernel-0.1.0.dist-info").exists()
        return ("native" if native else "Python") + (", failed" if self.failed.exists() else "")

    def program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)


@pytest.fixture
def scripts_folder(tmp_path: Path) -> ScriptFolder:
    for folder in ("bin", "scripts", "kernel/src"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(SCRIPT, tmp_path / "scripts")
    (tmp_path / "kernel/src/lib.rs").write_text("// one\n")
    scripts_folder = ScriptFolder(tmp_path)
    scripts_folder.program("uv", FAKE_UV_SCRIPT)
    scripts_folder.program("cargo", "#!/bin/sh\necho cargo 1.90\n")
    return scripts_folder


@pytest.fixture
def failed(scripts_folder: ScriptFolder) -> ScriptFolder:
    """Return the script's folder with the record of a failed build that would succeed now."""
    (scripts_folder.folder / "broken").touch()
    scripts_folder.packages()
    (scripts_folder.folder / "broken").unlink()
    return scripts_folder


def test_native_code_is_built_if_there_is_cargo(scripts_folder: ScriptFolder) -> None:
    assert scripts_folder.packages() == (
        ["sync --locked --group=kernel --compile-bytecode"],
        "Installing the locked packages into .venv (about 600 MB, once)\n",
    )
    assert scripts_folder.result() == "native"


def test_without_cargo_nothing_is_printed(scripts_folder: ScriptFolder) -> None:
    scripts_folder.program("cargo", "#!/bin/sh\nexit 1\n")
    assert scripts_folder.packages()[0] == ["sync --locked --compile-bytecode"]
    assert scripts_folder.result() == "Python"


def test_failed_build_is_reported_on_every_run(scripts_folder: ScriptFolder) -> None:
    (scripts_folder.folder / "broken").touch()
    assert "Going on without the package in kernel/" in scripts_folder.packages()[1]
    calls, message = scripts_folder.packages()
    assert calls == ["sync --locked --compile-bytecode"]
    assert message.startswith("kernel/ could not be built: Python decides")


def test_failed_build_is_retried_after_an_hour(failed: ScriptFolder) -> None:
    assert failed.packages()[0] == ["sync --locked --compile-bytecode"]
    hour_ago = time.time() - 3700
    os.utime(failed.failed, (hour_ago, hour_ago))
    failed.packages()
    assert failed.result() == "native"


def test_failed_build_is_retried_when_the_source_changed(failed: ScriptFolder) -> None:
    (failed.folder / "kernel/src/lib.rs").write_text("// two\n")
    failed.packages()
    assert failed.result() == "native"


def test_failed_build_is_retried_with_another_cargo(failed: ScriptFolder) -> None:
    failed.program("cargo", "#!/bin/sh\necho cargo 1.91\n")
    failed.packages()
    assert failed.result() == "native"


def test_runtime_packages_include_native_code_only_if_built(scripts_folder: ScriptFolder) -> None:
    assert scripts_folder.packages("--no-dev")[0] == ["sync --locked --no-dev --inexact --compile-bytecode"]
    scripts_folder.packages()
    with_native_code = "sync --locked --no-dev --inexact --group=kernel --compile-bytecode"
    assert scripts_folder.packages("--no-dev")[0] == [with_native_code]


def test_outdated_native_code_is_uninstalled(scripts_folder: ScriptFolder) -> None:
    scripts_folder.packages()
    (scripts_folder.folder / "broken").touch()
    calls, _ = scripts_folder.packages("--no-dev")
    assert calls[-1] == "pip uninstall --quiet rebalance-kernel"
    assert scripts_folder.result() == "Python, failed"
