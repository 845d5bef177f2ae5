"""``[collect]``: which groups are seen, and how."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from streaming.settings.section import LONGEST_INTERVAL_MS, Section, changed


class CollectSettings(Section):
    """What the collector reads and publishes (``[collect]``)."""

    #: Its consumer group (behind the topic prefix): where its place is kept, as offsets. A second one waits for
    #: nothing: it takes over, and the first ends.
    group_id: str = "rebalance-monitor-collector"
    #: Regular expressions for whole group ids: only groups that one of these matches …
    include_groups: list[str] = Field(default=[".*"])
    #: … and none of these.
    exclude_groups: list[str] = Field(default=[])
    #: Brokers' logs with the group coordinators' reasons.
    coordinator_logs: list[Path] = Field(default=[])
    #: How often partition counts are asked for.
    metadata_interval_ms: int = Field(default=5000, ge=100, le=LONGEST_INTERVAL_MS)
    #: Where groups are seen: in ``__consumer_offsets``, or (polling) by asking their coordinators.
    by: Literal["offsets", "polling"] = "offsets"
    #: By polling: how often a group at rest is asked about …
    poll_interval_ms: int = Field(default=10_000, ge=100, le=LONGEST_INTERVAL_MS)
    #: … and one in flux; the states of all groups are listed half as often.
    poll_quick_ms: int = Field(default=500, ge=50, le=LONGEST_INTERVAL_MS)
    #: Requests to the brokers, all together; where they don't suffice, groups are asked about less often.
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
        """The same with what is given: other groups, another way to see them, more logs.

        Raises:
            InvalidSettings: a pattern is no regular expression, or logs are given for polling.
        """
        given = {
            "include_groups": include_groups,
            "exclude_groups": exclude_groups,
            "by": by,
            "coordinator_logs": [*self.coordinator_logs, *(coordinator_logs or ())],
        }
        return changed(self, "collect", **{name: value for name, value in given.items() if value})
