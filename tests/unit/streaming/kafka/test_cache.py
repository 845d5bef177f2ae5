"""The folder of downloads, and the locks between processes that use this folder."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from streaming.kafka import jars as cache
from streaming.kafka.jars import CacheUnusable, cache_dir, lock_file


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set and return a home folder, and unset the variables that would name another cache."""
    for name in ("REBALANCE_MONITOR_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("platform", "variables", "place"),
    [
        ("linux", {}, "home/.cache/kafka-rebalance-monitor"),
        ("linux", {"XDG_CACHE_HOME": "{}/xdg"}, "xdg/kafka-rebalance-monitor"),
        ("linux", {"XDG_CACHE_HOME": ""}, "home/.cache/kafka-rebalance-monitor"),
        ("darwin", {"XDG_CACHE_HOME": "{}/xdg"}, "home/Library/Caches/kafka-rebalance-monitor"),
        ("linux", {"REBALANCE_MONITOR_CACHE": "{}/mine", "XDG_CACHE_HOME": "{}/xdg"}, "mine"),
        ("darwin", {"REBALANCE_MONITOR_CACHE": "~/mine"}, "home/mine"),
    ],
)
def test_downloads_go_to_the_platform_cache_or_the_set_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str], place: str
) -> None:
    monkeypatch.setattr(cache, "sys", SimpleNamespace(platform=platform))
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    folder = cache_dir("jars", "set")
    assert folder == (tmp_path / place / "jars" / "set").resolve()
    assert folder.is_dir()
    assert cache_dir("jars", "set") == folder


@pytest.mark.parametrize("variable", ["REBALANCE_MONITOR_CACHE", "XDG_CACHE_HOME"])
def test_user_without_home_folder_can_name_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as for a user id that is not in /etc/passwd
    monkeypatch.setenv(variable, str(tmp_path))
    assert tmp_path in cache_dir("jars").parents


def test_folder_that_cannot_be_created_is_reported_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("REBALANCE_MONITOR_CACHE", str(tmp_path / "file"))
    with pytest.raises(CacheUnusable) as refused:
        cache_dir("jars")
    assert str(refused.value) == (
        f"{tmp_path}/file/jars: Not a directory; set REBALANCE_MONITOR_CACHE to a folder to write in"
    )


LOCK_HOLDER_PROGRAM = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_lock_waits_until_the_holding_process_ends(tmp_path: Path) -> None:
    lock, has_lock = tmp_path / ".lock", threading.Event()

    def lock_cache() -> None:
        with lock_file(lock):
            has_lock.set()

    with subprocess.Popen(
        [sys.executable, "-c", LOCK_HOLDER_PROGRAM, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        waiting = threading.Thread(target=lock_cache)
        waiting.start()
        assert not has_lock.wait(0.1)
        holder.kill()
    waiting.join(60)
    assert has_lock.is_set()
    with lock_file(lock):  # the lock was released
        pass
