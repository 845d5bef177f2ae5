"""Long random sequences of groups, each with what the oracle is asked of it and our answer in its words.

The fast tests compare digests of our answers (``tests/golden/assignors/test_sequences.py``), the oracle's tests
each answer (``tests/oracle/sequences.py``). The same seed gives the same sequence.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from assignors.connect import eager, model
from assignors.errors import InvalidGroup
from assignors.java import HashTable, in_timeline_order, string_hash, string_key
from assignors.registry import find
from assignors.zookeeper import range as zookeeper_range
from assignors.zookeeper import round_robin
from tests.oracle.generator import Groups
from tests.support import connect_cases, zookeeper_cases
from tests.support.consumer_cases import ConsumerGroups
from tests.support.groups import group_of, readable
from tests.support.placement_cases import admin_answer, admin_case, striped_answer, striped_case
from tests.support.zookeeper_cases import VERSIONS, ZookeeperGroups

#: Names of the jars of each version of the old consumer.
JARS = {version: jars for jars, version in VERSIONS.items()}


class Asked(NamedTuple):
    """A question for the oracle, and our answer."""

    request: dict[str, Any]
    ours: Any


def _answered_back(family: str, name: str, groups: Groups) -> Iterator[Asked]:
    """Rebalances of one group after the other, each answer what its members own at the next."""
    case = groups.fresh()
    while True:
        answer = readable(find(family, name).assign(*group_of(case)))
        yield Asked({"family": family, "assignor": name, "limitMs": 5000, **case}, {"assignment": answer})
        case = groups.fresh() if groups.random.random() < 0.15 else groups.after(case, answer)


def _classic(name: str, seed: int) -> Iterator[Asked]:
    return _answered_back("classic", name, Groups(seed))


def _consumer(name: str, equal: bool, seed: int) -> Iterator[Asked]:
    return _answered_back("consumer", name, ConsumerGroups(seed, equal=equal))


def _zookeeper(name: str, version: str, seed: int) -> Iterator[Asked]:
    groups = ZookeeperGroups(seed, equal=version == "0.8.2")
    assign = {"range": zookeeper_range, "roundrobin": round_robin}[name].assign
    while True:
        for number, case in enumerate(groups.cases(50)):
            request = {**case, "family": "zookeeper", "assignor": name, "everyone": number % 50 == 0}
            try:
                answer = readable(assign(*group_of(case), kafka_version=version))
            except InvalidGroup:
                continue
            if name == "range" or not zookeeper_cases.colliding(case, version):
                yield Asked(request, zookeeper_cases.comparable(answer))


def _incremental(seed: int) -> Iterator[Asked]:
    chance = random.Random(seed)
    while True:
        life = connect_cases.life(chance, chance.randint(1, 15))
        request = {"family": "connect", "ask": "incremental", "maxDelay": life.max_delay_ms}
        yield Asked(request | {"rounds": life.rounds}, [*map(connect_cases.comparable, life.answers)])


def _eager(seed: int) -> Iterator[Asked]:
    chance, names = random.Random(seed), connect_cases.NAMES
    while True:
        workers = chance.sample(names, chance.choice((1, 2, 3, 7, 20)))
        configured = {name: chance.randint(0, 9) for name in chance.sample(names, chance.randint(0, 9))}
        ours = eager.assign(workers, configured)
        answer = {name: connect_cases.as_json(model.work_on_wire(work)) for name, work in ours.items()}
        yield Asked(
            {"family": "connect", "ask": "eager", "workers": workers, "configured": configured}, answer
        )


def _placed(
    ask: Callable[[random.Random], dict[str, Any]], answer: Callable[[dict[str, Any]], Any], seed: int
) -> Iterator[Asked]:
    chance = random.Random(seed)
    while True:
        case = ask(chance)
        yield Asked(case, answer(case))


def _table(timeline: bool, seed: int) -> Iterator[Asked]:
    """Ids into one of Java's tables, some of them out again, and the order in which it iterates over the rest."""
    groups = Groups(seed)
    while True:
        keys = groups._names("c", groups.random.choice([1, 2, 3, 5, 6, 12, 40]))
        removed = groups.random.sample(range(len(keys)), groups.random.randrange(len(keys)))
        request = {"family": "probe", "kind": "string", "keys": keys, "removed": removed}
        if timeline:
            left = [key for position, key in enumerate(keys) if position not in removed]
            order = [keys.index(key) for key in in_timeline_order(left, most=len(keys))]
            yield Asked(request | {"timeline": True}, order)
            continue
        table = HashTable(compared=[string_key(key) for key in keys])
        for position, key in enumerate(keys):
            table.add(position, string_hash(key))
        for position in removed:
            table.remove(position)
        yield Asked(request, list(table))


#: Name → the jars that are asked, how many questions, and the sequence by seed.
SEQUENCES: dict[str, tuple[str, int, Callable[[int], Iterator[Asked]]]] = {
    **{
        f"classic {name}": ("current", 400, partial(_classic, name))
        for name in ("range", "roundrobin", "sticky", "cooperative-sticky")
    },
    **{
        f"consumer {name}, {'equal' if equal else 'unequal'} subscriptions": (
            "current",
            300,
            partial(_consumer, name, equal),
        )
        for name in ("uniform", "range")
        for equal in (True, False)
    },
    **{
        f"zookeeper {name} {version}": (JARS[version], 150, partial(_zookeeper, name, version))
        for name in ("range", "roundrobin")
        for version in VERSIONS.values()
    },
    "connect incremental": ("current", 80, _incremental),
    "connect eager": ("current", 100, _eager),
    "java HashMap": ("current", 200, partial(_table, False)),
    "java TimelineHashMap": ("current", 200, partial(_table, True)),
    "placement AdminUtils": ("admin", 300, partial(_placed, admin_case, admin_answer)),
    "placement StripedReplicaPlacer": ("current", 300, partial(_placed, striped_case, striped_answer)),
}


def comparable(name: str, answer: dict[str, Any]) -> Any:
    """What the oracle answered, as :class:`Asked` has it."""
    if name.startswith("placement"):
        return {"error": True} if "error" in answer else answer
    if name.startswith("zookeeper") and "error" not in answer:
        return zookeeper_cases.comparable(answer["assignment"])
    if name.startswith("java"):
        return answer["order"]
    if name == "connect incremental":
        return [connect_cases.comparable_oracle(one) for one in answer]  # type: ignore[arg-type] # a list here
    return answer
