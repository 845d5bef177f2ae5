import time
from pathlib import Path
from typing import Any

import pytest

from streaming.freshness import Freshness
from streaming.kafka import background_reader
from streaming.serve import server, source
from streaming.serve.clusters import Cluster, ServeOptions
from streaming.serve.history import Retention
from streaming.serve.security import TrustedProxies

StartedServers = list[tuple[Any, ServeOptions]]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--trust-header", "X-User", "--trust-header: name each proxy with --trusted-proxy ADDRESS"),
        ("--trusted-proxy", "10.0.0.1", "--trusted-proxy 10.0.0.1: name the header that it sets with --trust-header"),
    ],
)
def test_incomplete_proxy_options_are_rejected_before_start(
    command: Any, option: str, value: str, message: str
) -> None:
    status, out, errors = command("serve", "--bootstrap-servers", "127.0.0.1:1", option, value)
    assert (status, out, errors) == (2, "", f"error: {message}\n")


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> StartedServers:
    """Return a list to which each started server adds the address of its cluster and its options."""
    started: StartedServers = []

    class FakeServer:
        address = "http://here"

        def __init__(self, clusters: list[Cluster], options: ServeOptions, *, report_progress: Any) -> None:
            report_progress()
            assert options == clusters[0].options
            for served in clusters:
                assert served.lags() == {}
                assert served.freshness(time.monotonic()) == Freshness(is_known=False)
                started.append((served.connect(), served.options))

        def run(self) -> None:
            """Return at once, as if the server had been stopped."""

    monkeypatch.setattr(background_reader.BackgroundReader, "_run", lambda _: None)
    monkeypatch.setattr(source, "Source", lambda settings: settings.kafka.bootstrap_servers)
    monkeypatch.setattr(server, "FeedServer", FakeServer)
    return started


def test_serve_defaults_to_loopback_and_30_days(command: Any, servers: StartedServers) -> None:
    assert command("serve") == (0, "serving http://here\n", "")
    ((cluster, options),) = servers
    assert (cluster, options) == ("127.0.0.1:9092", ServeOptions())


def test_serve_options_reach_the_server(command: Any, servers: StartedServers, tmp_path: Path) -> None:
    words = (
        *("--host", "::1", "--port", "0", "--token-file", "t", "--access-log", "--max-clients", "7"),
        *("--trust-header", "X-User", "--trusted-proxy", "10.0.0.1", "--trusted-proxy", "10.1.0.0/16"),
        *("--database", str(tmp_path / "h"), "--keep", "12h", "--keep-mib", "3"),
        *("--bootstrap-servers", "k:1", "--topic-prefix", "p."),
    )
    assert command("serve", *words)[0] == 0
    assert servers == [
        (
            "k:1",
            ServeOptions(
                tmp_path / "h",
                host="::1",
                port=0,
                token_file=Path("t"),
                proxies=TrustedProxies.of("X-User", ["10.0.0.1", "10.1.0.0/16"]),
                access_log=True,
                limits=Retention(12 * 3_600_000, 3 * 2**20),
                max_clients=7,
            ),
        )
    ]


def test_each_configured_cluster_has_its_own_history(command: Any, servers: StartedServers, tmp_path: Path) -> None:
    file = tmp_path / "monitor.toml"
    file.write_text(
        '[kafka]\ncluster_name = "eu"\n[[clusters]]\ncluster_name = "us"\nbootstrap_servers = "us:1"\n'
        '[[clusters]]\ncluster_name = "us.test"\nbootstrap_servers = "us:1"\ntopic_prefix = "test."\n'
    )
    assert command("serve", "--config", str(file), "--database", str(tmp_path / "h.sqlite"))[0] == 0
    assert [(cluster, options.history) for cluster, options in servers] == [
        ("127.0.0.1:9092", tmp_path / "h.sqlite"),
        ("us:1", tmp_path / "h-us.sqlite"),
        ("us:1", tmp_path / "h-us.test.sqlite"),
    ]
    servers.clear()
    assert command("serve", "--config", str(file))[0] == 0
    assert [options.history for _, options in servers] == [None, None, None]  # by the ids of the clusters
