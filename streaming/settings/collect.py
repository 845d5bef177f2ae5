"""``[collect]``: which groups the collector sees, and how."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from streaming.settings.section import LONGEST_INTERVAL_MS, Section, changed


class CollectSettings(Section):
    """Settings of the collector (``[collect]``)."""

    #: Consumer group that has the collector's offsets, behind the topic prefix. A second collector takes over at
    #: once, and the first ends.
    group_id: str = "rebalance-monitor-collector"
    #: Regular expressions for whole group ids: only groups that one of these matches …
    include_groups: list[str] = Field(default=[".*"])
    #: … and none of these.
    exclude_groups: list[str] = Field(default=[])
    #: Paths to brokers' server.log, for rebalance reasons.
    coordinator_logs: list[Path] = Field(default=[])
    #: How often partition counts are requested.
    metadata_interval_ms: int = Field(default=5000, ge=100, le=LONGEST_INTERVAL_MS)
    #: Source of groups: ``__consumer_offsets``, or the Admin API (polling).
    by: Literal["offsets", "polling"] = "offsets"
    #: Polling: how often a stable group is described …
    poll_interval_ms: int = Field(default=10_000, ge=100, le=LONGEST_INTERVAL_MS)
    #: … and a rebalancing one. The states of all groups are listed half as often.
    poll_quick_ms: int = Field(default=500, ge=50, le=LONGEST_INTERVAL_MS)
    #: Most requests a second to all brokers; with too many groups each is described less often.
    poll_requests_per_second: float = Field(default=50, ge=1, le=100_000)

    @field_validator("include_groups", "exclude_groups")
    @classmethod
    def _compiles(cls, patterns: list[str]) -> list[str]:
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
        return patterns

    @field_validator("coordinator_logs")
    @classmethod
    def _are_paths(cls, paths: list[Path]) -> list[Path]:
        for path in paths:
            if "\0" in str(path):
                raise ValueError(f"{str(path)!r}: no file has such a name")
        return paths

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.by == "polling" and self.coordinator_logs:
            raise ValueError(
                "coordinator_logs: polling sees no generation that a line of a log could belong to; leave them "
                'out, or set by = "offsets"'
            )
        return self

    def narrowed(
        self,
        *,
        include_groups: list[str] | None = None,
        exclude_groups: list[str] | None = None,
        by: str | None = None,
        coordinator_logs: list[Path] | None = None,
    ) -> CollectSettings:
        """Return the settings with other groups, another source, or more logs.

        Raises:
            InvalidSettings: a pattern is no regular expression, or logs are given for polling.
        """
        changes = {
            "include_groups": include_groups,
            "exclude_groups": exclude_groups,
            "by": by,
            "coordinator_logs": [*self.coordinator_logs, *(coordinator_logs or ())],
        }
        return changed(self, "collect", **{name: value for name, value in changes.items() if value})
