"""Random groups in the format of the ``assign`` command, and random changes of these groups.

``RandomGroups(seed).fresh()`` is one group; ``RandomGroups(seed).after(case, assignment)`` is the same group after
members joined, left, changed their subscription, or a topic grew. Its members own this assignment; some claims are
stale or made by two members. The same seed gives the same cases.
"""

import base64
import copy
import random
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

Case = dict[str, Any]
Assignment = dict[str, dict[str, list[int]]]

#: "Aa" and "BB" have the same hash code, and so do all these 256 combinations.
COLLIDING_STRINGS = ["".join(pair) for pair in product(("Aa", "BB"), repeat=8)]
#: Pairs that UTF-16 orders differently than code points.
ODD_IDS = ["é", "ß1", "～", "\ufffd", "😀", "😀a", "𝒜", "日本", "", "c", "c-", "C"]
RACKS = ["r0", "r1", "r2", "r3"]


class RandomGroups:
    """Generates random groups; ``topic_ids`` adds a Uuid to every topic, as the consumer protocol requires.

    ``can_shrink_topics``: topics are created again with fewer partitions while members still own all former partitions.
    """

    def __init__(self, seed: int, *, topic_ids: bool = False, can_shrink_topics: bool = False) -> None:
        self.random = random.Random(seed)
        self.topic_ids = topic_ids
        self.can_shrink_topics = can_shrink_topics

    def fresh(self) -> Case:
        """Return a group before its first rebalance, or a group with arbitrary claims of partitions."""
        rng = self.random
        racks = rng.choice([[], [], RACKS[: rng.randint(1, 4)]])
        topics = {name: self._topic(racks) for name in self._names("t", rng.choice([1, 2, 3, 5, 9]))}
        count = rng.choice([1, 2, 3, 4, 5, 6, 8, 13, 20, 40])
        equal = rng.random() < 0.5
        subscription = self._subscription(topics)
        members = [
            self._member(name, list(subscription) if equal else self._subscription(topics), racks)
            for name in self._names("c", count)
        ]
        self._add_instance_ids(members)
        case = {"topics": topics, "members": members}
        if rng.random() < 0.5:
            self._add_owned_partitions(case)
        return case

    def after(self, case: Case, assignment: Assignment) -> Case:
        """Return the group before its next rebalance: most members own their assignment; members or topics change."""
        rng = self.random
        case = copy.deepcopy(case)
        generation = max((member["generation"] for member in case["members"]), default=-1) + 1
        for member in case["members"]:
            if rng.random() < 0.95:  # the others missed this rebalance: their claims are stale
                member["owned"] = {t: list(p) for t, p in assignment.get(member["memberId"], {}).items() if len(p)}
                member["generation"] = generation
        changes = [self._join, self._join, self._leave, self._resubscribe_one, self._add_partitions, self._empty_topic]
        for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
            rng.choice(changes)(case)
        if self.can_shrink_topics and rng.random() < 0.5:
            self._remove_partitions(case)
        if rng.random() < 0.1:
            rng.shuffle(case["members"])
        return case

    def _names(self, prefix: str, count: int) -> list[str]:
        rng = self.random
        kind = rng.choice(
            ["plain", "plain", "uuid", "colliding", "odd"] if prefix == "c" else ["plain", "uuid", "colliding"]
        )
        if kind == "colliding":
            return rng.sample(COLLIDING_STRINGS, count)
        if kind == "uuid":
            return [f"{prefix}-{rng.getrandbits(48):012x}" for _ in range(count)]
        if kind == "odd":
            return rng.sample(
                [*ODD_IDS[:8], *(first + second for first in ODD_IDS for second in ODD_IDS[:8] if first)], count
            )
        return [f"{prefix}{number}" for number in rng.sample(range(count * 2), count)]

    def _topic(self, racks: list[str]) -> dict[str, Any]:
        rng = self.random
        topic: dict[str, Any] = {
            "partitions": rng.choice([0, 1, 1, 2, 3, 4, 6, 8, 13, 40] if rng.random() < 0.5 else [3, 6])
        }
        if racks and rng.random() < 0.9:
            replicas = rng.randint(1, 3)
            topic["racks"] = [self._random_replica_racks(racks, replicas) for _ in range(topic["partitions"])]
        if self.topic_ids:
            topic["topicId"] = base64.urlsafe_b64encode(rng.randbytes(16)).decode().rstrip("=")
        return topic

    def _random_replica_racks(self, racks: list[str], replicas: int) -> list[str]:
        if self.random.random() < 0.05:
            return []
        return [self.random.choice(racks) for _ in range(replicas)]

    def _subscription(self, topics: dict[str, Any]) -> list[str]:
        rng = self.random
        chosen = [name for name in topics if rng.random() < 0.7]
        if rng.random() < 0.05:
            chosen.append("no-such-topic")
        if chosen and rng.random() < 0.05:
            chosen.append(rng.choice(chosen))
        rng.shuffle(chosen)
        return chosen

    def _member(self, name: str, topics: list[str], racks: list[str]) -> dict[str, Any]:
        rng = self.random
        rack = rng.choice([*racks, *racks, "elsewhere", "", None]) if racks else None
        return {"memberId": name, "instanceId": None, "rackId": rack, "topics": topics, "owned": {}, "generation": -1}

    def _add_instance_ids(self, members: list[dict[str, Any]]) -> None:
        share = self.random.choice([0.0, 0.0, 0.5, 1.0])
        instances = self._names("i", len(members))
        for member, instance in zip(members, instances, strict=True):
            if self.random.random() < share:
                member["instanceId"] = instance

    def _add_owned_partitions(self, case: Case) -> None:
        """Add random owned partitions: of unsubscribed topics, claimed by several members, or of other generations."""
        rng = self.random
        overlap_chance = rng.choice([0.0, 0.0, 0.3])
        generations = rng.choice([[3], [3], [3, 3, 2], [-1, 0, 5]])
        for name, topic in case["topics"].items():
            for partition in range(topic["partitions"]):
                for _ in range(1 + (rng.random() < overlap_chance) + (rng.random() < overlap_chance)):
                    if rng.random() < 0.85:
                        owned = rng.choice(case["members"])["owned"].setdefault(name, [])
                        if partition not in owned:
                            owned.append(partition)
        for member in case["members"]:
            member["generation"] = rng.choice(generations)

    def _join(self, case: Case) -> None:
        rng = self.random
        model = rng.choice(case["members"])
        used_ids = {member["memberId"] for member in case["members"]}
        name = next(name for name in self._member_names() if name not in used_ids)
        topics = list(model["topics"]) if rng.random() < 0.7 else self._subscription(case["topics"])
        racks = sorted({rack for topic in case["topics"].values() for at in topic.get("racks") or [] for rack in at})
        case["members"].append(self._member(name, topics, racks))

    def _member_names(self) -> Iterator[str]:
        while True:
            yield from self._names("c", 3)

    def _leave(self, case: Case) -> None:
        if len(case["members"]) > 1:
            case["members"].pop(self.random.randrange(len(case["members"])))

    def _resubscribe_one(self, case: Case) -> None:
        self.random.choice(case["members"])["topics"] = self._subscription(case["topics"])

    def _add_partitions(self, case: Case) -> None:
        topic = self.random.choice(list(case["topics"].values()))
        more = self.random.randint(1, 4)
        topic["partitions"] += more
        if topic.get("racks") is not None:
            topic["racks"] += [self._random_replica_racks(RACKS, 2) for _ in range(more)]

    def _remove_partitions(self, case: Case) -> None:
        """Create topics again, with fewer partitions or with an unknown number of partitions."""
        topic = self.random.choice(list(case["topics"].values()))
        topic["partitions"] = self.random.randint(0, topic["partitions"])
        if topic.get("racks") is not None:
            topic["racks"] = topic["racks"][: topic["partitions"]]

    def _empty_topic(self, case: Case) -> None:
        topic = self.random.choice(list(case["topics"].values()))
        if self.random.random() < 0.2:
            topic["partitions"] = 0
            if topic.get("racks") is not None:
                topic["racks"] = []
            for member in case["members"]:
                member["owned"] = {name: p for name, p in member["owned"].items() if case["topics"][name]["partitions"]}


def owns_missing_partition(case: Case) -> bool:
    """Return true if a member owns a partition that its topic does not have."""
    counts = {name: topic["partitions"] for name, topic in case["topics"].items()}
    return any(
        partition >= counts.get(name, 0) > 0
        for member in case["members"]
        for name, partitions in member["owned"].items()
        for partition in partitions
    )


def rounds(
    groups: RandomGroups, count: int, assign_batch: Callable[[list[Case]], list[Assignment | None]], *, width: int = 200
) -> int:
    """Compare ``count`` random groups in ``width`` parallel sequences of rebalances; return how many were compared.

    ``assign_batch`` compares a batch and returns each case's assignment, or None for an error, which ends the sequence.
    In the next case of a sequence, members own the last assignment. About every fifth case starts a new sequence.
    """
    done = 0
    batch = [groups.fresh() for _ in range(min(width, count))]
    while done < count:
        results = assign_batch(batch)
        done += len(batch)
        following = [
            groups.fresh() if answer is None or groups.random.random() < 0.2 else groups.after(case, answer)
            for case, answer in zip(batch, results, strict=True)
        ]
        batch = following[: count - done]
    return done
