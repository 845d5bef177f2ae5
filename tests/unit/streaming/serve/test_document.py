"""The server returns the page's HTML document with all files in it."""

import base64
import hashlib
import re
from pathlib import Path

from starlette.types import ASGIApp

from streaming.serve.security import CSP
from tests.support.asgi import ask

PAGE = Path(__file__).parents[4] / "streaming" / "serve" / "page"


def test_page_document_contains_every_css_and_js_file(app: ASGIApp) -> None:
    text = ask(app, "/").body.decode()
    for path in PAGE.rglob("*.css"):
        assert path.read_text() in text
    for path in PAGE.rglob("*.js"):
        assert f'modules["{path.relative_to(PAGE)}"] = (() => {{' in text
    assert not re.search(r"^(?:import|export) ", text, re.MULTILINE)
    assert not re.search(r"(?:src|href|from|import|url\()\s*=?\s*[\"']?(?:https?:)?//", text)


def test_modules_come_after_the_modules_that_they_import(app: ASGIApp) -> None:
    text = ask(app, "/").body.decode()
    starts = {path: text.index(f'modules["{path}"] = (') for path in re.findall(r'modules\["(.+)"\] = \(', text)}
    module_imports = list(re.finditer(r'const \{ .+ \} = modules\["(.+)"\];', text))
    assert len(module_imports) > len(starts)
    for use in module_imports:
        assert starts[use[1]] < use.start()


def test_policy_has_the_hashes_of_the_page_code(app: ASGIApp) -> None:
    answer = ask(app, "/")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith(f"{CSP}; script-src 'sha256-")
    for name, count in (("script", 2), ("style", 4)):
        bodies = re.findall(rf"<{name}\b[^>]*>(.*?)</{name}>".encode(), answer.body, re.DOTALL)
        digests = [base64.b64encode(hashlib.sha256(body).digest()).decode() for body in bodies]
        (sources,) = re.findall(rf"{name}-src ([^;]+)", policy)
        assert sources.split() == [f"'sha256-{digest}'" for digest in digests]
        assert len(digests) == count


def test_page_views_share_one_document_that_is_cached(app: ASGIApp) -> None:
    index = ask(app, "/")
    assert index.headers["content-type"] == "text/html; charset=utf-8"
    assert ask(app, "/groups/team%2Fbilling").body == index.body
    again = ask(app, "/", {"if-none-match": index.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    response_to_old_etag = ask(app, "/", {"if-none-match": '"of-another-release"'})
    assert (response_to_old_etag.status, response_to_old_etag.body) == (200, index.body)


def test_a_browser_gets_the_page_for_an_unknown_address(app: ASGIApp) -> None:
    shown = ask(app, "/nothing", {"accept": "text/html,*/*"})
    assert (shown.status, shown.body) == (404, ask(app, "/").body)
    for path, accept in (("/nothing", "*/*"), ("/api/v1/nothing", "text/html")):
        answer = ask(app, path, {"accept": accept})
        assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json")
