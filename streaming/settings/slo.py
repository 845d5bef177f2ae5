"""``[[slo]]``: how much downtime and delay rebalances may cost a group."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pydantic import Field, field_validator

from streaming.settings.section import LONGEST_INTERVAL_MS, Section


class ServiceLevel(Section):
    """An objective for groups (``[[slo]]``); the first one that matches a group applies."""

    #: Regular expression for whole group ids.
    groups: str = ".*"
    #: Downtime of all partitions together in a day (UTC), ms.
    downtime_day_ms: int | None = Field(default=None, ge=1)
    #: Age of the oldest message that a rebalance delayed, ms.
    worst_delay_ms: int | None = Field(default=None, ge=1, le=LONGEST_INTERVAL_MS)

    @field_validator("groups")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
        return pattern


def service_level(levels: Iterable[ServiceLevel], group_id: str) -> ServiceLevel | None:
    """Return the first objective that matches a group; None: it has none."""
    return next((level for level in levels if re.fullmatch(level.groups, group_id)), None)
