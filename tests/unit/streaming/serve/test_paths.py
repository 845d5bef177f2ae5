import asyncio
from typing import Any
from urllib.parse import unquote

import pytest

from streaming.serve.app import EncodedGroupIds


def router_path(raw: str) -> str:
    """Return the path on which the router matches a request with this raw path."""
    received_paths: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        received_paths.append(scope["path"])

    asyncio.run(EncodedGroupIds(app)({"type": "http", "path": unquote(raw), "raw_path": raw.encode()}, None, None))
    return received_paths[0]


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        ("/api/v1/groups/orders/rounds", "/api/v1/groups/orders/rounds"),
        ("/api/v1/groups/team%2Frounds", "/api/v1/groups/team%2Frounds"),
        ("/api/v1/groups/a%2fb/rounds/5", "/api/v1/groups/a%2Fb/rounds/5"),
        ("/api/v1/groups/100%25", "/api/v1/groups/100%25"),
        ("/api/v1/groups/gr%C3%BC%C3%9Fe", "/api/v1/groups/grüße"),
        ("/api%2Fv1%2Fgroups/x", "/api%2Fv1%2Fgroups/x"),
        ("/elsewhere/a%2Fb", "/elsewhere/a/b"),
    ],
)
def test_encoded_slash_does_not_separate_path_segments(raw: str, wanted: str) -> None:
    assert router_path(raw) == wanted
