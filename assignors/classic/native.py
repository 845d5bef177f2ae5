"""Native code's answers for the assignors here, where the package ``rebalance-kernel`` is installed.

It answers as the modules here do, which are the reference, and declines (None) what they refuse, ``range`` with
racks, and for the others groups that don't all subscribe alike or in which two claim one partition. A member that
keeps what it has gets the very share that it owned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignors.model import Assignment, Member, Topic

try:
    # Its names change with what they take: those of another release are not there.
    from rebalance_kernel import client_shares
except ImportError:

    def _declined(assignor: str, topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment | None:  # noqa: ARG001 - as the real one
        return None

    client_shares = _declined

__all__ = ["client_shares"]
