"""The page as one document: its style sheets and modules are written into it when the server starts.

So a browser needs one request instead of 44. The page loads completely or not at all, and a browser repeats a failed
load of the document by itself.
"""

from __future__ import annotations

import base64
import hashlib
import re
from http import HTTPStatus
from importlib.resources import files
from posixpath import dirname, join, normpath
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from streaming.serve.security import POLICY

_STYLE: Final = re.compile(r'<link rel="stylesheet" href="(.+?)">')
_SCRIPT: Final = re.compile(r'<script (type="module" )?src="(.+?)"></script>')
_IMPORT: Final = re.compile(r'^import \{ (.+?) \} from "(.+?)";\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


class Page:
    """The page's document with its entity tag, and a policy that allows its own code and styles by their hashes.

    The document's address decides which view it shows.
    """

    def __init__(self) -> None:
        index = _STYLE.sub(lambda link: f"<style>{_text(link[1])}</style>", _text("index.html"))
        index = _SCRIPT.sub(lambda script: f"<script {script[1] or ''}>{_bundle(script[2])}</script>", index)
        sources = [f"{name}-src {_hashes(name, index)}" for name in ("script", "style")]
        self._body = index.encode()
        self._tag = f'"{hashlib.sha256(self._body).hexdigest()[:16]}"'
        self._policy = {"content-security-policy": "; ".join([POLICY, *sources, "img-src data:; connect-src 'self'"])}

    async def view(self, request: Request) -> Response:
        """Return the document for an address that exists."""
        # Browsers revalidate the document each time (usually: 304), so that they don't show an older version.
        headers = {"etag": self._tag, "cache-control": "no-cache", **self._policy}
        if request.headers.get("if-none-match") == self._tag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return HTMLResponse(self._body, headers=headers)

    async def missing(self, request: Request) -> Response:
        """Return the document for an unknown address, which it reports; programs receive a problem document instead."""
        if request.url.path.startswith("/api/") or "text/html" not in request.headers.get("accept", ""):
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return HTMLResponse(self._body, HTTPStatus.NOT_FOUND, self._policy)


def _text(path: str) -> str:
    return (files("streaming.serve") / "page" / path).read_text()


def _bundle(entry: str) -> str:
    """Return a module and its imports as one script, in which each module is a function that returns its exports."""
    functions: dict[str, str] = {}

    def add(path: str) -> None:
        def imported(statement: re.Match[str]) -> str:
            target = normpath(join(dirname(path), statement[2]))
            if target not in functions:
                add(target)
            return f'const {{ {statement[1].replace(" as ", ": ")} }} = modules["{target}"];\n'

        source = _IMPORT.sub(imported, _text(path))
        exports = ", ".join(name for _, name in _EXPORT.findall(source))
        source = _EXPORT.sub(r"\1", source)
        functions[path] = f'modules["{path}"] = (() => {{\n{source}return {{ {exports} }};\n}})();\n'

    add(entry)
    return "const modules = {};\n" + "".join(functions.values())


def _hashes(name: str, document: str) -> str:
    """Return the hash sources of the content security policy for the document's elements with this tag name."""
    bodies = re.findall(rf"<{name}\b[^>]*>(.*?)</{name}>", document, re.DOTALL)
    digests = (base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() for body in bodies)
    return " ".join(f"'sha256-{digest}'" for digest in digests)
