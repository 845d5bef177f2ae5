"""Random histories of Connect clusters: the leader's input and this project's result of each round."""

import random
from dataclasses import dataclass, field
from typing import Any

from assignors.connect import incremental
from assignors.connect.incremental import ConnectRound, LeaderMemory, Work, WorkChange

#: Connector names with equal hash codes ("Aa" and "BB"), names with different hash codes in the same bucket, and
#: names with Latin, CJK, astral and above-surrogate characters.
NAMES = [
    *("AaAa", "BBBB", "AaBB", "BBAa", "Aa", "BB", "C#", "c", "connect-1", "connect-10", "connect-2", "w"),
    *("ümlaut", "漢字", "\U0001f600", "\uffee", "x-9d1", "x-17f", "x-c02", "worker-0001", "worker-0002"),
    *(f"connect-{n}-{n * 7919:x}" for n in range(40)),
]
STEPS_MS = (0, 1, 39, 40, 1599, 1600, 1601, 10_000, 63_999, 64_000, 299_999, 300_000, 300_001, 1_000_000)
MAX_DELAYS_MS = (0, 1, 2, 40, 41, 1000, 60_000, 300_000, 300_000, 300_000)


@dataclass
class LeaderHistory:
    """The rounds of one Connect leader in order, each with the leader's input and this project's result."""

    max_delay_ms: int
    rounds: list[dict[str, Any]] = field(default_factory=list)
    results: list[ConnectRound] = field(default_factory=list)


def leader_history(rng: random.Random, length: int) -> LeaderHistory:
    """Return ``length`` rounds of a Connect cluster: joins, leaves, bounces, zombies, lost responses, new configs."""
    history = LeaderHistory(rng.choice(MAX_DELAYS_MS))
    pool = rng.sample(NAMES, rng.randint(2, 40))
    connectors = rng.sample(NAMES, rng.randint(1, 12))
    running = {name: Work() for name in pool[: rng.randint(1, min(8, len(pool)))]}
    configured = {name: rng.randint(0, 9) for name in connectors[: rng.randint(0, len(connectors))]}
    gone: dict[str, Work] = {}
    state, now, generation = LeaderMemory(), rng.choice((0, 5, 1_700_000_000_000)), 0
    for _ in range(length):
        generation += rng.choice((1, 1, 1, 1, 2))
        completed = state.generation if rng.random() < 0.95 else rng.choice((-1, generation - 1))
        reported = {name: incremental.serialized_work(_shuffle_some_work(rng, work)) for name, work in running.items()}
        result = incremental.assign(
            state,
            reported,
            configured,
            now,
            max_delay_ms=history.max_delay_ms,
            generation=generation,
            last_completed_generation=completed,
        )
        history.rounds.append(
            {
                "now": now,
                "generation": generation,
                "completed": completed,
                "workers": {name: as_json(work) for name, work in reported.items()},
                "configured": dict(configured),
            }
        )
        history.results.append(result)
        state = result.state
        for name in running:
            if rng.random() < 0.97:  # otherwise the response did not reach the worker
                running[name] = incremental.apply_work_change(reported[name], result.changes[name])
        running = _members(rng, pool, running, gone)
        configured = _configuration(rng, connectors, configured)
        now += rng.choice((*STEPS_MS, result.delay_ms, max(result.delay_ms - 1, 0)))
    return history


def _shuffle_some_work(rng: random.Random, work: Work) -> Work:
    if rng.random() < 0.9:
        return work
    return Work(
        tuple(rng.sample(work.connectors, len(work.connectors))), tuple(rng.sample(work.tasks, len(work.tasks)))
    )


def _members(rng: random.Random, pool: list[str], running: dict[str, Work], gone: dict[str, Work]) -> dict[str, Work]:
    after = dict(running)
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
        if len(after) > 1 and rng.random() < 0.5:
            name = rng.choice(list(after))
            gone[name] = after.pop(name)
        elif len(after) < len(pool):
            name = rng.choice([name for name in pool if name not in after])
            work_of_returning_member = gone.pop(name, Work()) if rng.random() < 0.15 else Work()
            after[name] = work_of_returning_member
    if rng.random() < 0.3:  # a JoinGroup response lists members in arbitrary order
        after = {name: after[name] for name in rng.sample(list(after), len(after))}
    return after


def _configuration(rng: random.Random, connectors: list[str], configured: dict[str, int]) -> dict[str, int]:
    after = dict(configured)
    if rng.random() < 0.35:
        name = rng.choice(connectors)
        if name in after and rng.random() < 0.3:
            del after[name]
        else:
            after[name] = rng.randint(0, 12)
    return after


def as_json(work: Work) -> list[list[Any]]:
    """Return a worker's connectors and tasks in the JSON format of the Java oracle."""
    return [list(work.connectors), [list(task) for task in work.tasks]]


def round_as_json(result: ConnectRound) -> dict[str, Any]:
    """Return this project's assignment in the oracle's format: started tasks in wire order, revoked tasks sorted."""
    return {
        "changes": {name: _change(change) for name, change in sorted(result.changes.items())},
        "delay": result.delay_ms,
        "scheduled": result.state.scheduled_ms,
        "candidates": list(result.state.candidates),
    }


def _change(change: WorkChange) -> list[Any]:
    revoked = as_json(change.revoked)
    return [as_json(incremental.serialized_work(change.assigned)), [sorted(revoked[0]), sorted(revoked[1])]]


def oracle_round_as_json(result: dict[str, Any]) -> dict[str, Any]:
    """Return a round of the Java oracle with sorted workers and sorted revoked work, for comparisons."""
    changes = {
        name: [assigned, [sorted(revoked[0]), sorted(revoked[1])]]
        for name, (assigned, revoked) in sorted(result["changes"].items())
    }
    return {**result, "changes": changes}
