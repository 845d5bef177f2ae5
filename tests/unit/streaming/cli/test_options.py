from pathlib import Path

import pytest

from assignors.errors import BadInput
from streaming.cli.options import Session, duration_ms, time_ms


def test_session_options_are_passed_to_child_processes() -> None:
    whole = Session("k:1", Path("m.toml"), "p.", "json", verbose=True)
    assert whole.arguments == [
        *("--log-format", "json", "--bootstrap-servers", "k:1", "--config", "m.toml", "--topic-prefix", "p."),
        "--verbose",
    ]
    assert Session(None, None, None, "text", verbose=False).arguments == ["--log-format", "text"]


def test_session_options_override_the_settings_file(tmp_path: Path) -> None:
    file = tmp_path / "m.toml"
    file.write_text('[kafka]\nbootstrap_servers = "file:1"\n[topics]\nprefix = "f."\n')
    settings = Session("option:1", file, None, "text", verbose=False).settings
    assert (settings.kafka.bootstrap_servers, settings.topics.prefix) == ("option:1", "f.")


def test_durations_are_parsed_to_milliseconds() -> None:
    texts = ("500ms", "20s", "5m", "12h", "30d", "2w")
    assert [duration_ms(text, "--keep") for text in texts] == [
        *(500, 20_000, 300_000),
        *(43_200_000, 2_592_000_000, 1_209_600_000),
    ]
    assert duration_ms("0s", "--down", minimum=0) == 0
    assert [duration_ms(text, "--trigger-interval") for text in ("2 seconds", "1 SECOND", "5 minutes")] == [
        *(2000, 1000, 300_000)
    ]


@pytest.mark.parametrize("wrong", ["", "d", "0d", "-1d", "30", "1y", "1.5s", "²d", "٣d", "9" * 5000 + "d"])
def test_invalid_durations_are_refused(wrong: str) -> None:
    with pytest.raises(BadInput, match=f"--keep {wrong}: write 500ms.*, more than 0$"):
        duration_ms(wrong, "--keep")


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("1700000000123", 1_700_000_000_123),
        ("1700000000", 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T22:13:20.123Z", 1_700_000_000_123),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
        ("2023-11-14 22:13:20", 1_700_000_000_000),
        ("9998-12-31T23:59:59Z", 253_370_764_799_000),
    ],
)
def test_times_are_parsed_to_milliseconds(text: str, milliseconds: int) -> None:
    assert time_ms(text, "--at") == milliseconds


@pytest.mark.parametrize(
    "wrong", ["", "now", "22:13", "-1", "1969-12-31T23:59:59Z", "253370764800000", "²", "9" * 5000, "1.5"]
)
def test_invalid_times_are_refused(wrong: str) -> None:
    with pytest.raises(BadInput, match=r"^--at .*: write RFC 3339"):
        time_ms(wrong, "--at")
