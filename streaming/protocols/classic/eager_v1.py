"""Eager, first version: the coordinator itself assigns and answers JoinGroup with the share.

A heartbeat is answered with IllegalGeneration when the group rebalances. There are no instance ids, no member
ids told in advance, and a new strategy means changing the broker: the assignor works from cluster metadata
alone, without what members owned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignors.model import Share
from streaming.protocols.classic.eager import Eager, client_side
from streaming.protocols.classic.group import ClassicMember
from streaming.protocols.classic.machine import Classic
from streaming.protocols.classic.step import ClassicStep
from streaming.protocols.vocabulary import Setup


class EagerV1(Eager):
    """As eager, without SyncGroup, votes and instance ids."""

    coordinator_assigns = True
    static = False
    member_id_required = False

    def assign(self, step: ClassicStep, order: Sequence[str]) -> Mapping[str, Share]:
        """The coordinator runs the strategy, with the cluster's metadata as they are."""
        return client_side(step, order)

    def assignors(self, member: ClassicMember) -> tuple[str, ...]:
        """The broker's strategy, whatever clients say."""
        del member
        return self._default


def machine(setup: Setup) -> Classic:
    """The first eager protocol."""
    return Classic("eager-v1", setup, EagerV1(setup))
