"""What the fast tests compare by digests (``tests/golden/assignors/sequences.json``), answer by answer."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pytest

from tests.oracle.driver import Oracle
from tests.support.sequences import SEQUENCES, comparable


@pytest.mark.parametrize("name", SEQUENCES)
def test_the_jars_answer_so(oracle: Callable[[str], Oracle], name: str) -> None:
    jars, count, sequence = SEQUENCES[name]
    asked = list(islice(sequence(71), count))
    answers = oracle(jars).ask(one.request for one in asked)
    for one, answer in zip(asked, answers, strict=True):
        assert comparable(name, answer) == one.ours, one.request
