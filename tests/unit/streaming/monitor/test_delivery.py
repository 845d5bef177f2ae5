"""Diffs compared with the callbacks of simulated consumers that do not receive some generations."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.records.diffs import Diff
from streaming.records.events import UNDELIVERED, Event, Evidence, Partitions
from tests.support.histories import Log, diffs, play

COOPERATIVE = "cooperative-sticky"
PARTITIONS = range(6)
OwnedPartitions = dict[str, set[int]]


class Consumers:
    """Members of a classic group, and the partitions that each member owns in truth.

    Attributes:
        owned: partitions that each member owns.
        callbacks: revoked and assigned partitions, by generation and member that received this generation.
        undelivered: generations that some member did not receive, although they changed its partitions and it is
            in the next generation as well.
        failed: the previous generation, if no member received it.
        missed_members: members whose partitions the failed generation changed.
    """

    def __init__(self, seed: int, protocol: str) -> None:
        self.random = Random(seed)
        self.protocol = protocol
        self.log = Log()
        self.owned: OwnedPartitions = {}
        self.callbacks: dict[int, dict[str, tuple[set[int], set[int]]]] = {}
        self.before: dict[int, OwnedPartitions] = {}
        self.undelivered: set[int] = set()
        self.failed: int | None = None
        self.missed_members: set[str] = set()

    def play(self, generations: int) -> list[Diff]:
        """Return the diffs of this many generations; every member receives the last generation."""
        events = [self.log.topics(t=len(PARTITIONS))]
        events += [self._generation(number, is_last=number == generations) for number in range(1, generations + 1)]
        return diffs(play(events)[1])

    def _generation(self, generation: int, *, is_last: bool) -> Event:
        self._membership()
        joined = {name: set(owned_numbers) for name, owned_numbers in self.owned.items()}
        shares = self._assign()
        self.before[generation] = joined
        evidence = []
        if self.failed is not None and self.missed_members & joined.keys():
            self.undelivered.add(self.failed)
        if self.protocol != COOPERATIVE and self.failed is not None:
            reason = f"generation {self.failed} was not delivered: Error"
            evidence = [Evidence(source="log", reason=reason, kind=UNDELIVERED, generation=self.failed)]
        self.failed = None
        if is_last or generation == 1 or self.random.random() < 0.5:
            self._deliver_assignment(generation, shares)
        else:
            self.failed = generation
            self.missed_members = {name for name, owned_numbers in joined.items() if shares[name] != owned_numbers}
        return self.log.observe(
            generation,
            {name: _share_of(owned_numbers) for name, owned_numbers in shares.items()},
            protocol=self.protocol,
            owned={name: _share_of(owned_numbers) for name, owned_numbers in joined.items()}
            if self.protocol == COOPERATIVE
            else {},
            joined_at=generation - 1 if self.protocol == COOPERATIVE else -1,
            evidence=evidence,
        )

    def _membership(self) -> None:
        if not self.owned or self.random.random() < 0.4:
            self.owned[f"c{self.random.randrange(10**9)}"] = set()
        elif len(self.owned) > 1 and self.random.random() < 0.3:
            del self.owned[self.random.choice([*self.owned])]

    def _assign(self) -> OwnedPartitions:
        """Return a random assignment; a cooperative member gets only partitions that it owns or that have no owner."""
        members = [*self.owned]
        wanted = {number: self.random.choice(members) for number in PARTITIONS}
        owners = {number: name for name, owned_numbers in self.owned.items() for number in owned_numbers}
        return {
            member: {
                number
                for number, owner in wanted.items()
                if owner == member and (self.protocol != COOPERATIVE or owners.get(number, member) == member)
            }
            for member in members
        }

    def _deliver_assignment(self, generation: int, shares: OwnedPartitions) -> None:
        self.callbacks[generation] = {
            name: (owned_numbers - shares[name], shares[name] - owned_numbers)
            for name, owned_numbers in self.owned.items()
        }
        self.owned = shares


def _share_of(owned_numbers: set[int]) -> Partitions:
    return {"t": sorted(owned_numbers)} if owned_numbers else {}


def _numbers(share: Partitions) -> set[int]:
    return {*share.get("t", ())}


@given(
    seed=st.integers(0, 10**9),
    protocol=st.sampled_from((COOPERATIVE, "range", "roundrobin", "sticky")),
    generations=st.integers(2, 14),
)
@settings(max_examples=60)
def test_diffs_equal_the_callbacks_of_delivered_generations(seed: int, protocol: str, generations: int) -> None:
    consumers = Consumers(seed, protocol)
    diffs = {diff.generation: diff for diff in consumers.play(generations)}
    assert len(diffs) == generations
    for generation, diff in diffs.items():
        owned = {name: _numbers(member.owned) for name, member in diff.members.items() if member.present}
        assert owned == consumers.before[generation]
        for name, callback in consumers.callbacks.get(generation, {}).items():
            member = diff.members[name]
            assert (_numbers(member.revoked), _numbers(member.assigned)) == callback
    corrected_generations = {diff.undelivered.generation for diff in diffs.values() if diff.undelivered}
    assert consumers.undelivered <= corrected_generations
    assert corrected_generations.isdisjoint(consumers.callbacks)
