"""Options of the job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streaming.spark.session import SessionOptions
from streaming.spark.start import InvalidStreamOptions, StreamOptions


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"buckets": 0}, "--buckets 0: at least 1"),
        ({"max_offsets_per_trigger": 0}, "--max-offsets-per-trigger 0: at least 1"),
        ({"session": SessionOptions(shuffle_partitions=0)}, "--shuffle-partitions 0: at least 1"),
        ({"buckets": 2**20 + 1}, "--buckets 1048577: at most 1048576"),
        (
            {"max_offsets_per_trigger": 2**63},
            "--max-offsets-per-trigger 9223372036854775808: at most 9223372036854775807",
        ),
        ({"session": SessionOptions(shuffle_partitions=100_001)}, "--shuffle-partitions 100001: at most 100000"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidStreamOptions) as refused:
        StreamOptions(checkpoint="c", **options)
    assert str(refused.value) == says


def test_the_least_of_each_is_taken() -> None:
    least = SessionOptions(shuffle_partitions=1)
    StreamOptions("c", buckets=1, max_offsets_per_trigger=1, session=least)


def test_the_most_of_each_is_taken() -> None:
    most = SessionOptions(shuffle_partitions=100_000)
    StreamOptions("c", buckets=2**20, max_offsets_per_trigger=2**63 - 1, session=most)


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
def test_the_pause_is_the_triggers_interval(interval: str | None, seconds: float) -> None:
    assert StreamOptions("c", trigger_interval=interval).pause_seconds == pytest.approx(seconds)


def test_jvm_gets_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert StreamOptions(checkpoint="state").location == str(tmp_path / "state")
    assert StreamOptions(checkpoint="s3a://bucket/state").location == "s3a://bucket/state"
