"""Settings: defaults, then a TOML file, then the environment (``REBALANCE_MONITOR_…``), then the command line."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeVar

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from assignors.errors import BadInput
from streaming.settings.connection import KafkaSettings
from streaming.settings.section import Section

M = TypeVar("M", bound=BaseModel)

_ENVIRONMENT: Final = "REBALANCE_MONITOR_"
#: What Kafka leaves of a topic's name to the prefix, behind which the longest of ours stands.
_LONGEST_PREFIX: Final = 249 - len("rebalance.membership-dlt")


#: A file of settings has a few dozen lines, its tables two levels.
_MAX_FILE: Final = 2**20
_MAX_DEPTH: Final = 20


#: A day: what is asked for more seldom is as good as not asked for.
_LONGEST_INTERVAL_MS: Final = 86_400_000


class InvalidSettings(BadInput):
    """A setting is unknown or has the wrong type."""


class TopicSettings(Section):
    """Names of the topics (``[topics]``): the prefix stands literally before each name.

    The numbers are bounded as in librdkafka, which makes the topics.
    """

    prefix: str = Field(default="", max_length=_LONGEST_PREFIX)
    partitions: int = Field(default=4, ge=1, le=100_000)
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
    def names(self) -> tuple[str, ...]:
        """The four topics that the monitor's records are in."""
        return self.membership, self.diffs, self.assignments, self.dead_letters

    @property
    def episodes(self) -> str:
        """Rounds that belong together, one key an episode, compacted."""
        return f"{self.prefix}rebalance.episodes"

    @property
    def incidents(self) -> str:
        """What somebody should look at, one key an incident, compacted."""
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
    metadata_interval_ms: int = Field(default=5000, ge=100, le=_LONGEST_INTERVAL_MS)
    #: Groups of so many members, under a protocol with epochs, are told step by step what changed, with a full view
    #: now and then; 0: all groups are told in full views.
    changes_from: int = Field(default=100, ge=0, le=1_000_000)
    #: Where groups are seen: in ``__consumer_offsets``, or (polling) by asking their coordinators.
    by: Literal["offsets", "polling"] = "offsets"
    #: By polling: how often a group at rest is asked about …
    poll_interval_ms: int = Field(default=10_000, ge=100, le=_LONGEST_INTERVAL_MS)
    #: … and one in flux; the states of all groups are listed half as often.
    poll_quick_ms: int = Field(default=500, ge=50, le=_LONGEST_INTERVAL_MS)
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
        return _with(self, "collect", **{name: value for name, value in given.items() if value})


class StreamSettings(Section):
    """Where the Spark job keeps its state, and what it tells beside diffs (``[stream]``)."""

    #: In a new checkpoint: on the JVM's heap, or in RocksDB's files beside it. Left out: as the checkpoint does.
    state_store: Literal["memory", "rocksdb"] | None = None
    #: Whether rounds that belong together are told as episodes.
    episodes: bool = True
    #: How long a group is quiet before its episode is over.
    episode_quiet_ms: int = Field(default=120_000, ge=1000, le=_LONGEST_INTERVAL_MS)
    #: One member that is the reason of so many rebalances of an episode makes it a storm.
    episode_storm_turns: int = Field(default=3, ge=2, le=1000)
    #: Observed rounds of so many partitions at most are computed again, and compared; 0: none is.
    expected_partitions: int = Field(default=1000, ge=0, le=1_000_000)
    #: Whom diffs name: everybody; those for whom something changed; or these, of large groups whose collector tells
    #: what changed, and everybody of all others.
    diffs: Literal["auto", "all", "changed"] = "auto"


class IncidentSettings(Section):
    """When something of a group is an incident (``[incidents]``)."""

    #: What is wrong again so soon after it was right is the same incident.
    reopen_ms: int = Field(default=1_800_000, ge=0, le=_LONGEST_INTERVAL_MS)
    #: A member that owns more than so many times its fair share makes a skew.
    skew: float = Field(default=2.0, ge=1.0, le=1e6)
    #: So often a member overruns its poll interval …
    poll_timeouts: int = Field(default=2, ge=1, le=16)
    #: … within so long.
    poll_timeouts_within_ms: int = Field(default=3_600_000, ge=1000, le=_LONGEST_INTERVAL_MS)


class SignSettings(Section):
    """How parts show that they are alive, and when they count as late (``[signs]``)."""

    #: How often ``collect`` and ``stream`` leave a sign of life.
    every_ms: int = Field(default=5000, ge=100, le=3_600_000)
    #: ``serve`` and ``watch``: without a sign for so long, a part counts as silent …
    silent_after_ms: int = Field(default=20_000, ge=100, le=86_400_000)
    #: … and as behind, when what happened so long ago has not gone through it.
    behind_after_ms: int = Field(default=60_000, ge=100, le=86_400_000)
    #: A part that is gone is forgotten after so long, where another of its kind is alive.
    forget_after_ms: int = Field(default=86_400_000, ge=0)


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
    signs: SignSettings = SignSettings()

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

    @property
    def collector_id(self) -> str:
        """The collector's consumer group and transactional id."""
        return self.topics.prefix + self.collect.group_id

    def telling(self, episodes: bool | None, quiet_ms: int | None, diffs: str | None = None) -> Self:
        """The settings with what the command line says of episodes and diffs; None: nothing."""
        said = {"episodes": episodes, "episode_quiet_ms": quiet_ms, "diffs": diffs}
        stream = self.stream.model_copy(update={name: one for name, one in said.items() if one is not None})
        return self.model_copy(update={"stream": stream})

    def default_history(self, cluster_id: str) -> Path:
        """Where ``serve`` keeps its history: a file a cluster and prefix, below the user's state folder."""
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        name = "-".join(part for part in ("history", cluster_id, self.topics.prefix) if part)
        return state / "kafka-rebalance-monitor" / f"{name}.sqlite"


def as_toml(settings: Settings) -> Iterator[str]:
    """Every setting in force, a line each; secrets are masked."""
    for table, entries in settings.model_dump(mode="json", exclude_none=True).items():
        yield f"[{table}]"
        for name, value in entries.items():
            # JSON's strings, numbers and lists are TOML's; what can't be printed is escaped in the way of both.
            text = json.dumps(value, ensure_ascii=False)
            yield f"{name} = {text if text.isprintable() else json.dumps(value)}"
        yield ""


def load(
    config: Path | None = None, *, bootstrap_servers: str | None = None, topic_prefix: str | None = None
) -> Settings:
    """The settings of a process; what the command line gives wins.

    Raises:
        InvalidSettings: the file is missing or no TOML, or settings are unknown or of the wrong type; the
            message names all of them.
    """
    values = {} if config is None else _read(config)
    if strange := list(_strange_variables()):
        raise InvalidSettings("; ".join(strange))
    settings = validated(Settings, values)
    if bootstrap_servers is not None:
        settings.kafka = _with(settings.kafka, "kafka", bootstrap_servers=bootstrap_servers)
    if topic_prefix is not None:
        settings.topics = _with(settings.topics, "topics", prefix=topic_prefix)
    return settings


def _read(config: Path) -> dict[str, Any]:
    try:
        with config.open(encoding="utf-8") as file:
            text = file.read(_MAX_FILE + 1)
        if len(text) > _MAX_FILE:
            raise InvalidSettings(f"--config {config}: longer than {_MAX_FILE} characters, the limit")
        values = tomllib.loads(text)
    except OSError as error:
        raise InvalidSettings(f"--config {config}: {os.strerror(error.errno or 0)}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"--config {config}: {error}") from error
    except ValueError as error:  # Python's bound on the digits of a number
        raise InvalidSettings(f"--config {config}: a number has thousands of digits") from error
    except RecursionError:
        values = None
    if values is None or _nested(values, _MAX_DEPTH):
        raise InvalidSettings(f"--config {config}: nested more than {_MAX_DEPTH} deep, the limit")
    return values


def _nested(value: Any, depth: int) -> bool:
    """Whether tables and lists stand more than ``depth`` deep in each other."""
    level = [value]
    for _ in range(depth + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return bool(level)


def _with(section: M, name: str, **changes: Any) -> M:
    """The section with these settings, held to the same rules."""
    return validated(type(section), section.model_dump(exclude_unset=True) | changes, within=name)


def validated(model: type[M], values: dict[str, Any], *, within: str = "") -> M:
    """The settings in ``values``; ``within`` is the table they stand in, for messages.

    Raises:
        InvalidSettings: some are unknown or have the wrong type; the message names each.
    """
    try:
        return model(**values)
    except ValidationError as error:
        found = "; ".join(_told(model, one, within) for one in error.errors())
        raise InvalidSettings(found) from error
    except SettingsError as error:
        raise InvalidSettings("; ".join(_not_json()) or f"the environment: {error}") from error
    except RecursionError as error:
        raise InvalidSettings("the environment: a setting's JSON is nested too deep") from error


def _told(model: type[BaseModel], error: ErrorDetails, within: str) -> str:
    """One thing that is wrong, and what would be right."""
    *path, last = (str(part) for part in error["loc"]) if error["loc"] else ("",)
    where = ".".join(part for part in (within, *path, last) if part)
    if error["type"] == "extra_forbidden":
        known = _names(model, path)
        guess = get_close_matches(last, known, n=1)
        return f"setting {where}: unknown; " + (
            f"did you mean {'.'.join([*path, guess[0]])}?" if guess else f"known are {', '.join(known)}"
        )
    if error["type"] in {"model_type", "dict_type"}:
        return f"setting {where}: is a table, [{where}]"
    return f"setting {where}: {error['msg'].removeprefix('Value error, ')}"


def _names(model: type[BaseModel], path: list[str]) -> list[str]:
    """The settings of a table."""
    for part in path:
        inner = model.model_fields[part].annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            model = inner
    return list(model.model_fields)


def _sections() -> dict[str, list[str]]:
    return {name: _names(Settings, [name]) for name in Settings.model_fields}


def _strange_variables() -> Iterator[str]:
    """Variables that are meant as settings but reach none: of an unknown table, or with no table at all.

    Others of our prefix are left alone: Kubernetes sets some for a service of this name, never with ``__``.
    """
    sections = _sections()
    for name in sorted(os.environ):
        if not name.upper().startswith(_ENVIRONMENT):
            continue
        section, nested, _ = name[len(_ENVIRONMENT) :].lower().partition("__")
        if nested and section not in sections:
            guess = get_close_matches(section, sections, n=1)
            yield f"environment {name}: no table {section!r}; " + (
                f"did you mean {guess[0]}?" if guess else f"known are {', '.join(sections)}"
            )
        for table, settings in sections.items():
            if not nested and section in settings:
                right = f"{_ENVIRONMENT}{table}__{section}".upper()
                yield f"environment {name}: has no effect; write {right}"


def _not_json() -> Iterator[str]:
    """Variables that hold a list or a table and are no JSON; their values may be secret."""
    for name in sorted(os.environ):
        section, nested, setting = name.upper().removeprefix(_ENVIRONMENT).lower().partition("__")
        if not name.upper().startswith(_ENVIRONMENT) or section not in _sections():
            continue
        table = Settings.model_fields[section].annotation
        field = getattr(table, "model_fields", {}).get(setting)
        if nested and (field is None or "list" not in str(field.annotation)):
            continue
        with suppress(ValueError, RecursionError):
            json.loads(os.environ[name])
            continue
        what = (
            'a list, written as JSON: ["a", "b"]' if nested else 'a table, written as JSON: {"name": "value"}'
        )
        yield f"environment {name}: is {what}"
