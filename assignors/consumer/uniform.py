"""``uniform`` (UniformAssignor, the broker's default): balanced first, sticky second.

Only a chooser: native code answers where it is installed; else members that all subscribe to the same names go to
``uniform_homogeneous``, others to ``uniform_heterogeneous``. A name without metadata counts here
(``ModernGroup.subscriptionType``), and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignors.consumer import native, uniform_heterogeneous, uniform_homogeneous
from assignors.consumer.group import resolve
from assignors.model import Assignment, Member, Topic
from assignors.registry import RebalanceProtocol

NAME = "uniform"
#: The coordinator assigns: no client protocol carries it.
SUPPORTED_PROTOCOLS: tuple[RebalanceProtocol, ...] = ()


def assign(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
    """The new target assignment of every member.

    Raises:
        BadInput: a missing or malformed ``topicId``, a member listed twice, an owned partition that does not
            exist or that two members own.
    """
    answer = native.uniform_target(topics, members)
    return plainly(topics, members) if answer is None else answer


def plainly(topics: Mapping[str, Topic], members: Sequence[Member]) -> Assignment:
    """As :func:`assign`, without native code."""
    group = resolve(topics, members)
    if _homogeneous(members):
        return uniform_homogeneous.assign(group, members)
    return uniform_heterogeneous.assign(group, members)


def _homogeneous(members: Sequence[Member]) -> bool:
    first = members[0].topics if members else ()
    names = set(first)
    return all(
        member.topics is first or member.topics == first or set(member.topics) == names for member in members
    )
