"""Simulated Connect clusters against ``IncrementalCooperativeAssignor``, in every round of random histories.

Each assignment by the simulated leader is repeated with the Java class, with a new instance for each leader; the
workers' tasks in the Java result must equal those in the simulated round.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest

from assignors.connect import incremental
from assignors.connect.incremental import ConnectRound as Answer
from assignors.connect.incremental import Work
from assignors.model import TopicPartitions
from streaming.simulation.event_loop import run_scenario
from streaming.simulation.parse import parse_scenario
from tests.oracle.driver import Oracle
from tests.support.connect_cases import as_json, oracle_round_as_json, round_as_json

_WORKER_NAMES = ("w1", "w2", "w3", "w4", "worker-10", "c#")


def document(rng: Random) -> dict[str, Any]:
    at = 0
    topics = {name: rng.randint(1, 6) for name in ("sink", "source", "mirror")[: rng.randint(1, 3)]}
    grown = dict(topics)
    running_workers: list[str] = []
    events: list[dict[str, Any]] = []
    for _ in range(rng.randint(4, 12)):
        at += rng.choice((0, 1, 500, 3000, 20_000, 60_000, 200_000, 400_000))
        kind = rng.choice(("join", "join", "bounce", "crash", "leave", "partitions"))
        away = [name for name in _WORKER_NAMES if name not in running_workers]
        if kind == "partitions":
            name = rng.choice(list(grown))
            grown[name] += rng.randint(1, 3)
            events.append({"at": at, "partitions": {name: grown[name]}})
        elif kind == "join" or not running_workers:
            if away:
                running_workers.append(rng.choice(away))
                events.append({"at": at, "join": running_workers[-1]})
        elif kind == "bounce":
            down = rng.choice((100, 10_000, 40_000, 100_000))
            events.append({"at": at, "bounce": rng.choice(running_workers), "down_ms": down})
            at += down
        else:
            name = rng.choice(running_workers)
            running_workers.remove(name)
            events.append({"at": at, kind: name})
    delay = rng.choice((0, 1000, 60_000, 300_000, 300_000))
    return {"topics": topics, "scheduled_rebalance_delay_ms": delay, "events": events}


class RecordedAssignor:
    def __init__(self) -> None:
        self.leader_terms: list[list[dict[str, Any]]] = []
        self.results: list[Answer] = []
        self.running: list[dict[str, Work]] = []
        self._assign = incremental.assign

    def __call__(self, memory: Any, running: Any, configured: Any, at: int, **more: Any) -> Answer:
        answer = self._assign(memory, running, configured, at, **more)
        if memory.generation < 0:
            self.leader_terms.append([])
        self.leader_terms[-1].append(
            {
                "now": at,
                "generation": more["generation"],
                "completed": memory.generation,
                "workers": {name: as_json(work) for name, work in running.items()},
                "configured": dict(configured),
            }
        )
        self.results.append(answer)
        self.running.append(dict(running))
        return answer


def shares_by_process(shares: Mapping[str, TopicPartitions]) -> list[tuple[str, TopicPartitions]]:
    """Return each worker process's assignment; a crashed worker that is still a member has ``~`` in its name."""
    owners = [
        (name.partition("~")[0], {topic: list(numbers) for topic, numbers in sorted(share.items())})
        for name, share in shares.items()
    ]
    return sorted(owners, key=repr)


@pytest.mark.parametrize("seed", [61, 62, 63])
def test_simulated_connect_rounds_equal_those_of_java(
    oracle: Callable[[str], Oracle], oracle_cases: int, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = Random(seed)
    for _ in range(max(oracle_cases // 10, 5)):
        scenario = document(rng)
        plan = parse_scenario(scenario)
        calls = RecordedAssignor()
        monkeypatch.setattr(incremental, "assign", calls)
        rounds = [record for record in run_scenario(plan, "connect").result.rounds if record.after]
        monkeypatch.undo()
        java_rounds = [
            answer
            for term in oracle("current").ask(
                {
                    "family": "connect",
                    "ask": "incremental",
                    "maxDelay": plan.scheduled_rebalance_delay_ms,
                    "rounds": term,
                }
                for term in calls.leader_terms
            )
            for answer in term
        ]
        assert [round_as_json(answer) for answer in calls.results] == [
            oracle_round_as_json(response) for response in java_rounds
        ], scenario
        expected = {
            request["generation"]: shares_by_process(
                {
                    name: incremental.apply_work_change(running[name], change).share()
                    for name, change in answer.changes.items()
                }
            )
            for request, running, answer in zip(
                [call for term in calls.leader_terms for call in term], calls.running, calls.results, strict=True
            )
        }
        for record in rounds:
            assert shares_by_process(record.after) == expected[record.number], scenario
