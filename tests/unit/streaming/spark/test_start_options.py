"""The Spark job's options: the pause between batches, and absolute paths for the JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.spark.start import StreamOptions


@pytest.mark.parametrize(
    ("interval", "seconds"),
    [
        (None, 0),
        ("500ms", 0.5),
        ("0.5 seconds", 0.5),
        ("2 SECONDS", 2),
        ("1 minute 30 s", 90),
        ("2h", 7200),
        ("3 milliseconds", 0.003),
        ("7 microseconds", 7e-6),
        ("whenever", 0),
    ],
)
def test_pause_is_the_interval_of_the_trigger(interval: str | None, seconds: float) -> None:
    assert StreamOptions("c", trigger_interval=interval).pause_seconds == pytest.approx(seconds)


def test_jvm_gets_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert StreamOptions(checkpoint="state").location == str(tmp_path / "state")
    assert StreamOptions(checkpoint="s3a://bucket/state").location == "s3a://bucket/state"
