"""Native code's answers for ``range`` and ``uniform``, where the package ``rebalance-kernel`` is installed.

It answers as the modules here do, which are the reference, and declines (None) what they refuse and the groups
whose order only Java's own hash table tells. A member that keeps what it has gets the very share that it owned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignors.model import Assignment, Member, Topic

try:
    # Its names change with what they take: those of another release are not there.
    from rebalance_kernel import range_target, uniform_target
except ImportError:

    def _declined(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment | None:  # noqa: ARG001 - as the real ones
        return None

    range_target = uniform_target = _declined

__all__ = ["range_target", "uniform_target"]
