"""A receiver of notifications: an HTTP server on 127.0.0.1 whose responses a test chooses."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec


@dataclass
class Response:
    """A response of the test server; ``close``: the server closes the connection instead of responding."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    close: bool = False


@dataclass
class Receiver:
    """The requests that a test server received, and its next responses; afterwards 200, or 503 if ``down`` is set."""

    url: str = ""
    responses: list[Response] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    accepted: list[Any] = field(default_factory=list)
    down: threading.Event = field(default_factory=threading.Event)

    def ids(self) -> list[str]:
        """Return the ids of the CloudEvents that the receiver accepted."""
        return [body["id"] for body in self.accepted]


@contextmanager
def receiver(*responses: Response) -> Iterator[Receiver]:
    """Run a receiver of notifications that sends these responses first, and then 200."""
    received = Receiver(responses=list(responses))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = msgspec.json.decode(self.rfile.read(int(self.headers["content-length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            received.requests.append((self.path, headers, body))
            response = (
                received.responses.pop(0) if received.responses else Response(503 if received.down.is_set() else 200)
            )
            if response.close:
                self.close_connection = True
                return
            if response.status == 200:
                received.accepted.append(body)
            self.send_response(response.status)
            for name, value in {"content-length": "0", **response.headers}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            """Do not log requests; tests read the received requests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
