"""``[topics]``: what the topics are called, and how they are made."""

from __future__ import annotations

import re
from typing import Final

from pydantic import Field, field_validator

from streaming.settings.section import Section

#: What Kafka leaves of a topic's name to the prefix, behind which the longest of ours stands.
_LONGEST_PREFIX: Final = 249 - len("rebalance.membership-dlt")


class TopicSettings(Section):
    """Names of the topics (``[topics]``): the prefix stands literally before each name.

    The numbers are bounded as in librdkafka, which makes the topics.
    """

    prefix: str = Field(default="", max_length=_LONGEST_PREFIX)
    partitions: int = Field(default=4, ge=1, le=100_000)
    #: How long episodes and incidents are kept in their topics after their last change (``retention.ms``).
    episodes_keep_days: int = Field(default=90, ge=1, le=36_500)
    #: -1: the brokers' default.replication.factor.
    replication_factor: int = Field(default=-1, ge=-1, le=10_000)

    @field_validator("prefix")
    @classmethod
    def _is_a_name(cls, prefix: str) -> str:
        if re.fullmatch(r"[a-zA-Z0-9._-]*", prefix) is None:
            raise ValueError(f"{prefix!r}: Kafka takes letters, digits, '.', '_' and '-' in topic names")
        return prefix

    @property
    def membership(self) -> str:
        """Membership events."""
        return f"{self.prefix}rebalance.membership"

    @property
    def diffs(self) -> str:
        """One diff a round."""
        return f"{self.prefix}rebalance.diffs"

    @property
    def assignments(self) -> str:
        """Latest assignment of each group, compacted."""
        return f"{self.prefix}rebalance.assignments"

    @property
    def dead_letters(self) -> str:
        """What could not be used, with the reason."""
        return f"{self.prefix}rebalance.membership-dlt"

    @property
    def names(self) -> tuple[str, str, str, str]:
        """The four topics that the monitor's records are in."""
        return self.membership, self.diffs, self.assignments, self.dead_letters

    @property
    def episodes(self) -> str:
        """Rounds that belong together, one key an episode, compacted and kept for a time."""
        return f"{self.prefix}rebalance.episodes"

    @property
    def incidents(self) -> str:
        """What somebody should look at, one key an incident, compacted and kept for a time."""
        return f"{self.prefix}rebalance.incidents"

    @property
    def signs(self) -> str:
        """The newest sign of life of each part, compacted."""
        return f"{self.prefix}rebalance.signs"

    @property
    def made(self) -> tuple[str, ...]:
        """The topics that the command ``topics`` shows and makes."""
        return *self.names, self.episodes, self.incidents, self.signs

    @property
    def ticks(self) -> str:
        """The stream's own alarm clock: a record makes a batch run. The stream makes and reads it."""
        return f"{self.prefix}rebalance.ticks"
