"""Random groups of the consumer protocol: possible states of a coordinator and their successors."""

from __future__ import annotations

import random

from tests.oracle.generator import Assignment, Case, Groups


class ConsumerGroups(Groups):
    """Random groups with topic ids; each member's ``owned`` is a target assignment, in which a partition has one owner.

    Args:
        equal: all members subscribe to the same topics (Kafka's homogeneous assignment builder).
        shrinking: see :class:`Groups`; impossible for a real coordinator, as a topic created again has another id.
    """

    def __init__(self, seed: int, *, equal: bool, shrinking: bool = False) -> None:
        super().__init__(seed, topic_ids=True, shrinking=shrinking)
        self.equal = equal

    def fresh(self) -> Case:
        return self._make_valid(super().fresh())

    def after(self, case: Case, assignment: Assignment) -> Case:
        return self._make_valid(super().after(case, assignment))

    def _make_valid(self, case: Case) -> Case:
        """Make a case valid: each partition has one owner, and in a homogeneous group all subscriptions are equal."""
        if self.equal:
            topics = self.random.choice(case["members"])["topics"]
            for member in case["members"]:
                member["topics"] = list(topics)
                self.random.shuffle(member["topics"])
        elif len({frozenset(member["topics"]) for member in case["members"]}) == 1:
            case["members"].append(self._member("one-more", [], []))
            case["members"][-1]["memberId"] += f"-{self.random.getrandbits(32)}"
        _one_owner(self.random, case, beyond=self.shrinking)
        return case


def _one_owner(rng: random.Random, case: Case, *, beyond: bool) -> None:
    owners: set[tuple[str, int]] = set()
    for member in rng.sample(case["members"], len(case["members"])):
        kept: dict[str, list[int]] = {}
        for name, partitions in member["owned"].items():
            mine = [p for p in partitions if (name, p) not in owners]
            if case["topics"][name]["partitions"] and not beyond:
                mine = [p for p in mine if p < case["topics"][name]["partitions"]]
            owners.update((name, p) for p in mine)
            if mine:
                kept[name] = mine
        member["owned"] = kept
