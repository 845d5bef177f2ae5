"""Connect clusters over time, with the decisions of Kafka's own leader; the first line of a file names its version."""

import json
from pathlib import Path

from assignors.connect import incremental
from assignors.connect.incremental import LeaderMemory, Work
from tests.support.connect_cases import oracle_round_as_json, round_as_json


def test_rounds_equal_those_of_connect_4_3_1() -> None:
    _, *rows = map(json.loads, Path(__file__).with_name("incremental.jsonl").read_text().splitlines())
    assert rows
    for row in rows:
        state = LeaderMemory()
        for round_, expected in zip(row["rounds"], row["answers"], strict=True):
            workers = {
                name: Work(tuple(connectors), tuple((connector, number) for connector, number in tasks))
                for name, (connectors, tasks) in round_["workers"].items()
            }
            answer = incremental.assign(
                state,
                workers,
                round_["configured"],
                round_["now"],
                max_delay_ms=row["maxDelay"],
                generation=round_["generation"],
                last_completed_generation=round_["completed"],
            )
            assert round_as_json(answer) == oracle_round_as_json(expected)
            state = answer.state
