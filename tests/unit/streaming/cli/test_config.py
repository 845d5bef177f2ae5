"""The command ``config`` shows the effective settings and checks them."""

import json
import tomllib
from pathlib import Path

import pytest

from streaming.settings.config import load
from tests.support.memory_kafka import MemoryKafka
from tests.unit.streaming.cli.conftest import Command


def test_config_show_prints_all_settings_with_masked_secrets(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "m.toml"
    file.write_text(
        '[kafka]\nbootstrap_servers = "k:1"\nsecurity_protocol = "SASL_SSL"\nsasl_mechanism = "PLAIN"\n'
        'sasl_username = "u"\nsasl_password = "hush"\n'
    )
    _, shown, errors = command("config", "show", "--config", str(file), "--topic-prefix", "p.")
    assert errors == ""
    assert "hush" not in shown
    settings = tomllib.loads(shown)
    assert (settings["kafka"]["bootstrap_servers"], settings["topics"]["prefix"]) == ("k:1", "p.")
    _, answer, _ = command("config", "show", "--config", str(file), "--topic-prefix", "p.", "--json")
    empty: dict[str, list[object]] = {"notify": [], "slo": [], "clusters": []}  # TOML has no empty list of tables
    assert json.loads(answer) == settings | empty
    expected = load(file, topic_prefix="p.").model_dump(mode="json", exclude_none=True)
    assert settings | empty == expected


def test_config_check_prints_the_cluster_or_the_first_error(command: Command, kafka: MemoryKafka) -> None:
    assert command("config", "check", "--bootstrap-servers", "k:1") == (
        0,
        "ok: cluster memory at k:1 (PLAINTEXT)\n",
        "",
    )
