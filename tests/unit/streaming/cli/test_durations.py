"""Times and lengths of time on the command line."""

from __future__ import annotations

import pytest

from streaming.cli.options import UnreadableDuration, UnreadableTime, duration_ms, short_duration_ms, time_ms


def test_durations() -> None:
    found = [duration_ms(text, "--keep") for text in ("12h", "30d", "2w")]
    assert found == [43_200_000, 2_592_000_000, 1_209_600_000]
    for wrong in ("", "d", "0d", "00d", "-1d", "30", "1y", "²d", "٣d", "9" * 5000 + "d"):
        with pytest.raises(UnreadableDuration, match=f"--keep {wrong}: write 12h"):
            duration_ms(wrong, "--keep")


def test_short_durations() -> None:
    assert [short_duration_ms(text, "--down") for text in ("500ms", "20s", "5m", "0s")] == [
        500,
        20_000,
        300_000,
        0,
    ]
    for wrong in ("", "20", "s", "-1s", "1h", "1.5s", "²s", "9" * 5000 + "s"):
        with pytest.raises(UnreadableDuration, match=f"--down {wrong}: write 500ms, 20s or 5m$"):
            short_duration_ms(wrong, "--down")
    with pytest.raises(UnreadableDuration, match="--down 0s: write 500ms, 20s or 5m, more than 0"):
        short_duration_ms("0s", "--down", minimum=1)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0", 0),
        ("1700000000123", 1_700_000_000_123),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T22:13:20.123Z", 1_700_000_000_123),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
        ("2023-11-14 22:13:20", 1_700_000_000_000),
        ("9998-12-31T23:59:59Z", 253_370_764_799_000),
    ],
)
def test_times(text: str, found: int) -> None:
    assert time_ms(text, "--at") == found


@pytest.mark.parametrize(
    "wrong", ["", "now", "22:13", "-1", "1969-12-31T23:59:59Z", "253370764800000", "²", "9" * 5000, "1.5"]
)
def test_what_is_no_time(wrong: str) -> None:
    with pytest.raises(UnreadableTime, match=r"^--at .*: write RFC 3339"):
        time_ms(wrong, "--at")
