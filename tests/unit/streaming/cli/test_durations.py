"""Lengths of time on the command line."""

from __future__ import annotations

import pytest

from streaming.cli.durations import UnreadableDuration, duration_ms


def test_durations() -> None:
    found = [duration_ms(text, "--keep") for text in ("12h", "30d", "2w")]
    assert found == [43_200_000, 2_592_000_000, 1_209_600_000]
    for wrong in ("", "d", "0d", "00d", "-1d", "30", "1y", "²d", "٣d", "9" * 5000 + "d"):
        with pytest.raises(UnreadableDuration, match=f"--keep {wrong}: write 12h"):
            duration_ms(wrong, "--keep")
