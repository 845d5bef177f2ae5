"""Results of AdminUtils 4.0.2 and StripedReplicaPlacer 4.3.1 (``oracle.jsonl``).

``python -m tests.oracle.record_producer`` writes the file of results again.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.placement_cases import admin_answer, striped_placement

RECORDED_CASES = [json.loads(line) for line in (Path(__file__).parent / "oracle.jsonl").read_text().splitlines()]
PLACEMENT_FUNCTIONS = {"admin": admin_answer, "placer": striped_placement}


@pytest.mark.parametrize("record", RECORDED_CASES, ids=lambda record: record["request"]["family"])
def test_placement_equals_that_of_kafka(record: dict[str, Any]) -> None:
    expected = {"error": True} if "error" in record["answer"] else record["answer"]
    assert PLACEMENT_FUNCTIONS[record["request"]["family"]](record["request"]) == expected
