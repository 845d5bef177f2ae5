"""Random groups of the consumer protocol: possible states of a coordinator and their successors."""

import random

from tests.oracle.generator import Assignment, Case, RandomGroups


class ConsumerGroups(RandomGroups):
    """Random groups with topic ids; each member's ``owned`` is a target assignment, in which a partition has one owner.

    Args:
        equal: all members subscribe to the same topics (Kafka's homogeneous assignment builder).
        can_shrink_topics: see :class:`Groups`; impossible for a real coordinator, as a new topic has another id.
    """

    def __init__(self, seed: int, *, equal: bool, can_shrink_topics: bool = False) -> None:
        super().__init__(seed, topic_ids=True, can_shrink_topics=can_shrink_topics)
        self.equal = equal

    def fresh(self) -> Case:
        return self._make_case_valid(super().fresh())

    def after(self, case: Case, assignment: Assignment) -> Case:
        return self._make_case_valid(super().after(case, assignment))

    def _make_case_valid(self, case: Case) -> Case:
        """Make a case valid: each partition has one owner, and in a homogeneous group all subscriptions are equal."""
        if self.equal:
            topics = self.random.choice(case["members"])["topics"]
            for member in case["members"]:
                member["topics"] = list(topics)
                self.random.shuffle(member["topics"])
        elif len({frozenset(member["topics"]) for member in case["members"]}) == 1:
            case["members"].append(self._member("one-more", [], []))
            case["members"][-1]["memberId"] += f"-{self.random.getrandbits(32)}"
        _remove_second_owners(self.random, case, beyond=self.can_shrink_topics)
        return case


def _remove_second_owners(rng: random.Random, case: Case, *, beyond: bool) -> None:
    owners: set[tuple[str, int]] = set()
    for member in rng.sample(case["members"], len(case["members"])):
        kept: dict[str, list[int]] = {}
        for name, partitions in member["owned"].items():
            free_partitions = [p for p in partitions if (name, p) not in owners]
            if case["topics"][name]["partitions"] and not beyond:
                free_partitions = [p for p in free_partitions if p < case["topics"][name]["partitions"]]
            owners.update((name, p) for p in free_partitions)
            if free_partitions:
                kept[name] = free_partitions
        member["owned"] = kept
