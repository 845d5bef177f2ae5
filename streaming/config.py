"""Settings: defaults, then a TOML file, then the environment (``REBALANCE_MONITOR_…``), then the command line."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from assignors.errors import BadInput
from streaming.connection import KafkaSettings

M = TypeVar("M", bound=BaseModel)


class InvalidSettings(BadInput):
    """A setting is unknown or has the wrong type."""


class TopicSettings(BaseModel):
    """Names of the topics (``[topics]``): the prefix stands literally before each name."""

    model_config = ConfigDict(extra="forbid")

    prefix: str = ""
    partitions: int = 4
    replication_factor: int = -1

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
    def ticks(self) -> str:
        """The stream's own alarm clock: a record makes a batch run. The stream makes and reads it."""
        return f"{self.prefix}rebalance.ticks"


class CollectSettings(BaseModel):
    """What the collector reads and publishes (``[collect]``)."""

    model_config = ConfigDict(extra="forbid")

    #: Its consumer group (behind the topic prefix): where its place is kept, as offsets. A second one waits for
    #: nothing: it takes over, and the first ends.
    group_id: str = "rebalance-monitor-collector"
    #: Regular expressions for whole group ids: only groups that one of these matches …
    include_groups: list[str] = [".*"]
    #: … and none of these.
    exclude_groups: list[str] = []
    #: Brokers' logs with the group coordinators' reasons.
    coordinator_logs: list[Path] = []
    #: How often partition counts are asked for.
    metadata_interval_ms: int = Field(default=5000, ge=100)

    @field_validator("include_groups", "exclude_groups")
    @classmethod
    def _compiles(cls, patterns: list[str]) -> list[str]:
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
        return patterns


class Settings(BaseSettings):
    """All settings of one process."""

    model_config = SettingsConfigDict(
        env_prefix="REBALANCE_MONITOR_", env_nested_delimiter="__", extra="forbid", hide_input_in_errors=True
    )

    kafka: KafkaSettings = KafkaSettings()
    topics: TopicSettings = TopicSettings()
    collect: CollectSettings = CollectSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment wins over what the constructor was given from the file."""
        del settings_cls, dotenv_settings, file_secret_settings
        return env_settings, init_settings


def load(
    config: Path | None = None, *, bootstrap_servers: str | None = None, topic_prefix: str | None = None
) -> Settings:
    """The settings of a process; what the command line gives wins.

    Raises:
        InvalidSettings: the file is missing or no TOML, or a setting is unknown; the message names it.
    """
    values: dict[str, Any] = {}
    if config is not None:
        try:
            values = tomllib.loads(config.read_text())
        except OSError as error:
            raise InvalidSettings(f"--config {config}: {os.strerror(error.errno or 0)}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidSettings(f"--config {config}: {error}") from error
    settings = validated(Settings, values)
    if bootstrap_servers is not None:
        settings.kafka.bootstrap_servers = bootstrap_servers
    if topic_prefix is not None:
        settings.topics.prefix = topic_prefix
    return settings


def validated(model: type[M], values: dict[str, Any]) -> M:
    """The settings in ``values``.

    Raises:
        InvalidSettings: one is unknown or has the wrong type; the message names it.
    """
    try:
        return model(**values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidSettings(f"setting {where}: {first['msg'].removeprefix('Value error, ')}") from error
