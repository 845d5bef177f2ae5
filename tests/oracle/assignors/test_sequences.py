"""What the fast tests compare by digests (``tests/golden/assignors/sequences.json``), answer by answer.

Those of the old consumer are in ``zookeeper/test_zookeeper.py``, which has its three JVMs at hand.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.oracle.driver import Oracle
from tests.oracle.sequences import compare
from tests.support.sequences import SEQUENCES


@pytest.mark.parametrize("name", [name for name in SEQUENCES if not name.startswith("zookeeper")])
def test_the_jars_answer_so(oracle: Callable[[str], Oracle], name: str) -> None:
    compare(oracle, name)
