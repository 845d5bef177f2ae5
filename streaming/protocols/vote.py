"""Vote of the members for a classic group's assignor, and the rebalance protocol that a client uses.

Sources: ``ClassicGroup.selectProtocol``, ``ClassicGroupMember.vote``, ``ConsumerCoordinator``'s constructor.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from assignors import registry
from assignors.java import in_hash_order
from streaming.protocols.vocabulary import InconsistentGroupProtocol


def select(lists: Mapping[str, Sequence[str]]) -> str:
    """Return the assignor that wins the vote of a classic group, from ``{member: its assignors in order}``.

    Candidates are the assignors that all members support. Each member votes for the first candidate in its list. The
    candidate with the most votes wins; in a tie, the first one in HashMap order wins. Without candidates,
    InconsistentGroupProtocol is raised with each member's list.
    """
    first = next(iter(lists.values()))
    if all(names == first for names in lists.values()):
        return first[0]
    candidates = set(first).intersection(*lists.values())
    if not candidates:
        named = "; ".join(f"{member}: {', '.join(names)}" for member, names in lists.items())
        raise InconsistentGroupProtocol(f"assignors: the members have no assignor in common ({named})")
    return most_votes(next(name for name in names if name in candidates) for names in lists.values())


def most_votes(votes: Iterable[str]) -> str:
    """Return the name with the most votes; in a tie, the first one in HashMap order (``Stream.max``)."""
    counted = Counter(votes)
    most = max(counted.values())
    tied_assignors = [name for name, count in counted.items() if count == most]
    if len(tied_assignors) == 1:
        return tied_assignors[0]
    return next(name for name in in_hash_order(list(counted)) if name in tied_assignors)


@cache
def cooperative(assignors: tuple[str, ...]) -> bool:
    """Return True if a client with these assignors keeps its partitions during a rebalance.

    Clients use the highest protocol that *all* their assignors support. During an upgrade, with
    ``[cooperative-sticky, range]``, a client still gives up all its partitions before it joins.
    """
    builtins = {name: registry.find("classic", name) for name in registry.names("classic")}  # without custom assignors
    return all(name in builtins and "COOPERATIVE" in builtins[name].supported_protocols for name in assignors)
