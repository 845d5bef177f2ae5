"""The daemon that workers are forked from: archives on the path, and acknowledgements to the JVM."""

from __future__ import annotations

import os
import socket
import sys
import zipfile
import zipimport
from pathlib import Path

import pytest

from streaming.spark.pyspark.worker import acknowledge_at_once, read_changed_archives_only


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="CPython 3.13 reads archives lazily by itself")
def test_an_unchanged_archive_is_not_read_and_a_changed_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        zipimport.zipimporter, "invalidate_caches", zipimport.zipimporter.invalidate_caches
    )  # restores it afterwards
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("one.py", "")
    importer = zipimport.zipimporter(str(path))
    read_changed_archives_only()
    files = importer._files
    importer.invalidate_caches()
    assert importer._files is files
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("two.py", "")
    os.utime(path, (1, 1))
    importer.invalidate_caches()
    assert importer.find_spec("two") is not None


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
            assert acknowledge_at_once(serve)(connection, True) == 1
    assert seen == [1]
