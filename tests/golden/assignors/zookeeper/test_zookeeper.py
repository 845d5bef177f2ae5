import json
from pathlib import Path

import pytest

from assignors.errors import InvalidGroup
from assignors.registry import find
from tests.support.groups import group_of
from tests.support.zookeeper_cases import sort_undefined_order


@pytest.mark.parametrize("version", ["0.8.2", "0.11", "1.1"])
@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_assignments_equal_the_recorded_ones(assignor: str, version: str) -> None:
    path = Path(__file__).with_name(f"{assignor}-{version}.jsonl")
    _, *rows = map(json.loads, path.read_text().splitlines())
    assert rows
    for row in rows:
        group = group_of(row["case"])
        if row["answer"] is None:
            with pytest.raises(InvalidGroup, match="same topics"):
                find("zookeeper", assignor).assign(*group, kafka_version=version)
            continue
        answer = find("zookeeper", assignor).assign(*group, kafka_version=version)
        assignment_lists = {thread: {t: list(p) for t, p in share.items()} for thread, share in answer.items()}
        assert sort_undefined_order(assignment_lists) == sort_undefined_order(row["answer"])
