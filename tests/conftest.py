"""Options of the whole suite."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--oracle-cases N``: random cases a family, against the released Java classes."""
    parser.addoption("--oracle-cases", type=int, default=None, help="random oracle cases a family and seed")
