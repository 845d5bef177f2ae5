"""Sticky where subscriptions differ (``GeneralAssignmentBuilder``).

Goals, in order: everyone as balanced as subscriptions allow; members keep what they own and still subscribe to (in
matching racks); a free partition goes to the least loaded subscriber; what still is out of balance moves, back to
its owner of an older generation if it may, until no move brings two loads closer.

Java asks "is it balanced?" of every partition, at the cost of all of them. Here a topic knows the least load among
its subscribers (``loads``), so that a pass over the partitions compares two ints each: O(partitions) a pass and a
few wide bit operations a move, see docs/design/sticky.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from assignors.classic.free_general import assign_free
from assignors.classic.general_state import read_state
from assignors.classic.group import ClientGroup
from assignors.classic.owned import Owned
from assignors.classic.racks import Racks
from assignors.classic.rebalance_general import Rebalancer
from assignors.model import Member


def build(
    group: ClientGroup, members: Sequence[Member], owned: Owned, racks: Racks | None, *, withhold: bool
) -> list[dict[str, Sequence[int]]]:
    """The shares by place; ``members`` in map order.

    ``withhold`` leaves out what another member claims and its new one does not.
    """
    state = read_state(group, members, owned, racks)
    initializing = not any(state.loads)
    free = state.free()
    assign_free(state, free)
    Rebalancer(state, members).rebalance(free, initializing=initializing)
    return state.shares(owned, withhold=withhold)
