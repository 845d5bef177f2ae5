"""Acknowledgements of Spark's Python workers to the JVM."""

from __future__ import annotations

import socket

import pytest

from streaming.spark.pyspark.acknowledgement import at_once


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="an option of Linux")
def test_a_task_s_command_is_acknowledged_at_once() -> None:
    seen: list[int] = []

    def serve(connection: socket.socket, authenticated: bool) -> int:
        seen.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))
        return int(authenticated)

    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as jvm,
    ):
        connection, _ = server.accept()
        with connection:
            jvm.sendall(b"command")
            connection.recv(100)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)  # as once it has answered
            assert at_once(serve)(connection, True) == 1
    assert seen == [1]
