"""Settings: defaults, then a TOML file, then the environment (``REBALANCE_MONITOR_…``), then the command line."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from streaming.settings.connection import KafkaSettings
from streaming.settings.notify import NotifyTarget
from streaming.settings.section import LONGEST_INTERVAL_MS, InvalidSettings, Pattern, Section, changed, names, validated

_ENVIRONMENT: Final = "REBALANCE_MONITOR_"

#: A file of settings has a few dozen lines.
_MAX_FILE: Final = 2**20
#: Kafka's longest topic name, less the longest of ours.
_LONGEST_PREFIX: Final = 249 - len("rebalance.membership-dlt")


class TopicName:
    """Name of a topic behind the prefix: ``settings.topics.diffs``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, topics: TopicSettings, _: type[TopicSettings]) -> str:
        return f"{topics.prefix}{self._name}"


class TopicSettings(Section):
    """Names of the topics, each behind the prefix, and how they are created (``[topics]``).

    The numbers have the limits of librdkafka, which creates the topics.
    """

    model_config = ConfigDict(ignored_types=(TopicName,))

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

    membership = TopicName("rebalance.membership")
    #: One diff a round.
    diffs = TopicName("rebalance.diffs")
    #: The latest assignment of each group, compacted.
    assignments = TopicName("rebalance.assignments")
    #: Records that could not be used, with the reason.
    dead_letters = TopicName("rebalance.membership-dlt")
    #: One key an episode or incident, compacted, deleted after a time.
    episodes = TopicName("rebalance.episodes")
    incidents = TopicName("rebalance.incidents")
    #: The newest heartbeat of each component, compacted.
    signs = TopicName("rebalance.signs")
    #: The stream creates, writes and reads it: a tick makes a batch run.
    ticks = TopicName("rebalance.ticks")

    @property
    def names(self) -> tuple[str, str, str, str]:
        """Return the four topics of membership events, diffs, assignments and dead letters."""
        return self.membership, self.diffs, self.assignments, self.dead_letters

    @property
    def made(self) -> tuple[str, ...]:
        """Return the topics that the command ``topics`` shows and creates."""
        return *self.names, self.episodes, self.incidents, self.signs


class CollectSettings(Section):
    """Settings of the collector (``[collect]``)."""

    #: Consumer group that has the collector's offsets, behind the topic prefix. A second collector takes over at
    #: once, and the first ends.
    group_id: str = "rebalance-monitor-collector"
    #: Regular expressions for whole group ids: only groups that one of these matches …
    include_groups: list[Pattern] = Field(default=[".*"])
    #: … and none of these.
    exclude_groups: list[Pattern] = Field(default=[])
    #: Paths to brokers' server.log, for rebalance reasons.
    coordinator_logs: list[Path] = Field(default=[])
    #: How often partition counts are requested.
    metadata_interval_ms: int = Field(default=5000, ge=100, le=LONGEST_INTERVAL_MS)
    #: Seconds between two samples of the offsets of a group at rest; 0: only groups in flux are sampled.
    progress_rest_seconds: int = Field(default=60, ge=0, le=86_400)
    #: Whether the collector's metrics have the lag of groups.
    lag_metrics: bool = True
    #: Source of groups: ``__consumer_offsets``, or the Admin API (polling).
    by: Literal["offsets", "polling"] = "offsets"
    #: Polling: how often a stable group is described …
    poll_interval_ms: int = Field(default=10_000, ge=100, le=LONGEST_INTERVAL_MS)
    #: … and a rebalancing one. The states of all groups are listed half as often.
    poll_quick_ms: int = Field(default=500, ge=50, le=LONGEST_INTERVAL_MS)
    #: Most requests a second to all brokers; with too many groups each is described less often.
    poll_requests_per_second: float = Field(default=50, ge=1, le=100_000)

    @field_validator("coordinator_logs")
    @classmethod
    def _are_paths(cls, paths: list[Path]) -> list[Path]:
        if any("\0" in str(path) for path in paths):
            raise ValueError("no file has such a name")
        return paths

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.by == "polling" and self.coordinator_logs:
            raise ValueError(
                "coordinator_logs: polling sees no generation that a line of a log could belong to; leave them "
                'out, or set by = "offsets"'
            )
        return self

    def narrowed(self, *, coordinator_logs: list[Path] | None = None, **changes: Any) -> CollectSettings:
        """Return the settings with other groups or another source (None: unchanged), or more logs."""
        requested = {name: value for name, value in changes.items() if value}
        logs = [*self.coordinator_logs, *(coordinator_logs or ())]
        return changed(self, "collect", coordinator_logs=logs, **requested)


class StreamSettings(Section):
    """Settings of the Spark job's outputs (``[stream]``)."""

    #: Whether rounds are grouped into episodes.
    episodes: bool = True
    #: How long a group is quiet before its episode ends.
    episode_quiet_ms: int = Field(default=120_000, ge=1000, le=LONGEST_INTERVAL_MS)
    #: So many rebalances without progress make an episode a storm.
    episode_storm_turns: int = Field(default=3, ge=2, le=1000)
    #: Observed rounds of so many partitions at most are computed again, and compared; 0: none is.
    expected_partitions: int = Field(default=1000, ge=0, le=1_000_000)
    #: Members that diffs list: all; those that changed; or, with ``auto``, those that changed in groups of more
    #: than 100 members, and all members of other groups.
    diffs: Literal["auto", "all", "changed"] = "auto"


class IncidentSettings(Section):
    """Thresholds of incidents (``[incidents]``)."""

    #: A condition that returns within this time reopens its incident.
    reopen_ms: int = Field(default=1_800_000, ge=0, le=LONGEST_INTERVAL_MS)
    #: A member that owns more than this many fair shares is a skew.
    skew: float = Field(default=2.0, ge=1.0, le=1e6)
    #: So often a member exceeds max.poll.interval.ms …
    poll_timeouts: int = Field(default=2, ge=1, le=16)
    #: … within so long.
    poll_timeouts_within_ms: int = Field(default=3_600_000, ge=1000, le=LONGEST_INTERVAL_MS)
    #: A rebalance that lasts longer is stuck.
    rebalance_stuck_ms: int = Field(default=60_000, ge=1000, le=LONGEST_INTERVAL_MS)


class HeartbeatSettings(Section):
    """Heartbeats of the components, and when a component is late (``[signs]``)."""

    #: How often ``collect`` and ``stream`` write a heartbeat.
    every_ms: int = Field(default=5000, ge=100, le=60_000)
    #: ``serve`` and ``watch`` report a component as silent after this time without a heartbeat …
    silent_after_ms: int = Field(default=20_000, ge=100, le=86_400_000)
    #: … and as behind, when events of this age have not passed through it.
    behind_after_ms: int = Field(default=60_000, ge=100, le=86_400_000)
    #: A component that is gone is forgotten after this time, if another of its kind is alive.
    forget_after_ms: int = Field(default=86_400_000, ge=0)


class ServiceLevel(Section):
    """An objective for groups (``[[slo]]``); the first one that matches a group applies."""

    #: Regular expression for whole group ids.
    groups: Pattern = ".*"
    #: Downtime of all partitions together in a day (UTC), ms.
    downtime_day_ms: int | None = Field(default=None, ge=1)
    #: Age of the oldest message that a rebalance delayed, ms.
    worst_delay_ms: int | None = Field(default=None, ge=1, le=LONGEST_INTERVAL_MS)


def service_level(levels: Iterable[ServiceLevel], group_id: str) -> ServiceLevel | None:
    """Return the first objective that matches a group; None: it has none."""
    return next((level for level in levels if re.fullmatch(level.groups, group_id)), None)


class Settings(BaseSettings):
    """All settings of one process."""

    model_config = SettingsConfigDict(
        env_prefix=_ENVIRONMENT, env_nested_delimiter="__", extra="forbid", hide_input_in_errors=True
    )

    kafka: KafkaSettings = KafkaSettings()
    topics: TopicSettings = TopicSettings()
    collect: CollectSettings = CollectSettings()
    stream: StreamSettings = StreamSettings()
    incidents: IncidentSettings = IncidentSettings()
    signs: HeartbeatSettings = HeartbeatSettings()
    notify: list[NotifyTarget] = Field(default=[])
    slo: list[ServiceLevel] = Field(default=[])

    @classmethod
    def settings_customise_sources(cls, *_: Any, **sources: Any) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources: the environment wins over the file."""
        return sources["env_settings"], sources["init_settings"]

    @property
    def collector_id(self) -> str:
        """Return the collector's consumer group and transactional id."""
        return self.topics.prefix + self.collect.group_id

    def default_history(self, cluster_id: str) -> Path:
        """Return the path of the history of ``serve``, in the user's state folder, by cluster and prefix."""
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        name = "-".join(part for part in ("history", cluster_id, self.topics.prefix) if part)
        return state / "kafka-rebalance-monitor" / f"{name}.sqlite"


def as_toml(settings: Settings) -> Iterator[str]:
    """Yield every setting in force, a line each; secrets are masked."""
    for table, content in settings.model_dump(mode="json", exclude_none=True).items():
        for entries in content if isinstance(content, list) else [content]:
            yield f"[[{table}]]" if isinstance(content, list) else f"[{table}]"
            for name, value in entries.items():
                # JSON's strings, numbers and lists are TOML's; what can't be printed is escaped in the way of both.
                text = json.dumps(value, ensure_ascii=False)
                yield f"{name} = {text if text.isprintable() else json.dumps(value)}"
            yield ""


def load(
    config: Path | None = None, *, bootstrap_servers: str | None = None, topic_prefix: str | None = None
) -> Settings:
    """Load the settings of a process; the command line wins.

    Raises:
        InvalidSettings: the file is missing or no TOML, or settings are unknown or of the wrong type; the
            message names all of them.
    """
    if strange := list(_strange_variables()):
        raise InvalidSettings("; ".join(strange))
    values = {} if config is None else _read(config)
    try:
        settings = validated(Settings, values)
    except (SettingsError, RecursionError) as error:  # pydantic's text has no value, which may be secret
        raise InvalidSettings(f"environment: {error}; lists and tables are written as JSON") from error
    if bootstrap_servers is not None:
        settings.kafka = changed(settings.kafka, "kafka", bootstrap_servers=bootstrap_servers)
    if topic_prefix is not None:
        settings.topics = changed(settings.topics, "topics", prefix=topic_prefix)
    return settings


def _read(config: Path) -> dict[str, Any]:
    try:
        with config.open(encoding="utf-8") as file:
            text = file.read(_MAX_FILE + 1)
        if len(text) > _MAX_FILE:
            raise InvalidSettings(f"--config {config}: longer than {_MAX_FILE} characters, the limit")
        return tomllib.loads(text)
    except OSError as error:
        raise InvalidSettings(f"--config {config}: {os.strerror(error.errno or 0)}") from error
    except (ValueError, RecursionError) as error:  # no UTF-8, no TOML, or nested too deep
        raise InvalidSettings(f"--config {config}: {error}") from error


def _strange_variables() -> Iterator[str]:
    """Yield what is wrong with variables that name an unknown table, or no table.

    Others of our prefix are left alone: Kubernetes sets some for a service of this name, never with ``__``.
    """
    tables = {name: names(Settings, [name]) for name in Settings.model_fields}
    for name in sorted(name for name in os.environ if name.upper().startswith(_ENVIRONMENT)):
        table, nested, _ = name[len(_ENVIRONMENT) :].lower().partition("__")
        if nested and table not in tables:
            guess = get_close_matches(table, tables, n=1)
            yield f"environment {name}: no table {table!r}; " + (
                f"did you mean {guess[0]}?" if guess else f"known are {', '.join(tables)}"
            )
        elif not nested:
            for right in (right for right, settings in tables.items() if table in settings):
                yield f"environment {name}: has no effect; write {f'{_ENVIRONMENT}{right}__{table}'.upper()}"
