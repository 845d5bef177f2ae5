from __future__ import annotations

from pathlib import Path

from streaming.cli.options import Session


def test_session_options_are_passed_to_child_processes() -> None:
    whole = Session("k:1", Path("m.toml"), "p.", "json", verbose=True)
    assert whole.arguments == [
        *("--log-format", "json", "--bootstrap-servers", "k:1", "--config", "m.toml", "--topic-prefix", "p."),
        "--verbose",
    ]
    assert Session(None, None, None, "text", verbose=False).arguments == ["--log-format", "text"]


def test_the_settings_of_a_session_are_its_options_over_its_file(tmp_path: Path) -> None:
    file = tmp_path / "m.toml"
    file.write_text('[kafka]\nbootstrap_servers = "file:1"\n[topics]\nprefix = "f."\n')
    settings = Session("option:1", file, None, "text", verbose=False).settings
    assert (settings.kafka.bootstrap_servers, settings.topics.prefix) == ("option:1", "f.")
