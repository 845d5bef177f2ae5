"""An OAuth identity provider over TLS: issues tokens, signed with RS256, for client credentials."""

import base64
import json
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

ISSUER, TOKEN_AUDIENCE, SCOPE = "https://identity.test", "kafka", "cluster"


class IdentityProvider:
    """The clients and the key of an identity provider, and the number of tokens issued to each client.

    Args:
        secrets: client id → secret.
        lifetime: lifetime of a token in seconds.
    """

    def __init__(self, secrets: dict[str, str], lifetime_seconds: int = 300) -> None:
        self.secrets = secrets
        self.lifetime_seconds = lifetime_seconds
        self.issued_tokens: Counter[str] = Counter()
        self.url = ""
        self._key = RSAKey.generate_key(2048, {"kid": "first", "use": "sig", "alg": "RS256"})

    def write_keys(self, file: Path) -> Path:
        """Write the public keys in the format that brokers read (RFC 7517)."""
        file.write_text(json.dumps(KeySet([self._key]).as_dict(private=False)))
        return file

    def respond(self, authorization: str, body: str) -> tuple[int, dict[str, Any]]:
        """Return status and JSON of the response that RFC 6749, sections 4.4 and 5.2, requires."""
        client, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        fields = parse_qs(body)
        if self.secrets.get(unquote(client)) != unquote(secret):
            return 401, {"error": "invalid_client", "error_description": "unknown client or wrong secret"}
        if fields.get("grant_type") != ["client_credentials"] or fields.get("scope") != [SCOPE]:
            return 400, {"error": "invalid_request"}
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": TOKEN_AUDIENCE, "sub": client, "iat": now, "exp": now + self.lifetime_seconds}
        token = jwt.encode({"alg": "RS256", "kid": "first"}, claims | {"scope": SCOPE}, self._key)
        self.issued_tokens[client] += 1
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime_seconds}


@contextmanager
def identity_provider(provider: IdentityProvider, keystore: Path) -> Iterator[IdentityProvider]:
    """Run an identity provider on 127.0.0.1 with the key and certificate in this PEM file."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0"))).decode()
            status, response = provider.respond(self.headers.get("authorization", ""), body)
            text = json.dumps(response).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Log nothing: tests check the number of issued tokens instead."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keystore)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    provider.url = f"https://127.0.0.1:{server.server_port}/token"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
