"""The page's files, as the server gives them."""

from __future__ import annotations

import re
from pathlib import Path

from starlette.types import ASGIApp

from tests.support.asgi import ask

PAGE = Path(__file__).parents[4] / "streaming" / "serve" / "page"


def test_the_page_is_served_whole_from_here(app: ASGIApp) -> None:
    """Every file a page file names exists, and none names another host."""
    for path in PAGE.rglob("*"):
        if path.is_dir():
            continue
        name = path.relative_to(PAGE).as_posix()
        answer = ask(app, f"/assets/{name}")
        assert (answer.status, answer.body) == (200, path.read_bytes())
        text = path.read_text()
        assert not re.search(r"(?:src|href|from|import|url\()\s*=?\s*[\"']?(?:https?:)?//", text), name
        for module in re.findall(r'from "(\.[^"]+)"', text):
            assert (path.parent / module).resolve().is_file(), (name, module)
        for asset in re.findall(r'"/assets/([^"]+)"', text):
            assert (PAGE / asset).is_file(), (name, asset)


def test_views_share_a_document_and_unchanged_files_give_304(app: ASGIApp) -> None:
    index = ask(app, "/")
    assert ask(app, "/groups/team%2Fbilling").body == index.body
    again = ask(app, "/", {"if-none-match": index.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


def test_page_files_have_types_and_etags(app: ASGIApp) -> None:
    kinds = {
        path.suffix: ask(app, f"/assets/{path.relative_to(PAGE)}").headers["content-type"] for path in PAGE.rglob("*.*")
    }
    assert kinds == {
        ".html": "text/html; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".svg": "image/svg+xml",
    }
    tags = {ask(app, f"/assets/{path.relative_to(PAGE)}").headers["etag"] for path in PAGE.rglob("*.*")}
    assert len(tags) == len(list(PAGE.rglob("*.*")))
    older = ask(app, "/", {"if-none-match": '"of-another-release"'})
    assert (older.status, older.body) == (200, (PAGE / "index.html").read_bytes())
