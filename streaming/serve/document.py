"""The page's one document: its style sheets and modules are written into it when the server starts.

A browser needs one request in place of 44. A load fails as a whole or not at all, and browsers repeat the load of a
failed document by themselves.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from posixpath import dirname, join, normpath
from typing import Final

from streaming.serve.security import POLICY

_STYLE: Final = re.compile(r'<link rel="stylesheet" href="(.+?)">')
_SCRIPT: Final = re.compile(r'<script (type="module" )?src="(.+?)"></script>')
_IMPORT: Final = re.compile(r'^import \{ (.+?) \} from "(.+?)";\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Document:
    """The document, its entity tag, and a policy that allows its own code and styles by their hashes."""

    body: bytes
    tag: str
    policy: str


def read_document() -> Document:
    """Read the page's files."""
    index = _text("index.html")
    index = _STYLE.sub(lambda link: f"<style>{_text(link[1])}</style>", index)
    index = _SCRIPT.sub(lambda script: f"<script {script[1] or ''}>{_bundle(script[2])}</script>", index)
    hashes = {name: _hashes(name, index) for name in ("script", "style")}
    policy = "; ".join(
        [POLICY, *(f"{name}-src {of}" for name, of in hashes.items()), "img-src data:; connect-src 'self'"]
    )
    body = index.encode()
    return Document(body, f'"{hashlib.sha256(body).hexdigest()[:16]}"', policy)


def _text(path: str) -> str:
    return (files("streaming.serve") / "page" / path).read_text()


def _bundle(entry: str) -> str:
    """Return a module and all that it imports as one script: each module is a function that returns its exports."""
    functions: dict[str, str] = {}

    def add(path: str) -> None:
        def imported(names: str, of: str) -> str:
            target = normpath(join(dirname(path), of))
            if target not in functions:
                add(target)
            return f'const {{ {names.replace(" as ", ": ")} }} = modules["{target}"];\n'

        source = _IMPORT.sub(lambda found: imported(found[1], found[2]), _text(path))
        exports = ", ".join(name for _, name in _EXPORT.findall(source))
        source = _EXPORT.sub(r"\1", source)
        functions[path] = f'modules["{path}"] = (() => {{\n{source}return {{ {exports} }};\n}})();\n'

    add(entry)
    return "const modules = {};\n" + "".join(functions.values())


def _hashes(name: str, document: str) -> str:
    """Return the sources of a policy for the document's elements of a name."""
    bodies = re.findall(rf"<{name}\b[^>]*>(.*?)</{name}>", document, re.DOTALL)
    digests = (base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() for body in bodies)
    return " ".join(f"'sha256-{digest}'" for digest in digests)
