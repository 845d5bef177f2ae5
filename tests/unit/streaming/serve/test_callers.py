import logging
from collections.abc import Collection, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from starlette.datastructures import URL
from starlette.requests import Request
from starlette.types import ASGIApp

from assignors.errors import BadInput
from streaming.serve import security
from streaming.serve.history import History
from streaming.serve.security import Access, TokenFile, TrustedProxies, is_loopback, read_tokens
from tests.support.asgi import ask
from tests.support.feed import service

FIRST_TOKEN, SECOND_TOKEN = "0123456789abcdef", "fedcba9876543210"


def token_file(folder: Path, content: str, mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_text(content, errors="surrogateescape")
    path.chmod(mode)
    return path


def bearer_header(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_tokens_are_lines_of_a_separate_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        read_tokens(tmp_path / "token")
    assert read_tokens(token_file(tmp_path, "x" * 16)) == ("x" * 16,)
    assert read_tokens(token_file(tmp_path, f"{FIRST_TOKEN}\n")) == (FIRST_TOKEN,)
    assert read_tokens(token_file(tmp_path, f"\n{FIRST_TOKEN}\n\n {SECOND_TOKEN}\n")) == (FIRST_TOKEN, SECOND_TOKEN)


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        (FIRST_TOKEN, 0o644, "every user may read it; chmod 640"),
        ("short", 0o600, "line 1 needs 16 or more ASCII characters"),
        (f"{FIRST_TOKEN}\nshort", 0o600, "line 2 needs 16"),
        ("", 0o600, "line 1 needs 16"),
        ("two words of some length", 0o600, "line 1 needs 16"),
        ("ü" * 16, 0o600, "ASCII characters, no spaces"),
        ("\udcff" * 20, 0o600, "--token-file .*'utf-8' codec"),
    ],
)
def test_weak_token_is_refused(tmp_path: Path, content: str, mode: int, message: str) -> None:
    with pytest.raises(BadInput, match=message) as refused:
        read_tokens(token_file(tmp_path, content, mode))
    assert not content or content not in str(refused.value)


def test_unusable_token_file_keeps_the_old_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(security, "_CHECK_INTERVAL_SECONDS", 0.0)
    tokens = TokenFile(token_file(tmp_path, FIRST_TOKEN))
    (tmp_path / "token").unlink()
    assert [*tokens(), *tokens()] == [FIRST_TOKEN, FIRST_TOKEN]
    token_file(tmp_path, SECOND_TOKEN, mode=0o604)
    assert tokens() == (FIRST_TOKEN,)
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        f"[Errno 2] No such file or directory: '{tmp_path / 'token'}'; the tokens stay as they were",
        f"every user may read it; chmod 640 {tmp_path / 'token'}; the tokens stay as they were",
    ]


@pytest.mark.parametrize(
    ("header", "addresses", "message"),
    [
        ("X User", ["10.0.0.1"], "--trust-header X User: name the header that the proxy sets"),
        ("Authorization", ["10.0.0.1"], "--trust-header Authorization"),
        ("X-User", [], "name each proxy with --trusted-proxy"),
        ("X-User", ["10.0.0.1", "proxy.internal"], "--trusted-proxy: .proxy.internal. does not .*; write an address"),
        ("X-User", ["10.0.0.1/24"], "--trusted-proxy: 10.0.0.1/24 has host bits set; write an address"),
    ],
)
def test_invalid_proxy_is_refused(header: str, addresses: list[str], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        TrustedProxies.of(header, addresses)


@pytest.fixture
def app_behind_proxy(history: History) -> Iterator[ASGIApp]:
    """Return an application that accepts only callers from the two networks of a proxy."""
    access = Access(None, TrustedProxies.of("X-User", ["10.0.0.0/24", "::1"]))
    return service(history, access=access, loopback_only=False)


@pytest.mark.parametrize(
    ("peer", "headers", "status"),
    [
        ("10.0.0.7", {"x-user": "alice"}, 200),
        ("::ffff:10.0.0.7", {"x-user": "alice"}, 200),
        ("::1", {"X-USER": "alice"}, 200),
        ("10.0.1.7", {"x-user": "alice"}, 403),
        ("10.0.0.7", {}, 403),
        ("10.0.0.7", {"x-user": " "}, 403),
        ("10.0.0.7", {"x-user": "a" * 257}, 403),
        ("10.0.0.7", {"x-user": "a\x7fb"}, 403),
        ("10.0.0.7", {"x_user": "alice"}, 403),
        ("not an address", {"x-user": "alice"}, 403),
        ("10.0.0.7", [("x-user", "mallory"), ("x-user", "alice")], 403),  # the client's header and the proxy's
    ],
)
def test_user_header_is_trusted_only_from_the_proxy(
    app_behind_proxy: ASGIApp, peer: str, headers: dict[str, str] | list[tuple[str, str]], status: int
) -> None:
    assert ask(app_behind_proxy, "/api/v1/groups", headers, peer=peer).status == status
    assert ask(app_behind_proxy, "/metrics", headers, peer=peer).status == status
    assert ask(app_behind_proxy, "/health", headers, peer=peer).status == 200


def test_token_gives_access_without_the_proxy(tmp_path: Path, history: History) -> None:
    tokens = TokenFile(token_file(tmp_path, FIRST_TOKEN))
    app = service(history, access=Access(tokens, TrustedProxies.of("X-User", ["10.0.0.1"])), loopback_only=False)
    assert ask(app, "/metrics", bearer_header(FIRST_TOKEN), peer="10.9.9.9").status == 200
    assert ask(app, "/metrics", {"x-user": "alice"}, peer="10.9.9.9").status == 401


def test_tls_proxy_gets_strict_transport_security(app_behind_proxy: ASGIApp) -> None:
    def transport_security(peer: str, protocol: str) -> str | None:
        answer = ask(app_behind_proxy, "/", {"x-forwarded-proto": protocol}, peer=peer)
        return answer.headers.get("strict-transport-security")

    assert transport_security("10.0.0.7", "https") == "max-age=31536000; includeSubDomains"
    assert transport_security("10.0.0.7", "http") is None
    assert transport_security("10.9.9.9", "https") is None


def test_token_file_is_checked_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock = SimpleNamespace(now=50.0)
    monkeypatch.setattr(security, "time", SimpleNamespace(monotonic=lambda: clock.now))

    def at(now: float) -> Collection[str]:
        clock.now = now
        return tokens()

    path = token_file(tmp_path, FIRST_TOKEN)
    tokens = TokenFile(path)
    token_file(tmp_path, f"{FIRST_TOKEN}\n{SECOND_TOKEN}\n")
    assert [at(50.0), at(50.9), at(51.0), at(51.5)] == [(FIRST_TOKEN,)] * 2 + [(FIRST_TOKEN, SECOND_TOKEN)] * 2
    token_file(tmp_path, SECOND_TOKEN)
    assert [at(51.9), at(52.0)] == [(FIRST_TOKEN, SECOND_TOKEN), (SECOND_TOKEN,)]
    assert caplog.messages == [
        f"--token-file {path}: 2 tokens are valid now",
        f"--token-file {path}: 1 tokens are valid now",
    ]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (f"Bearer {FIRST_TOKEN}", 200),
        (f"BEARER  {FIRST_TOKEN} ", 200),
        (f"Bearer {SECOND_TOKEN}", 200),
        (f"Basic {FIRST_TOKEN}", 401),
        (FIRST_TOKEN, 401),
        (f"Bearer {FIRST_TOKEN}x", 401),
        (f"Bearer {FIRST_TOKEN} {SECOND_TOKEN}", 401),
        ("Bearer", 401),
        ("", 401),
    ],
)
def test_token_is_sent_as_a_bearer_token(history: History, sent: str, status: int) -> None:
    app = service(history, access=Access(lambda: (FIRST_TOKEN, SECOND_TOKEN)))
    answer = ask(app, "/api/v1/groups", {"authorization": sent})
    assert answer.status == status
    if status == 401:
        assert answer.json["type"] == "/problems#token"
        assert answer.headers["www-authenticate"] == 'Bearer realm="rebalance-monitor"'


def test_loopback_addresses_are_recognised() -> None:
    loopback = ("127.0.0.1", "127.8.9.10", "localhost", "LOCALHOST", "::1", "[::1]")
    public = ("0.0.0.0", "::", "10.0.0.1", "127.evil.example", "", "[::1].evil.com", "::1%evil.com", "[::1")  # noqa: S104
    assert [host for host in (*loopback, *public) if is_loopback(host)] == [*loopback]


@pytest.mark.parametrize("host", ["a?", "a/b?", "a#", "a@b", "[", "a?/api/v1/groups", ""])
def test_host_header_gives_no_access(history: History, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    app = service(history, token="t" * 16, loopback_only=False)
    # Starlette before 1.1 builds the URL from the Host header.
    monkeypatch.setattr(Request, "url", property(lambda _: URL("http://a/?/api/v1/groups")))
    for path in ("/api/v1/groups", "/api/v1/stream", "/metrics", "/api/v1/none"):
        answer = ask(app, path, host=host)
        assert (answer.status, answer.json["instance"]) == (401, path)
