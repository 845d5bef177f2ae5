from __future__ import annotations

import json

import pytest

from assignors.lazy import lazy


def test_name_is_loaded_once_and_unknown_ones_are_refused() -> None:
    namespace = {"__name__": "package"}
    load, listed = lazy(namespace, {"json": ("dumps", "loads")})

    assert listed() == ["__name__", "dumps", "loads"]
    assert "loads" not in namespace
    assert load("loads") is json.loads
    assert namespace == {"__name__": "package", "loads": json.loads}
    with pytest.raises(AttributeError, match=r"^module 'package' has no attribute 'dump'$"):
        load("dump")
