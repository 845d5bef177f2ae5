from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        (
            "--trust-header",
            "X-User",
            "--trust-header: name who may set it, each proxy by --trusted-proxy ADDRESS",
        ),
        (
            "--trusted-proxy",
            "10.0.0.1",
            "--trusted-proxy 10.0.0.1: name the header that it sets, by --trust-header",
        ),
    ],
)
def test_half_a_proxy_is_refused_before_anything_starts(
    command: Any, option: str, value: str, says: str
) -> None:
    status, out, err = command("serve", "--bootstrap-servers", "127.0.0.1:1", option, value)
    assert (status, out, err) == (2, "", f"error: {says}\n")
