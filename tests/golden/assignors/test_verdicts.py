"""What every rule says of answers that were spoiled at random, why each partition went where it did, and refusals.

``verdicts.json`` holds how often each rule is broken and the digest of all that is said, ``WRITE_RECORDED=1``
writes it anew.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

from assignors import registry
from assignors.errors import MonitorError
from assignors.explain import explain
from assignors.invariants import RULES, check
from tests.oracle.generator import Assignment, Groups
from tests.support.groups import group_of, readable

GOLDEN = Path(__file__).with_name("verdicts.json")
ASSIGNORS = [(protocol, name) for protocol in ("classic", "consumer") for name in registry.names(protocol)]


def spoil(chance: Random, answer: Assignment) -> Assignment:
    """An answer with partitions moved, lost, given twice, to strangers, of no topic, or beyond the count."""
    found = {
        member: {topic: [*numbers] for topic, numbers in share.items()} for member, share in answer.items()
    }
    for _ in range(chance.choice((0, 1, 1, 2, 6))):
        member, other = (chance.choice([*found, "stranger"]) for _ in range(2))
        share = found.setdefault(member, {})
        topic = chance.choice([*share, "nowhere"])
        numbers = share.setdefault(topic, [])
        if numbers and chance.random() < 0.7:
            taken = numbers[:: chance.choice((1, 2))]
            if chance.random() < 0.6:
                share[topic] = [number for number in numbers if number not in taken]
            if chance.random() < 0.8:
                found.setdefault(other, {}).setdefault(topic, []).extend(taken)
        else:
            numbers.append(chance.choice((-1, 0, 1, 3, 40)))
    return found


def said(protocol: str, name: str) -> dict[str, Any]:
    """Of some rebalances."""
    chance, groups = (
        Random(f"{protocol} {name}"),
        Groups(91, topic_ids=protocol == "consumer", shrinking=True),
    )
    counts: Counter[str] = Counter()
    told: list[Any] = []
    case = groups.fresh()
    for _ in range(35):
        topics, members = group_of(case)
        try:
            answer = registry.find(protocol, name).assign(topics, members)
        except MonitorError as error:
            counts["refused"] += 1
            told.append(str(error))
            case = groups.fresh()
            continue
        reasons = explain(protocol, name, topics, members, answer)
        told.append({member: asdict(reason) for member, reason in reasons.items()})
        given = readable(answer)
        for attempt in (given, spoil(chance, given), spoil(chance, given)):
            broken = check(protocol, name, topics, members, attempt, rules=list(RULES))
            promised = check(protocol, name, topics, members, attempt)
            counts.update(one.rule for one in broken)
            told += [[asdict(one) for one in found] for found in (broken, promised)]
        case = groups.fresh() if chance.random() < 0.3 else groups.after(case, given)
    return {**dict(sorted(counts.items())), "digest": sha256(json.dumps(told).encode()).hexdigest()[:16]}


@pytest.mark.parametrize(("protocol", "name"), ASSIGNORS)
def test_the_rules_say_what_they_said(protocol: str, name: str) -> None:
    found = said(protocol, name)
    known = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if os.environ.get("WRITE_RECORDED"):
        GOLDEN.write_text(json.dumps(known | {f"{protocol} {name}": found}, indent=1) + "\n")
    assert found == json.loads(GOLDEN.read_text())[f"{protocol} {name}"]


@pytest.mark.parametrize(("protocol", "name"), ASSIGNORS)
def test_order_of_topics_does_not_change_the_verdict(protocol: str, name: str) -> None:
    chance = Random(f"order {protocol} {name}")
    groups = Groups(17, topic_ids=protocol == "consumer")
    for _ in range(15):
        topics, members = group_of(groups.fresh())
        try:
            answer = readable(registry.find(protocol, name).assign(topics, members))
        except MonitorError:
            continue
        spoiled = spoil(chance, spoil(chance, answer))
        shuffled = {
            member: {
                topic: chance.sample(share[topic], len(share[topic]))
                for topic in chance.sample(list(share), len(share))
            }
            for member, share in spoiled.items()
        }
        told = check(protocol, name, topics, members, spoiled, rules=list(RULES))
        again = check(protocol, name, topics, members, shuffled, rules=list(RULES))
        assert sorted(map(str, again)) == sorted(map(str, told))
        for one in told:
            assert one.partitions == tuple(sorted(set(one.partitions)))
