"""The endpoint `/metrics`, over real sockets on the loopback interface."""

import socket
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry, Counter

from assignors.errors import OutsideFailure
from streaming.process.service import serve_metrics


def registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    Counter("things", "Things.", registry=registry).inc(3)
    return registry


def test_without_a_port_no_metrics_are_served() -> None:
    assert serve_metrics(registry(), "127.0.0.1", None) is None


def test_the_registry_is_served_at_metrics() -> None:
    port = serve_metrics(registry(), "127.0.0.1", 0)
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        assert "things_total 3.0" in answer.read().decode()


def test_metrics_port_in_use_gives_one_error_line() -> None:
    with socket.socket() as listening_socket:
        listening_socket.bind(("127.0.0.1", 0))
        listening_socket.listen()
        port = listening_socket.getsockname()[1]
        with pytest.raises(OutsideFailure, match=f"--metrics-port {port} on 127.0.0.1: Address already in use"):
            serve_metrics(registry(), "127.0.0.1", port)
