"""Commands' text output equals reviewed files in ``tests/golden/streaming/cli``; ``WRITE_RECORDED=1`` updates them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN_FOLDER = Path(__file__).parents[3] / "golden/streaming/cli"

COMMANDS_BY_FILE: dict[str, tuple[str, ...]] = {
    "simulate-all": ("simulate", "two-bounces", "--rows", "24"),
    "simulate-assignor": ("simulate", "scale-out", "--protocol", "eager", "--assignor", "sticky", "--rows", "3"),
    "simulate-flapping": ("simulate", "flapping", "--members", "12", "--protocol", "cooperative"),
    "simulate-growth": ("simulate", "partition-growth", "--partitions", "30", "--protocol", "consumer"),
    "simulate-pause": ("simulate", "long-gc", "--members", "1", "--protocol", "connect"),
    "simulate-list": ("simulate", "--list"),
    "simulate-show": ("simulate", "classic-to-consumer", "--members", "2", "--partitions", "3", "--show"),
}


@pytest.mark.parametrize("name", COMMANDS_BY_FILE)
def test_text_output_equals_the_stored_output(
    name: str, command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    status, shown, errors = command(*COMMANDS_BY_FILE[name])
    assert (status, errors) == (0, "")
    file = GOLDEN_FOLDER / f"{name}.txt"
    if os.environ.get("WRITE_RECORDED"):
        file.write_text(shown)
    assert shown == file.read_text()


def test_version_option_prints_one_line(command: Callable[..., tuple[int, str, str]]) -> None:
    status, shown, _ = command("--version", "--help")
    assert (status, shown.split()[0], len(shown.splitlines())) == (0, "rebalance-monitor", 1)
