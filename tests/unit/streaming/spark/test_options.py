"""Options of the job."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.spark.options import InvalidStreamOptions, StreamOptions


@pytest.mark.parametrize("options", [{"buckets": 0}, {"max_offsets_per_trigger": 0}])
def test_options_out_of_range_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InvalidStreamOptions, match="at least 1"):
        StreamOptions(checkpoint="c", **options)


def test_the_jvm_is_told_whole_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert StreamOptions(checkpoint="state").location == str(tmp_path / "state")
    assert StreamOptions(checkpoint="s3a://bucket/state").location == "s3a://bucket/state"
