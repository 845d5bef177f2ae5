"""Our answers to long random sequences, by the digest of each stretch: those that the jars gave.

``tests/oracle/sequences.py`` asks the jars the same, case by case, and says which one differs.
``WRITE_RECORDED=1`` writes the digests anew: run the oracle's test after it.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from itertools import islice
from pathlib import Path

import pytest

from tests.support.sequences import SEQUENCES

GOLDEN = Path(__file__).with_name("sequences.json")
#: Questions a digest.
STRETCH = 50


def digests(name: str) -> list[str]:
    """Of every stretch of the sequence, the questions with the answers."""
    _, count, sequence = SEQUENCES[name]
    asked = list(islice(sequence(71), count))
    stretches = [asked[start : start + STRETCH] for start in range(0, count, STRETCH)]
    return [sha256(json.dumps(stretch, sort_keys=True).encode()).hexdigest()[:16] for stretch in stretches]


@pytest.mark.parametrize("name", SEQUENCES)
def test_the_jars_answers(name: str) -> None:
    found = digests(name)
    if os.environ.get("WRITE_RECORDED"):
        known = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
        GOLDEN.write_text(json.dumps(known | {name: found}, indent=1) + "\n")
    assert found == json.loads(GOLDEN.read_text())[name]
