"""All settings: defaults, overridden by a TOML file, the environment (``REBALANCE_MONITOR_…``) and the command line."""

import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from streaming.settings import section
from streaming.settings.connection import KafkaSettings
from streaming.settings.notify import NotifyTarget
from streaming.settings.section import LONGEST_INTERVAL_MS, InvalidSettings, Pattern, Section, changed, suggestion

_ENVIRONMENT: Final = "REBALANCE_MONITOR_"

#: Largest size of a settings file; a usual file has a few dozen lines.
_MAX_FILE_CHARACTERS: Final = 2**20
_CLUSTER_NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*")
#: Longest topic prefix: the length of Kafka's longest topic name, less that of the monitor's longest topic name.
_MAX_PREFIX_CHARACTERS: Final = 249 - len("rebalance.membership-dlt")


class TopicName:
    """Descriptor that returns the name of a topic with its prefix, as in ``settings.topics.diffs``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, topics: "TopicSettings", _: "type[TopicSettings]") -> str:
        return f"{topics.prefix}{self._name}"


def _check_prefix(prefix: str) -> str:
    if re.fullmatch(r"[a-zA-Z0-9._-]*", prefix) is None:
        raise ValueError(f"{prefix!r}: Kafka takes letters, digits, '.', '_' and '-' in topic names")
    return prefix


TopicPrefix = Annotated[str, Field(max_length=_MAX_PREFIX_CHARACTERS), AfterValidator(_check_prefix)]


class TopicSettings(Section):
    """Names of the monitor's topics, each with the prefix, and the parameters of their creation (``[topics]``).

    Limits of the numbers are those of librdkafka, which creates the topics.
    """

    model_config = ConfigDict(ignored_types=(TopicName,))

    prefix: TopicPrefix = ""
    partitions: int = Field(default=4, ge=1, le=100_000)
    #: Days for which episodes and incidents stay in their topics after their last change (``retention.ms``).
    episodes_keep_days: int = Field(default=90, ge=1, le=36_500)
    #: Replication factor of the topics; -1: the brokers' default.replication.factor.
    replication_factor: int = Field(default=-1, ge=-1, le=10_000)

    membership = TopicName("rebalance.membership")
    #: One diff per round.
    diffs = TopicName("rebalance.diffs")
    #: The latest assignment of each group, compacted.
    assignments = TopicName("rebalance.assignments")
    #: Records that could not be processed, each with the reason.
    dead_letters = TopicName("rebalance.membership-dlt")
    #: One key per episode or incident; compacted, and deleted after ``episodes_keep_days``.
    episodes = TopicName("rebalance.episodes")
    incidents = TopicName("rebalance.incidents")
    #: The newest heartbeat of each component, compacted.
    signs = TopicName("rebalance.signs")
    #: Ticks, each of which starts a batch of the stream; the stream itself creates, writes and reads this topic.
    ticks = TopicName("rebalance.ticks")

    @property
    def names(self) -> tuple[str, str, str, str]:
        """Return the names of the topics of membership events, diffs, assignments and dead letters."""
        return self.membership, self.diffs, self.assignments, self.dead_letters

    @property
    def made(self) -> tuple[str, ...]:
        """Return the names of the topics that the command ``topics`` shows and creates."""
        return *self.names, self.episodes, self.incidents, self.signs


class ClusterSettings(KafkaSettings):
    """A further cluster of ``serve`` (``[[clusters]]``): the settings of ``[kafka]`` for it, and its topic prefix."""

    topic_prefix: TopicPrefix = ""


class CollectSettings(Section):
    """Settings of the collector (``[collect]``)."""

    #: Consumer group of the collector's offsets, to which the topic prefix is added. If a second collector starts with
    #: the same group, it takes over at once, and the first collector ends.
    group_id: str = "rebalance-monitor-collector"
    #: Regular expressions for whole group ids; only groups that match one of them are collected.
    include_groups: list[Pattern] = Field(default=[".*"])
    #: Regular expressions for whole group ids; groups that match one of them are not collected.
    exclude_groups: list[Pattern] = Field(default=[])
    #: Paths to brokers' server.log files, which contain reasons of rebalances.
    coordinator_logs: list[Path] = Field(default=[])
    #: Time between two requests for partition counts.
    metadata_interval_ms: int = Field(default=5000, ge=100, le=LONGEST_INTERVAL_MS)
    #: Seconds between two samples of a stable group's offsets; 0: only rebalancing groups are sampled.
    progress_rest_seconds: int = Field(default=60, ge=0, le=86_400)
    #: True if the collector's metrics include the lag of groups.
    lag_metrics: bool = True
    #: Source of groups: ``__consumer_offsets``, or the Admin API (polling).
    by: Literal["offsets", "polling"] = "offsets"
    #: Polling: time between two DescribeGroups requests for a stable group.
    poll_interval_ms: int = Field(default=10_000, ge=100, le=LONGEST_INTERVAL_MS)
    #: Polling: time between two DescribeGroups requests for a rebalancing group. ListGroups is sent half as often.
    poll_quick_ms: int = Field(default=500, ge=50, le=LONGEST_INTERVAL_MS)
    #: Largest number of requests per second to all brokers; with too many groups, each group is described less often.
    poll_requests_per_second: float = Field(default=50, ge=1, le=100_000)

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if self.by == "polling" and self.coordinator_logs:
            raise ValueError(
                'coordinator_logs: have no effect with by = "polling", which sees no generations; leave them out, '
                'or set by = "offsets"'
            )
        return self

    def narrowed_to_groups(self, *, coordinator_logs: list[Path] | None = None, **changes: Any) -> Self:
        """Return a copy of the settings with these values (empty: unchanged), and with additional coordinator logs."""
        requested = {name: value for name, value in changes.items() if value}
        logs = [*self.coordinator_logs, *(coordinator_logs or ())]
        return changed(self, "collect", coordinator_logs=logs, **requested)


class StreamSettings(Section):
    """Settings of the Spark job's outputs (``[stream]``)."""

    #: True if the stream combines rounds into episodes.
    episodes: bool = True
    #: Time for which a group must be stable before its episode ends.
    episode_quiet_ms: int = Field(default=120_000, ge=1000, le=LONGEST_INTERVAL_MS)
    #: Number of rebalances without progress from which on an episode is a storm.
    episode_storm_turns: int = Field(default=3, ge=2, le=1000)
    #: Observed rounds of at most this many partitions are computed again and compared; 0 turns this off.
    expected_partitions: int = Field(default=1000, ge=0, le=1_000_000)
    #: Members in diffs: all members; only changed members; or, with ``auto``, only changed members in groups of more
    #: than 100 members, and all members in other groups.
    diffs: Literal["auto", "all", "changed"] = "auto"


class IncidentSettings(Section):
    """Thresholds of incidents (``[incidents]``)."""

    #: Time within which a condition that returns reopens its incident.
    reopen_ms: int = Field(default=1_800_000, ge=0, le=LONGEST_INTERVAL_MS)
    #: An incident for skew opens if a member owns more than this many times its fair share of partitions.
    skew: float = Field(default=2.0, ge=1.0, le=1e6)
    #: Number of times that a member must exceed max.poll.interval.ms for an incident.
    poll_timeouts: int = Field(default=2, ge=1, le=16)
    #: Time within which a member must exceed max.poll.interval.ms that often.
    poll_timeouts_within_ms: int = Field(default=3_600_000, ge=1000, le=LONGEST_INTERVAL_MS)
    #: A rebalance that lasts longer than this is stuck.
    rebalance_stuck_ms: int = Field(default=60_000, ge=1000, le=LONGEST_INTERVAL_MS)


class HeartbeatSettings(Section):
    """Intervals of the components' heartbeats, and limits after which a component is late (``[signs]``)."""

    #: Time between two heartbeats of ``collect`` and of ``stream``.
    every_ms: int = Field(default=5000, ge=100, le=60_000)
    #: Time without a heartbeat after which ``serve`` and ``watch`` report a component as silent.
    silent_after_ms: int = Field(default=20_000, ge=100, le=86_400_000)
    #: Age of unprocessed events from which on ``serve`` and ``watch`` report a component as behind.
    behind_after_ms: int = Field(default=60_000, ge=100, le=86_400_000)
    #: Time after which a stopped component is no longer reported, if another component of its kind is alive.
    forget_after_ms: int = Field(default=86_400_000, ge=0)


class ServiceLevel(Section):
    """A service level objective for groups (``[[slo]]``); the first objective that matches a group applies."""

    #: Regular expression for whole group ids.
    groups: Pattern = ".*"
    #: Largest downtime per day (UTC), summed over all partitions, ms.
    downtime_day_ms: int | None = Field(default=None, ge=1)
    #: Largest age of a message that a rebalance delayed, ms.
    worst_delay_ms: int | None = Field(default=None, ge=1, le=LONGEST_INTERVAL_MS)


def service_level(levels: Iterable[ServiceLevel], group_id: str) -> ServiceLevel | None:
    """Return the first objective that matches the group; None if no objective matches."""
    return next((level for level in levels if re.fullmatch(level.groups, group_id)), None)


class Settings(BaseSettings):
    """All settings of one process, in sections."""

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
    clusters: list[ClusterSettings] = Field(default=[])

    @field_validator("clusters")
    @classmethod
    def _check_cluster_names(cls, clusters: list[ClusterSettings], info: ValidationInfo) -> list[ClusterSettings]:
        all_settings = [info.data.get("kafka", KafkaSettings()), *clusters]
        names = {kafka.cluster_name for kafka in all_settings if _CLUSTER_NAME.fullmatch(kafka.cluster_name)}
        if clusters and len(names) < len(all_settings):
            raise ValueError("[kafka] and each entry need different cluster_names: letters, digits, '.', '_' and '-'")
        return clusters

    @classmethod
    def settings_customise_sources(cls, *_: Any, **sources: Any) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources of settings, highest precedence first: the environment overrides the file."""
        return sources["env_settings"], sources["init_settings"]

    @property
    def cluster_settings(self) -> list[Self]:
        """Return the settings of every cluster: these, and a copy for each further cluster in ``clusters``."""
        prefixed = ((kafka, self.topics.model_copy(update={"prefix": kafka.topic_prefix})) for kafka in self.clusters)
        return [self, *(self.model_copy(update={"kafka": kafka, "topics": topics}) for kafka, topics in prefixed)]

    @property
    def collector_id(self) -> str:
        """Return the collector's consumer group and transactional id."""
        return self.topics.prefix + self.collect.group_id

    def default_history(self, cluster_id: str) -> Path:
        """Return the default path of ``serve``'s history: in the user's state folder, named by cluster and prefix."""
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        name = "-".join(part for part in ("history", cluster_id, self.topics.prefix) if part)
        return state / "kafka-rebalance-monitor" / f"{name}.sqlite"


def as_toml(settings: Settings) -> Iterator[str]:
    """Yield the effective settings as lines of TOML, with secrets masked."""
    for table, content in settings.model_dump(mode="json", exclude_none=True).items():
        for entries in content if isinstance(content, list) else [content]:
            yield f"[[{table}]]" if isinstance(content, list) else f"[{table}]"
            for name, value in entries.items():
                # JSON strings, numbers and lists are valid TOML; unprintable characters are escaped in a way that both
                # allow.
                text = json.dumps(value, ensure_ascii=False)
                yield f"{name} = {text if text.isprintable() else json.dumps(value)}"
            yield ""


def load(
    config: Path | None = None, *, bootstrap_servers: str | None = None, topic_prefix: str | None = None
) -> Settings:
    """Load the settings of a process; values from the command line override all other sources.

    Raises InvalidSettings, with all unknown or wrong settings, or if the file is missing or is not valid TOML.
    """
    if unknown := list(_unknown_variables()):
        raise InvalidSettings("; ".join(unknown))
    values = {} if config is None else _read(config)
    try:
        settings = section.validate(Settings, values)
    except (SettingsError, RecursionError) as error:  # pydantic's text does not quote the value, which may be secret
        raise InvalidSettings(f"environment: {error}; lists and tables are written as JSON") from error
    if bootstrap_servers is not None:
        settings.kafka = changed(settings.kafka, "kafka", bootstrap_servers=bootstrap_servers)
    if topic_prefix is not None:
        settings.topics = changed(settings.topics, "topics", prefix=topic_prefix)
    return settings


def _read(config: Path) -> dict[str, Any]:
    try:
        with config.open(encoding="utf-8") as file:
            text = file.read(_MAX_FILE_CHARACTERS + 1)
        if len(text) > _MAX_FILE_CHARACTERS:
            raise InvalidSettings(f"--config {config}: longer than {_MAX_FILE_CHARACTERS} characters, the limit")
        return tomllib.loads(text)
    except OSError as error:
        raise InvalidSettings(f"--config {config}: {os.strerror(error.errno or 0)}") from error
    except (ValueError, RecursionError) as error:  # The file is not UTF-8, is not TOML, or is nested too deeply.
        raise InvalidSettings(f"--config {config}: {error}") from error


def _unknown_variables() -> Iterator[str]:
    """Yield a message for each environment variable with an unknown table, or without a table, in its name.

    Variables with the settings' prefix but without ``__`` are ignored: Kubernetes sets such variables for a service of
    this name.
    """
    tables = {name: section.names(Settings, [name]) for name in Settings.model_fields}
    for name in sorted(name for name in os.environ if name.upper().startswith(_ENVIRONMENT)):
        table, nested, _ = name[len(_ENVIRONMENT) :].lower().partition("__")
        if nested and table not in tables:
            yield f"environment {name}: no table {table!r}; {suggestion(table, tables)}"
        elif not nested:
            for right in (right for right, settings in tables.items() if table in settings):
                yield f"environment {name}: has no effect; write {f'{_ENVIRONMENT}{right}__{table}'.upper()}"
