"""Files that may contain a secret are readable only by their owner."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from streaming.process.children import make_private, open_private


@pytest.fixture(autouse=True)
def _permissive_umask() -> Iterator[None]:
    """Set the umask to 0, the most permissive value, during each test."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_new_and_existing_files_are_private(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("secret\n")
    for path in (old, new):
        with open_private(path, "a") as file:
            file.write("more")
    assert (mode(old), mode(new), old.read_text()) == (0o600, 0o600, "secret\nmore")


def test_a_new_folder_is_private_and_an_old_one_is_unchanged(tmp_path: Path) -> None:
    make_private(tmp_path / "new")
    make_private(tmp_path / "above" / "deep")
    assert mode(tmp_path / "above" / "deep") == 0o700
    (tmp_path / "old").mkdir()
    make_private(tmp_path / "old")
    assert (mode(tmp_path / "new"), mode(tmp_path / "old")) == (0o700, 0o777)
