from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import unquote

import pytest

from streaming.serve.paths import WholeGroups


def routed(raw: str) -> str:
    """The path that routing sees."""
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["path"])

    asyncio.run(
        WholeGroups(app)({"type": "http", "path": unquote(raw), "raw_path": raw.encode()}, None, None)
    )
    return seen[0]


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        ("/api/groups/orders/rounds", "/api/groups/orders/rounds"),
        ("/api/groups/team%2Frounds", "/api/groups/team%2Frounds"),
        ("/api/groups/a%2fb/rounds/5", "/api/groups/a%2Fb/rounds/5"),
        ("/api/groups/100%25", "/api/groups/100%25"),
        ("/api/groups/gr%C3%BC%C3%9Fe", "/api/groups/grüße"),
        ("/api%2Fgroups/x", "/api%2Fgroups/x"),
        ("/assets/a%2Fb.js", "/assets/a/b.js"),
    ],
)
def test_only_slashes_that_were_written_as_such_part_anything(raw: str, wanted: str) -> None:
    assert routed(raw) == wanted
