"""The oracle's answers to the questions of ``tests/support/sequences.py``, compared one by one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from tests.oracle.driver import Oracle
from tests.support.sequences import SEQUENCES, comparable


def compare(oracle: Callable[[str], Oracle], name: str) -> None:
    """The jars answer the sequence of this name as we do."""
    jars, count, sequence = SEQUENCES[name]
    asked = list(islice(sequence(71), count))
    answers = oracle(jars).ask(one.request for one in asked)
    for one, answer in zip(asked, answers, strict=True):
        assert comparable(name, answer) == one.ours, one.request
