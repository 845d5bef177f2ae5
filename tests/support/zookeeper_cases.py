"""Random groups of Kafka's old ZooKeeper-based consumer, and functions that make their assignments comparable."""

import copy
import random
from collections import Counter
from typing import Any

from assignors.java import string_hash

Case = dict[str, Any]
AssignmentLists = dict[str, dict[str, list[int]]]

#: Ids that sort as strings and not as numbers, ids with equal hash codes, and ids with characters outside ASCII and
#: the BMP.
CONSUMER_IDS = [
    *(f"c-{n}" for n in (1, 2, 9, 10, 11, 100)),
    *("c", "c1", "C", "Aa", "BB", "AaAa", "BBBB", "ümlaut", "日本", "～", "😀", "g_host-1411-5f"),
]
TOPICS = ["t", "topic-1", "t-1", "Aa", "BB", "a.b", "x_y", "test", *(f"t{n}" for n in range(12))]
VERSIONS = {"zk082": "0.8.2", "zk011": "0.11", "zk11": "1.1"}


class ZookeeperGroups:
    """Generates seeded random groups; ``after`` lets consumers of a group join, leave or change their streams."""

    def __init__(self, seed: int, *, equal: bool = False) -> None:
        self.random = random.Random(seed)
        #: Share of groups with the same threads for every topic, which round robin before 0.10.2 requires.
        self.equal = equal

    def cases(self, count: int) -> list[Case]:
        """Return ``count`` test groups; up to nine in a row are states of one group."""
        cases: list[Case] = []
        while len(cases) < count:
            cases.append(self.fresh())
            for _ in range(self.random.randint(0, 8)):
                cases.append(self.after(cases[-1]))
        return cases[:count]

    def fresh(self) -> Case:
        rng = self.random
        names = rng.sample(TOPICS, rng.randint(1, 6))
        topics = {name: {"partitions": rng.choice((0, 1, 2, 3, 5, 8, 13, 30))} for name in names}
        streams = self._random_stream_counts(topics)
        members = [
            {"memberId": name, "streams": dict(streams) if rng.random() < 0.6 else self._random_stream_counts(topics)}
            for name in rng.sample(CONSUMER_IDS, rng.choice((1, 2, 2, 3, 3, 4, 5, 6, 12)))
        ]
        return _add_missing_topic(rng, {"topics": topics, "members": members})

    def after(self, case: Case) -> Case:
        rng = self.random
        case = copy.deepcopy(case)
        members, topics = case["members"], case["topics"]
        for _ in range(rng.choice((1, 1, 2))):
            chance = rng.random()
            free = [name for name in CONSUMER_IDS if all(name != member["memberId"] for member in members)]
            if chance < 0.4 and free:
                streams = dict(rng.choice(members)["streams"]) if chance < 0.3 else self._random_stream_counts(topics)
                members.append({"memberId": rng.choice(free), "streams": streams})
            elif chance < 0.7 and len(members) > 1:
                members.pop(rng.randrange(len(members)))
            elif chance < 0.9:
                rng.choice(members)["streams"] = self._random_stream_counts(topics)
            else:
                rng.choice(list(topics.values()))["partitions"] += rng.randint(1, 5)
        return _add_missing_topic(rng, case)

    def _random_stream_counts(self, topics: dict[str, Any]) -> dict[str, int]:
        rng = self.random
        if self.equal and rng.random() < 0.98:
            return dict.fromkeys(topics, rng.choice((1, 1, 2, 3, 11)))
        same = rng.randint(1, 12) if rng.random() < 0.5 else None
        streams = {name: same or rng.randint(1, 4) for name in topics if rng.random() < 0.85}
        if rng.random() < 0.05:
            streams["no-such-topic"] = 2
        return streams


def _add_missing_topic(rng: random.Random, case: Case) -> Case:
    """Let a member subscribe to a topic if no member does, because Kafka 0.8.2 fails without subscriptions."""
    if not any(member["streams"] for member in case["members"]):
        rng.choice(case["members"])["streams"] = {next(iter(case["topics"])): 1}
    return case


def partitions_with_equal_hashes(case: Case, version: str) -> set[tuple[str, int]]:
    """Return the subscribed partitions whose texts have equal hash codes; Kafka does not define their order."""
    texts = "{}-{}" if version == "1.1" else "[{},{}]"
    subscribed = {name for member in case["members"] for name in member["streams"]}
    hashes = {
        (name, partition): string_hash(texts.format(name, partition))
        for name, topic in case["topics"].items()
        if name in subscribed
        for partition in range(topic["partitions"])
    }
    times = Counter(hashes.values())
    return {partition for partition, code in hashes.items() if times[code] > 1}


def has_equal_thread_counts(case: Case) -> bool:
    """Return true if each member has as many threads for one topic as for any other topic of the group."""
    subscribed = {name for member in case["members"] for name in member["streams"]}
    return all(len({member["streams"].get(name, 0) for name in subscribed}) == 1 for member in case["members"])


def sort_undefined_order(answer: AssignmentLists, without: set[tuple[str, int]] = frozenset()) -> AssignmentLists:
    """Return the assignment without empty threads and topics, and without the partitions in ``without``."""
    shares = {
        thread: {
            name: kept
            for name, partitions in share.items()
            if (kept := [p for p in partitions if (name, p) not in without])
        }
        for thread, share in answer.items()
    }
    return {thread: share for thread, share in shares.items() if share}
