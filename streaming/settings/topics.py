"""``[topics]``: names of the topics, and how they are created."""

from __future__ import annotations

import re
from typing import Final

from pydantic import Field, field_validator

from streaming.settings.section import Section

#: Kafka's longest topic name, less the longest of ours.
_LONGEST_PREFIX: Final = 249 - len("rebalance.membership-dlt")


class TopicSettings(Section):
    """Names of the topics, each behind the prefix, and how they are created (``[topics]``).

    The numbers have the limits of librdkafka, which creates the topics.
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
        """Return the topic of membership events."""
        return f"{self.prefix}rebalance.membership"

    @property
    def diffs(self) -> str:
        """Return the topic with one diff a round."""
        return f"{self.prefix}rebalance.diffs"

    @property
    def assignments(self) -> str:
        """Return the compacted topic with the latest assignment of each group."""
        return f"{self.prefix}rebalance.assignments"

    @property
    def dead_letters(self) -> str:
        """Return the topic of records that could not be used, with the reason."""
        return f"{self.prefix}rebalance.membership-dlt"

    @property
    def names(self) -> tuple[str, str, str, str]:
        """Return the four topics of membership events, diffs, assignments and dead letters."""
        return self.membership, self.diffs, self.assignments, self.dead_letters

    @property
    def episodes(self) -> str:
        """Return the topic of episodes: one key an episode, compacted, deleted after a time."""
        return f"{self.prefix}rebalance.episodes"

    @property
    def incidents(self) -> str:
        """Return the topic of incidents: one key an incident, compacted, deleted after a time."""
        return f"{self.prefix}rebalance.incidents"

    @property
    def signs(self) -> str:
        """Return the compacted topic with the newest heartbeat of each component."""
        return f"{self.prefix}rebalance.signs"

    @property
    def made(self) -> tuple[str, ...]:
        """Return the topics that the command ``topics`` shows and creates."""
        return *self.names, self.episodes, self.incidents, self.signs

    @property
    def ticks(self) -> str:
        """Return the topic of ticks, which the stream creates, writes and reads: a tick makes a batch run."""
        return f"{self.prefix}rebalance.ticks"
