import json
import logging
from types import SimpleNamespace

import pytest
from starlette.types import ASGIApp

from streaming.process.service import JsonFormatter, TextFormatter
from streaming.serve import security
from streaming.serve.history import History
from streaming.serve.security import Access, TrustedProxies
from tests.support.asgi import ask
from tests.support.feed import service

TOKEN = "0123456789abcdef"  # noqa: S105 - a made-up token


@pytest.fixture
def app(history: History) -> ASGIApp:
    proxies = TrustedProxies.of("X-User", ["10.0.0.1"])
    return service(history, access=Access(lambda: [TOKEN], proxies), loopback_only=False, access_log=True)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    security.refusals.filters[0].__init__()  # type: ignore[misc] # the filter forgets earlier messages
    return caplog


def requests(lines: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in lines.records if record.name == "streaming.serve.access"]


def test_each_request_is_logged_in_one_line(app: ASGIApp, lines: pytest.LogCaptureFixture) -> None:
    answer = ask(app, "/api/v1/groups", {"x-user": "alice"}, peer="10.0.0.1")
    (record,) = requests(lines)
    assert (vars(record)["status"], vars(record)["bytes"]) == (200, len(answer.body))
    assert record.getMessage().startswith('peer="10.0.0.1" caller="alice" method="GET" path="/api/v1/groups" ')


def test_refused_requests_are_logged_without_access_log(history: History, lines: pytest.LogCaptureFixture) -> None:
    quiet = service(history, token=TOKEN, loopback_only=False)
    for _ in range(3):
        ask(quiet, "/api/v1/groups", {"authorization": "Bearer wrong-and-secret"}, peer="10.0.0.9")
    ask(quiet, "/health", method="POST", peer="10.0.0.9")
    assert [record.getMessage() for record in lines.records] == [
        "refused 10.0.0.9: token",
        "refused 10.0.0.9: method-not-allowed",
    ]
    assert {record.levelname for record in lines.records} == {"WARNING"}


def test_access_log_contains_no_secret(app: ASGIApp, lines: pytest.LogCaptureFixture) -> None:
    for sent in (TOKEN, "not-the-token-of-it"):
        ask(app, f"/api/v1/groups?token={sent}", {"authorization": f"Bearer {sent}", "cookie": sent})
    assert [vars(record)["caller"] for record in requests(lines)] == ["token", None]
    written = "".join(JsonFormatter().format(record) for record in lines.records)
    assert TOKEN not in written
    assert "not-the-token-of-it" not in written


@pytest.mark.parametrize(
    ("target", "user"),
    [
        ("/groups/a%0Ab%1b%5B31m", "alice"),
        ("/" + "a" * 5000, "alice"),
        ("/", 'a" status=200 "'),
        ("/", "alice status=200\u2028"),
    ],
)
def test_control_characters_in_paths_are_escaped(
    app: ASGIApp, lines: pytest.LogCaptureFixture, target: str, user: str
) -> None:
    ask(app, target, {"x-user": user}, peer="10.0.0.1")
    (record,) = requests(lines)
    text, line = TextFormatter().format(record), JsonFormatter().format(record)
    assert text.isprintable()
    assert len(text) < 2000
    assert json.loads(line)["path"] == vars(record)["path"]
    assert len(line.splitlines()) == 1
    assert text.count(" status=") == 1 or '\\" status=' in text


def test_log_line_has_duration_and_bytes_sent(
    app: ASGIApp, lines: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter((100.0, 100.0126))
    monkeypatch.setattr(security, "time", SimpleNamespace(monotonic=lambda: next(times)))
    answer = ask(app, "/assets/none", peer="10.0.0.1")
    (record,) = requests(lines)
    fields = vars(record)
    assert (fields["status"], fields["bytes"], fields["ms"], fields["caller"]) == (404, len(answer.body), 13, None)
