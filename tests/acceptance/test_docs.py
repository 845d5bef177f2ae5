import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONSOLE_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def script(page: Path) -> str:
    """Return the commands (``$ …``) of all ``console`` blocks in order, including continuation lines (``> …``)."""
    lines = []
    for block in CONSOLE_BLOCK.findall(page.read_text()):
        for line in block.splitlines():
            if line.startswith(("$ ", "> ")):
                lines.append(line[2:])
            elif line == ">":
                lines.append("")
    return "\n".join(lines) + "\n"


@pytest.mark.broker
@pytest.mark.spark
def test_the_tutorial_works_as_printed(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    answer = subprocess.run(
        ["bash", "-emc", script(ROOT / "docs" / "tutorial.md")],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "c1 left" in answer.stdout
    assert "  c2  = orders 3-5  + orders 0-2" in answer.stdout.splitlines()
    assert any("billing generation 2" in line and "left" in line for line in answer.stdout.splitlines())
    assert "Traceback" not in answer.stderr


def test_readme_names_only_existing_make_targets() -> None:
    for command in script(ROOT / "README.md").splitlines():
        program, target = command.split()
        assert program == "make"
        subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, check=True)


@pytest.mark.parametrize("page", sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]), ids=lambda p: p.name)
def test_links_of_the_docs_lead_to_existing_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"
