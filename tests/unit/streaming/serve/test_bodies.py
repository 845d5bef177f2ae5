"""Large responses are shared, sent in pieces, and limited in total size over all connections."""

import asyncio
import gzip
import tracemalloc
from contextlib import ExitStack
from typing import Any

import pytest
from msgspec import structs
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from streaming.serve import connections
from streaming.serve.clusters import ServeOptions
from streaming.serve.connections import SEND_CHUNK_BYTES, BodyLimitReached, BoundedBodies
from tests.support.asgi import settle
from tests.support.feed import records
from tests.support.feed_server import open_request, running
from tests.support.histories import Group
from tests.support.wait import eventually

SCOPE: dict[str, Any] = {"type": "http", "path": "/x", "method": "GET", "headers": []}


class Client:
    """A client that receives one message at a time, each when the test allows it."""

    def __init__(self, app: Any) -> None:
        self.messages: list[Message] = []
        self.sent_chunk_count = asyncio.Semaphore(0)
        self.task = asyncio.create_task(app(SCOPE, self.receive, self.send))

    async def receive(self) -> Message:
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.messages.append(message)
        await self.sent_chunk_count.acquire()

    async def finish(self) -> bytes:
        for _ in range(1000):
            self.sent_chunk_count.release()
        await self.task
        return b"".join(message.get("body", b"") for message in self.messages)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])


def test_large_body_is_sent_as_fast_as_the_client_reads() -> None:
    body = bytes(range(256)) * 1024

    async def run() -> None:
        app = BoundedBodies(Response(body))
        client = Client(app)
        await settle()
        assert (len(client.messages), app.waiting_bytes) == (1, len(body))
        client.sent_chunk_count.release()
        await settle()
        assert [len(message.get("body", b"")) for message in client.messages] == [0, SEND_CHUNK_BYTES]
        assert await client.finish() == body
        assert app.waiting_bytes == 0

    asyncio.run(run())


def test_total_bytes_of_waiting_bodies_are_limited() -> None:
    shared_body, numbers = bytes(2 * SEND_CHUNK_BYTES), iter([1, 1, 2, 2, 3, 3])

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = shared_body if (request_number := next(numbers)) == 1 else bytes(request_number * SEND_CHUNK_BYTES)
        await Response(body)(scope, receive, send)

    async def run() -> None:
        bounded_bodies = BoundedBodies(app, most_bytes=4 * SEND_CHUNK_BYTES)
        waiting = [Client(bounded_bodies) for _ in range(3)]
        await settle()
        assert bounded_bodies.waiting_bytes == 4 * SEND_CHUNK_BYTES
        refused = Client(bounded_bodies)
        body = await refused.finish()
        headers = dict(refused.messages[0]["headers"])
        assert (refused.status, headers[b"retry-after"]) == (503, b"10")
        assert b"slow clients" in body
        assert [len(await client.finish()) // SEND_CHUNK_BYTES for client in waiting] == [2, 2, 2]
        last = Client(bounded_bodies)
        assert (len(await last.finish()), last.status) == (3 * SEND_CHUNK_BYTES, 200)
        assert bounded_bodies.waiting_bytes == 0

    asyncio.run(run())


def test_response_ends_when_too_many_bytes_wait() -> None:
    async def app(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        await send({"type": "http.response.body", "body": bytes(9 * SEND_CHUNK_BYTES), "more_body": True})

    async def run() -> None:
        with pytest.raises(BodyLimitReached):
            await Client(BoundedBodies(app, most_bytes=SEND_CHUNK_BYTES)).finish()

    asyncio.run(run())


def test_slow_client_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_SLOW_CLIENT_SECONDS", 0)
    monkeypatch.setattr(connections, "_MIN_BYTES_PER_SECOND", 10 * SEND_CHUNK_BYTES)
    is_aborted = asyncio.Event()

    async def run() -> None:
        app = BoundedBodies(Response(bytes(2 * SEND_CHUNK_BYTES)))
        monkeypatch.setitem(SCOPE, "state", {"abort": is_aborted.set})
        client = Client(app)
        client.sent_chunk_count.release()
        await asyncio.wait_for(client.task, 5)
        assert (is_aborted.is_set(), app.waiting_bytes) == (True, 0)

    asyncio.run(run())


def test_clients_that_never_read_share_one_snapshot(options: ServeOptions) -> None:
    groups = [Group(f"{'n' * 40_000}{number}", {"t": 2}, 1) for number in range(200)]
    large_rounds = records([group.diffs(1)[0] for group in groups])
    with running(options) as server, ExitStack() as clients:
        server.source.put(*large_rounds)
        eventually(lambda: server.get("/ready")["seq"] == 200, timeout=60)
        size = len(server.ask("/api/v1/groups")[1])
        assert size > 7_000_000
        tracemalloc.start()
        clients.callback(tracemalloc.stop)
        before = tracemalloc.get_traced_memory()[0]
        for number in range(20):
            clients.enter_context(open_request(server.port, "/api/v1/stream", buffer=4096))
            if number % 5 == 0:  # a round arrives in between
                server.source.put(structs.replace(large_rounds[0], id=f"new-{number}", offset=200 + number))
        eventually(lambda: server.get("/ready")["seq"] == 204)
        server.ask("/health")
        grown = tracemalloc.get_traced_memory()[0] - before
        assert grown < 4 * size
        assert server.ask("/health")[0] == 200


def test_groups_are_compressed_on_request(options: ServeOptions) -> None:
    with running(options) as server:
        server.source.put(*records(Group("n" * 2000, {"t": 2}, 1).diffs(1)))
        eventually(lambda: server.get("/ready")["seq"] == 1)
        plain = server.ask("/api/v1/groups")[1]
        headers = ("Accept-Encoding: gzip", "Connection: close")
        with open_request(server.port, "/api/v1/groups", *headers) as client:
            answer = b"".join(iter(lambda: client.recv(1 << 20), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"content-encoding: gzip" in head.lower()
        assert gzip.decompress(body) == plain
