import json
from pathlib import Path

import pytest

from assignors.registry import find
from tests.support.groups import group_of


@pytest.mark.parametrize("name", ["homogeneous", "heterogeneous", "range"])
def test_assignments_equal_those_of_kafka_4_3_1(name: str) -> None:
    _, *rows = map(json.loads, Path(__file__).with_name(f"{name}.jsonl").read_text().splitlines())
    assert rows
    for row in rows:
        answer = find("consumer", row["assignor"]).assign(*group_of(row["case"]))
        assert {member: {topic: list(p) for topic, p in share.items()} for member, share in answer.items()} == row[
            "answer"
        ]
